"""Opens a page that follows a run, in processes of its own."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from jissoku.errors import JissokuError
from jissoku.system.processes import start_ticks
from jissoku.ui.jobs import JobQueue, JobState
from tests.viewer_study.follower import FOLLOWING

LINK = re.compile(r"http://\S+/enter\?token=\S+")
PAGES = (sys.executable, "-m", "jissoku", "ui", "--port", "0")
FOLLOWER = (sys.executable, "-m", "tests.viewer_study.follower")

# Of ending both; after it they are killed.
END_LIMIT_S = 30.0


@contextmanager
def open_page(folder: Path, pages: Sequence[str] = PAGES) -> Iterator[None]:
    """During the block `jissoku ui` runs, and its page of the run in this folder is followed.

    The run is one of this process: the page shows it as a job that an earlier server has started.

    Args:
        folder: Of the run's records; need not be there yet.
        pages: The command that serves, without its folder.

    Raises:
        JissokuError: The pages cannot be served or followed.
    """
    with TemporaryDirectory(prefix="jissoku-page-") as root:
        path = _add_job(Path(root), folder)
        with _process([*pages, "--runs", root]) as server:
            link = LINK.search(_line(server))
            if link is None:
                raise JissokuError("`jissoku ui` has printed no link: start it to see why")
            with _process([*FOLLOWER, link[0], path]) as follower:
                if _line(follower).strip() != FOLLOWING:
                    raise JissokuError("the page of the run cannot be followed")
                yield


def _add_job(root: Path, folder: Path) -> str:
    """A queue in which this process is the job that runs; the path of its page."""
    queue = JobQueue(root)
    job = queue.add("self-test", ("self-test",), folder)
    pid = os.getpid()
    ticks = start_ticks(pid)
    queue.update(job.id, state=JobState.RUNNING, pid=pid, start_ticks=ticks)
    queue.close()
    return f"/jobs/{job.id}"


@contextmanager
def _process(command: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
    """A process that is ended with the block; Ctrl-C in the terminal does not reach it."""
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(END_LIMIT_S)
            except subprocess.TimeoutExpired:
                process.kill()


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None, "it is a pipe"
    return process.stdout.readline()
