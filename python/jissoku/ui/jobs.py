"""Commands that the pages have started or will start, and the thread that runs them one at a time.

The queue is a file in `.ui` below the first folder of runs, which survives the server. One server
writes it at a time. A job is a process in a session of its own and outlives the server: the next
one finds it by the number and start time in the queue.
"""

import fcntl
import os
import secrets
import signal
import subprocess
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from threading import Condition, Event, Thread, Timer
from typing import Any

import msgspec

from jissoku.errors import InputError
from jissoku.model.updated import updated
from jissoku.system.background import on_cores
from jissoku.system.measurement_lock import is_measuring
from jissoku.system.processes import start_ticks
from jissoku.system.program import PROGRAM

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
    """A command, with its arguments after `jissoku` and the folder of its records.

    `start_ticks` is its process's, because process ids are reused. `code` is None if it has not
    ended, or ended while no server ran. Seconds are an estimate; None: not known.
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
    def is_waiting(self) -> bool:
        return self.state is JobState.WAITING

    @property
    def is_live(self) -> bool:
        return self.state in {JobState.WAITING, JobState.RUNNING, JobState.STOPPING}


class JobQueue:
    """All jobs in the order of their start; its methods may be called from several threads."""

    def __init__(self, root: Path) -> None:
        """Reads the queue of a folder of runs, or raises InputError: another server may have it."""
        self.folder = root / FOLDER
        self._file = self.folder / "queue.json"
        self._owned: int | None = None
        self._port = 0
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
        """A job by its id, or KeyError."""
        with self.changed:
            return self._jobs[key]

    def add(
        self,
        title: str,
        arguments: tuple[str, ...],
        folder: Path,
        seconds: tuple[float, float | None] = (0.0, None),
    ) -> Job:
        """Adds a job at the end; InputError: the queue is full, or cannot be written."""
        with self.changed:
            if sum(job.is_waiting for job in self._jobs.values()) >= WAITING_MAX:
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

    def update(self, key: str, **changes: Any) -> None:
        """Changes fields of a job, or raises InputError, and then nothing has changed."""
        with self.changed:
            self._replace(self._jobs | {key: updated(self._jobs[key], **changes)})

    def note(self, key: str, **changes: Any) -> None:
        """The same for what has happened already: known also if the queue cannot be written."""
        with self.changed:
            try:
                self.update(key, **changes)
            except InputError:
                self._jobs[key] = updated(self._jobs[key], **changes)
                self.changed.notify_all()

    def put_first(self, key: str) -> None:
        """Lets a waiting job run before all others that wait; any other job stays where it is."""
        with self.changed:
            if self._jobs[key].is_waiting:
                jobs = sorted(self._jobs.values(), key=lambda job: (job.is_waiting, job.id != key))
                self._replace({job.id: job for job in jobs})

    def to_run(self) -> Job | None:
        """The job to run now: one that runs already, else the first that waits."""
        with self.changed:
            live = [job for job in self._jobs.values() if job.is_live]
            return min(live, key=lambda job: job.is_waiting, default=None)

    def close(self) -> None:
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
            port = os.read(descriptor, 5).decode(errors="replace")
            os.close(descriptor)
            how = f"`jissoku ui --port {port}` prints a link to them" if port else "or end it"
            raise InputError(
                f"another `jissoku ui` has the queue of {self.folder.parent}: use its pages, {how}"
            ) from None
        self._owned = descriptor
        self.served_at(self._port)

    def served_at(self, port: int) -> None:
        """Lets those who find the queue taken know where its pages are."""
        self._port = port
        if self._owned is not None:
            with suppress(OSError):
                os.truncate(self._owned, 0)
                os.pwrite(self._owned, str(port or "").encode(), 0)

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


# Between SIGINT, after which a run ends its targets and keeps its trials, and SIGKILL.
STOP_LIMIT_S = 60.0

# How often a job that another server has started is looked for, and whether a measurement that was
# started elsewhere has ended.
ADOPTED_LOOK_S = 1.0


class Runner:
    """A thread that runs jobs. As a context manager it ends with the block; a job goes on."""

    def __init__(
        self,
        queue: JobQueue,
        command: Sequence[str] = PROGRAM,
        cores: Collection[int] | None = None,
    ) -> None:
        """Jobs may use `cores`; default: those of the thread that enters the block."""
        self.queue = queue
        self._command = tuple(command)
        self._cores = cores
        self._stop = Event()
        self._thread = Thread(target=self._run, name="jobs", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        """Starts no further job. The thread ends with the process if a job runs."""
        self._stop.set()
        with self.queue.changed:
            self.queue.changed.notify_all()

    def cancel(self, key: str) -> None:
        """Takes a job out of the queue, or interrupts it; InputError: it cannot be written."""
        with self.queue.changed:
            job = self.queue.job(key)
            if job.is_waiting:
                self.queue.update(key, state=JobState.CANCELLED)
            elif job.state is JobState.RUNNING and job.pid and is_alive(job):
                self.queue.note(key, state=JobState.STOPPING)
                with suppress(ProcessLookupError):
                    os.kill(job.pid, signal.SIGINT)
                timer = Timer(STOP_LIMIT_S, _kill, [job])
                timer.daemon = True
                timer.start()

    def is_held(self) -> bool:
        """Whether the next job waits for the end of a measurement that was started elsewhere."""
        job = self.queue.to_run()
        return job is not None and job.is_waiting and is_measuring()

    def _run(self) -> None:
        while not self._stop.is_set():
            with self.queue.changed:
                job = self.queue.to_run()
                if job is None:
                    self.queue.changed.wait()
                    continue
            if not job.is_waiting:
                # Another server has started it.
                while is_alive(job):
                    if self._stop.wait(ADOPTED_LOOK_S):
                        return
                self.queue.note(job.id, state=JobState.ENDED)
            elif is_measuring():
                # It would be refused, or disturb that measurement.
                self._stop.wait(ADOPTED_LOOK_S)
            else:
                self._start(job)

    def _start(self, job: Job) -> None:
        """Runs a job to its end, unless it no longer waits."""
        log = log_file(self.queue, job)
        try:
            log.parent.mkdir(exist_ok=True)
            with log.open("wb") as output, self.queue.changed:
                if not self.queue.job(job.id).is_waiting:
                    return
                with on_cores(self._cores or os.sched_getaffinity(0)):
                    process = subprocess.Popen(
                        [*self._command, *job.arguments],
                        stdin=subprocess.DEVNULL,
                        stdout=output,
                        stderr=subprocess.STDOUT,
                        start_new_session=True,
                    )
                pid, ticks = process.pid, start_ticks(process.pid)
                self.queue.note(job.id, state=JobState.RUNNING, pid=pid, start_ticks=ticks)
        except OSError as error:
            with suppress(OSError):
                log.write_text(f"It cannot be started: {error.strerror}\n", encoding="utf-8")
            self.queue.note(job.id, state=JobState.ENDED, code=1)
            return
        self.queue.note(job.id, state=JobState.ENDED, code=process.wait())


def is_alive(job: Job) -> bool:
    return job.start_ticks > 0 and start_ticks(job.pid) == job.start_ticks


def log_file(queue: JobQueue, job: Job) -> Path:
    return queue.folder / "logs" / f"{job.id}.txt"


def _kill(job: Job) -> None:
    if is_alive(job):
        with suppress(ProcessLookupError):
            os.killpg(job.pid, signal.SIGKILL)


@dataclass(frozen=True, slots=True)
class JobServices:
    """What pages need to start jobs.

    `root` is where records of new runs go. `check` parses a command line as the terminal does, and
    raises InputError. Commands, files and URLs are accepted if it `allows_commands`.
    """

    queue: JobQueue
    runner: Runner
    root: Path
    check: Callable[[Sequence[str]], None]
    allows_commands: bool = False
