"""Runs the jobs of a queue, one at a time, each as a process in a session of its own.

A job outlives the server: the next one finds its process by the number and start time in the queue.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread, Timer

from jissoku.model.updated import updated
from jissoku.system.background import on_cores
from jissoku.system.measurement_lock import is_measuring
from jissoku.system.processes import start_ticks
from jissoku.ui.jobs import Job, JobQueue, JobState, cancelled

COMMAND = (sys.executable, "-m", "jissoku")

# Between SIGINT, after which a run ends its targets and keeps its trials, and SIGKILL.
STOP_LIMIT_S = 60.0

# How often a job that another server has started is looked for, and whether a measurement that was
# started elsewhere has ended.
ADOPTED_LOOK_S = 1.0

# Of a job whose process cannot be started, as of a command that has failed.
NOT_STARTED = 1


class Runner:
    """A thread that runs jobs. As a context manager it ends with the block; a job goes on."""

    def __init__(
        self,
        queue: JobQueue,
        command: Sequence[str] = COMMAND,
        cores: Collection[int] | None = None,
    ) -> None:
        """Starts nothing yet.

        Args:
            queue: Where the jobs are.
            command: The program that gets a job's arguments.
            cores: Which a job may use; default: those of the thread that enters the block.
        """
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
        """Takes a job out of the queue, or interrupts it.

        Raises:
            KeyError: There is no such job.
            InputError: It waits, and the queue cannot be written; it still waits.
        """
        with self.queue.changed:
            job = self.queue.job(key)
            if job.state is JobState.WAITING:
                self.queue.update(key, cancelled)
            elif job.state is JobState.RUNNING and job.pid and is_alive(job):
                self.queue.note(job.id, lambda job: updated(job, state=JobState.STOPPING))
                with suppress(ProcessLookupError):
                    os.kill(job.pid, signal.SIGINT)
                timer = Timer(STOP_LIMIT_S, _kill, [job])
                timer.daemon = True
                timer.start()

    def is_held(self) -> bool:
        """Whether the next job waits for the end of a measurement that was started elsewhere."""
        job = self.queue.to_run()
        return job is not None and job.state is JobState.WAITING and is_measuring()

    def _run(self) -> None:
        while not self._stop.is_set():
            with self.queue.changed:
                job = self.queue.to_run()
                if job is None:
                    self.queue.changed.wait()
                    continue
            if job.state is not JobState.WAITING:
                self._adopt(job)
            elif is_measuring():
                # It would be refused, or disturb that measurement.
                self._stop.wait(ADOPTED_LOOK_S)
            else:
                self._start(job)

    def _start(self, job: Job) -> None:
        log = log_file(self.queue, job)
        try:
            process = self._started(job, log)
        except OSError as error:
            with suppress(OSError):
                log.write_text(f"It cannot be started: {error.strerror}\n", encoding="utf-8")
            self.queue.note(
                job.id, lambda job: updated(job, state=JobState.ENDED, code=NOT_STARTED)
            )
            return
        if process is not None:
            code = process.wait()
            self.queue.note(job.id, lambda job: updated(job, state=JobState.ENDED, code=code))

    def _started(self, job: Job, log: Path) -> subprocess.Popen[bytes] | None:
        """The process of a job; None if it no longer waits."""
        log.parent.mkdir(exist_ok=True)
        with log.open("wb") as output, self.queue.changed:
            if self.queue.job(job.id).state is not JobState.WAITING:
                return None
            with on_cores(self._cores or os.sched_getaffinity(0)):
                process = subprocess.Popen(
                    [*self._command, *job.arguments],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            ticks = start_ticks(process.pid)
            self.queue.note(
                job.id,
                lambda job: updated(
                    job, state=JobState.RUNNING, pid=process.pid, start_ticks=ticks
                ),
            )
        return process

    def _adopt(self, job: Job) -> None:
        """Waits for a job that another server has started."""
        while is_alive(job):
            if self._stop.wait(ADOPTED_LOOK_S):
                return
        self.queue.note(job.id, lambda job: updated(job, state=JobState.ENDED))


def is_alive(job: Job) -> bool:
    """Whether a job's process runs."""
    return job.start_ticks > 0 and start_ticks(job.pid) == job.start_ticks


def log_file(queue: JobQueue, job: Job) -> Path:
    """What a job's process prints."""
    return queue.folder / "logs" / f"{job.id}.txt"


def _kill(job: Job) -> None:
    if is_alive(job):
        with suppress(ProcessLookupError):
            os.killpg(job.pid, signal.SIGKILL)
