"""Commands that the pages have started or will start: a queue in a file, which survives the server.

The file is in `.ui` below the first folder of runs. One server writes it at a time.
"""

import fcntl
import os
import secrets
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from threading import Condition

import msgspec

from jissoku.errors import InputError
from jissoku.model.updated import updated

FOLDER = ".ui"
WAITING_MAX = 20
# Ended jobs are kept for the list; their records stay in any case.
ENDED_MAX = 50


class JobState(StrEnum):
    WAITING = "waiting"
    RUNNING = "running"
    STOPPING = "stopping"
    ENDED = "ended"
    CANCELLED = "cancelled"


class Job(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A command.

    Attributes:
        arguments: After `jissoku`.
        folder: The folder of its records.
        pid: The id of its process, after its start.
        start_ticks: Start time of that process, because process ids are reused.
        code: Its exit code; None if it has not ended, or ended while no server ran.
        seconds_min, seconds_max: Estimated duration; None: not known.
    """

    id: str
    title: str
    arguments: tuple[str, ...]
    folder: str
    state: JobState = JobState.WAITING
    pid: int = 0
    start_ticks: int = 0
    code: int | None = None
    seconds_min: float = 0.0
    seconds_max: float | None = None

    @property
    def is_live(self) -> bool:
        """Whether it waits or runs."""
        return self.state in {JobState.WAITING, JobState.RUNNING, JobState.STOPPING}


class JobQueue:
    """All jobs in the order of their start; its methods may be called from several threads."""

    def __init__(self, root: Path) -> None:
        """Reads the queue of a folder of runs, if it has one.

        Raises:
            InputError: Another server has it, or it cannot be read.
        """
        self._root = root
        self.folder = root / FOLDER
        self._file = self.folder / "queue.json"
        self._owned: int | None = None
        self.changed = Condition()
        self._jobs: dict[str, Job] = {}
        if self._file.is_file():
            self._own()
            try:
                found = msgspec.json.decode(self._file.read_bytes(), type=tuple[Job, ...])
            except (OSError, msgspec.MsgspecError) as error:
                raise InputError(
                    f"the queue {self._file} cannot be read: {error}; delete it to begin anew"
                ) from error
            self._jobs = {job.id: job for job in found}

    def jobs(self) -> tuple[Job, ...]:
        """All jobs, those that wait in the order in which they will run."""
        with self.changed:
            return tuple(self._jobs.values())

    def job(self, key: str) -> Job:
        """A job.

        Raises:
            KeyError: There is no job with this id.
        """
        with self.changed:
            return self._jobs[key]

    def add(
        self,
        title: str,
        arguments: tuple[str, ...],
        folder: Path,
        seconds: tuple[float, float | None] = (0.0, None),
    ) -> Job:
        """Adds a job at the end.

        Args:
            title: For people.
            arguments: After `jissoku`.
            folder: Of its records.
            seconds: Its estimated duration, at least and at most.

        Raises:
            InputError: The queue is full, or cannot be written.
        """
        with self.changed:
            waiting = [job for job in self._jobs.values() if job.state is JobState.WAITING]
            if len(waiting) >= WAITING_MAX:
                raise InputError(f"{WAITING_MAX} jobs wait already: cancel one")
            self._own()
            job = Job(
                id=secrets.token_hex(8),
                title=title,
                arguments=arguments,
                folder=str(folder),
                seconds_min=seconds[0],
                seconds_max=seconds[1],
            )
            jobs = self._jobs | {job.id: job}
            ended = [one.id for one in jobs.values() if not one.is_live]
            for key in ended[:-ENDED_MAX]:
                del jobs[key]
            self._replace(jobs)
            return job

    def update(self, key: str, change: Callable[[Job], Job]) -> Job:
        """Replaces a job by a changed one, and notifies waiting threads.

        Raises:
            KeyError: There is no such job.
            InputError: The queue cannot be written; nothing has changed.
        """
        with self.changed:
            changed = change(self._jobs[key])
            self._replace(self._jobs | {key: changed})
            return changed

    def note(self, key: str, change: Callable[[Job], Job]) -> None:
        """The same for what has happened already: known also if the queue cannot be written.

        Raises:
            KeyError: There is no such job.
        """
        with self.changed:
            jobs = self._jobs | {key: change(self._jobs[key])}
            try:
                self._replace(jobs)
            except InputError:
                self._jobs = jobs
                self.changed.notify_all()

    def put_first(self, key: str) -> None:
        """Lets a waiting job run before all others that wait; any other job stays where it is.

        Raises:
            KeyError: There is no such job.
            InputError: The queue cannot be written; nothing has changed.
        """
        with self.changed:
            if self._jobs[key].state is not JobState.WAITING:
                return
            waiting = [one for one in self._jobs.values() if one.state is JobState.WAITING]
            waiting.sort(key=lambda one: one.id != key)
            others = [one for one in self._jobs.values() if one.state is not JobState.WAITING]
            self._replace({job.id: job for job in (*others, *waiting)})

    def to_run(self) -> Job | None:
        """The job to run now: one that runs already, else the first that waits."""
        with self.changed:
            live = [job for job in self._jobs.values() if job.is_live]
            live.sort(key=lambda job: job.state is JobState.WAITING)
            return live[0] if live else None

    def close(self) -> None:
        """Leaves the queue to another server."""
        if self._owned is not None:
            os.close(self._owned)
            self._owned = None

    def _own(self) -> None:
        """Takes the lock of the queue (flock(2)), unless it is held already."""
        if self._owned is not None:
            return
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise InputError(f"{self.folder} cannot be written: {error.strerror}") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise InputError(
                f"another `jissoku ui` has the queue of {self._root}: use its pages, or end it"
            ) from None
        self._owned = descriptor

    def _replace(self, jobs: dict[str, Job]) -> None:
        """Writes the whole queue at once, and then has it; the lock of `changed` is held."""
        fresh = self._file.with_suffix(".new")
        try:
            fresh.write_bytes(msgspec.json.encode(tuple(jobs.values())) + b"\n")
            fresh.replace(self._file)
        except OSError as error:
            raise InputError(f"{self._file} cannot be written: {error.strerror}") from error
        self._jobs = jobs
        self.changed.notify_all()


def cancelled(job: Job) -> Job:
    return updated(job, state=JobState.CANCELLED)
