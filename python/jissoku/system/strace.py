"""strace(1) attached to all threads of running processes.

Tracing slows a process by a factor, so nothing is timed meanwhile. `strace_output` parses its
output.
"""

import os
import select
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic_ns

from jissoku.errors import JissokuError
from jissoku.system.processes import PROC

# Options: a table of counts by name, or a line for each call with the paths of its descriptors.
COUNTS = ("-c",)
CALLS = ("-y", "-a", "1", "-s", "48")

ATTACH_LIMIT_NS = 10_000_000_000
DETACH_LIMIT_S = 10.0
POLL_MS = 5

MISSING = "strace is not installed"
INSTALL = "sudo apt-get install strace"


class StraceError(JissokuError):
    """Tracing is impossible; the message gives the reason.

    Attributes:
        hint: How to enable it.
    """

    def __init__(self, message: str, hint: str) -> None:
        """Stores the remedy with the message."""
        super().__init__(message)
        self.hint = hint


@dataclass(slots=True)
class StraceText:
    """The output of strace; empty until it has detached from the processes."""

    text: str = ""


def missing_reason() -> str:
    """Why tracing is impossible here; empty if no reason is known beforehand."""
    if shutil.which("strace"):
        return ""
    return f"{MISSING}, so no system call was counted: {INSTALL}"


@contextmanager
def traced(pids: Iterable[int], options: Sequence[str]) -> Iterator[StraceText]:
    """Traces some processes, all their threads, and processes that they start meanwhile.

    Args:
        pids: The running processes.
        options: `COUNTS` or `CALLS`.

    Raises:
        StraceError: strace is not installed, or may not attach.
    """
    program = shutil.which("strace")
    if program is None:
        raise StraceError(MISSING, INSTALL)
    pids = sorted(pids)
    found = StraceText()
    with tempfile.TemporaryDirectory(prefix="jissoku-", ignore_cleanup_errors=True) as folder:
        path = Path(folder) / "strace"
        attach = [word for pid in pids for word in ("-p", str(pid))]
        # Quiet, since its messages about attached processes are not needed.
        with subprocess.Popen(
            [program, "-f", "-q", *options, "-o", str(path), *attach],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        ) as tracer:
            try:
                _wait_attached(tracer, pids)
                yield found
            finally:
                tracer.send_signal(signal.SIGINT)
                try:
                    tracer.communicate(timeout=DETACH_LIMIT_S)
                except subprocess.TimeoutExpired:
                    tracer.kill()
        found.text = path.read_text(errors="replace") if path.exists() else ""


def _wait_attached(tracer: subprocess.Popen[bytes], pids: Sequence[int]) -> None:
    """Waits until every thread is traced."""
    deadline = monotonic_ns() + ATTACH_LIMIT_NS
    assert tracer.stderr is not None, "it is a pipe"
    ends = select.poll()
    handle = os.pidfd_open(tracer.pid)
    try:
        ends.register(handle, select.POLLIN)
        while not _is_attached(tracer.pid, pids):
            if ends.poll(POLL_MS):
                lines = tracer.stderr.read().decode(errors="replace").strip().splitlines()
                raise StraceError(
                    f"strace cannot attach: {lines[-1] if lines else 'it ended'}",
                    "run as the target's user or root, with kernel.yama.ptrace_scope=0",
                )
            if monotonic_ns() > deadline:
                raise StraceError("strace did not attach in time", "run it again")
    finally:
        os.close(handle)


def _is_attached(tracer: int, pids: Sequence[int]) -> bool:
    for pid in pids:
        for status in (PROC / str(pid) / "task").glob("*/status"):
            try:
                text = status.read_text()
            except OSError:
                continue  # It ended meanwhile.
            if f"\nTracerPid:\t{tracer}\n" not in text:
                return False
    return True
