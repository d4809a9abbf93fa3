"""`strace -c` beside processes that run: which system calls they make, and how many.

Watching every call slows a process several times over, so nothing is timed meanwhile.
"""

import re
import select
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path
from time import monotonic_ns

ATTACH_LIMIT_NS = 10_000_000_000
DETACH_LIMIT_S = 10.0

MISSING = "strace is not installed, so no system call was counted: sudo apt-get install strace"

# A row of `strace -c`: % time, seconds, usecs/call, calls, errors (or nothing), name.
ROW = re.compile(r"^\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s+(?:\d+\s+)?([a-z_]\w*)$")


def missing_reason() -> str:
    """Why nothing can be watched here; empty if it can, for all that is known beforehand."""
    return "" if shutil.which("strace") else MISSING


def calls(table: str) -> dict[str, int]:
    """Reads the table that `strace -c` writes: calls by name."""
    rows = (ROW.match(line) for line in table.splitlines())
    return {row[2]: int(row[1]) for row in rows if row and row[2] != "total"}


class Trace:
    """strace beside some processes and all that they start, from attaching to detaching."""

    def __init__(self, pids: Iterable[int]) -> None:
        """Begins to attach, where strace is installed."""
        pids = sorted(pids)
        self._wanted = len(pids)
        self._process: subprocess.Popen[bytes] | None = None
        program = shutil.which("strace")
        if program is None:
            return
        self._folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self._table = Path(self._folder.name) / "table"
        attach = [word for pid in pids for word in ("-p", str(pid))]
        self._process = subprocess.Popen(  # unbuffered, since select knows of no buffer
            [program, "-f", "-c", "-o", str(self._table), *attach],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            bufsize=0,
        )

    def attached(self) -> str:
        """Waits until every process is watched; the reason why not, or nothing."""
        if self._process is None:
            return MISSING
        stderr = self._process.stderr
        assert stderr is not None, "it is a pipe"
        said, deadline = b"", monotonic_ns() + ATTACH_LIMIT_NS
        while said.count(b" attached") < self._wanted:
            rest_s = (deadline - monotonic_ns()) / 1e9
            if rest_s <= 0 or not select.select([stderr], [], [], rest_s)[0]:
                return f"strace did not attach within {ATTACH_LIMIT_NS / 1e9:g} s"
            piece = stderr.read(4096)
            if not piece:
                return f"strace cannot watch: {said.decode(errors='replace').strip()}"
            said += piece
        return ""

    def ended(self) -> dict[str, int]:
        """Lets go of the processes, and returns their calls by name."""
        if self._process is None:
            return {}
        self._process.send_signal(signal.SIGINT)
        try:
            self._process.communicate(timeout=DETACH_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
        with self._folder:
            text = self._table.read_text(errors="replace") if self._table.exists() else ""
        return calls(text)
