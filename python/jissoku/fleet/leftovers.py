"""Targets of an agent that was killed together with its supervisor.

Each of them alone is enough to end all targets; without both no process does, until the next agent
starts. Targets are known by the mark in their environment, which has the process that started them.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from jissoku.system.address import Address
from jissoku.system.process_session import ProcessSession
from jissoku.system.processes import PROC, all_processes, environment
from jissoku.targets.process import MARK
from jissoku.targets.supervisor import UNKNOWN_PID


def end_leftovers() -> Iterator[str]:
    """Ends them, and returns a sentence for each; none whose process may still live.

    A process of another namespace of processes is left alone: its mark has another numbering.
    """
    living = all_processes()
    found: dict[bytes, list[int]] = {}
    for pid, stat in living.items():
        for entry in () if stat.has_exited else environment(pid):
            if entry.startswith(f"{MARK}=".encode()) and _namespace(pid) == _namespace(os.getpid()):
                found.setdefault(entry, []).append(pid)
    for mark, pids in found.items():
        owner = mark.partition(b"=")[2].partition(b"-")[0]
        if not owner.isdigit() or int(owner) in living:
            continue
        folders = {_folder(pid) for pid in pids}
        try:
            ProcessSession(UNKNOWN_PID, mark, 0, Address()).end()
        except TimeoutError as error:
            yield f"Of an earlier run {error}."
            continue
        yield f"Ended what a killed run has left: {', '.join(map(str, sorted(pids)))}."
        for folder in folders - {None}:
            shutil.rmtree(str(folder), ignore_errors=True)


def _namespace(pid: int) -> str:
    with suppress(OSError):
        return str((PROC / str(pid) / "ns" / "pid").readlink())
    return ""


def _folder(pid: int) -> Path | None:
    """The folder of a start, in which a target of a recipe runs."""
    with suppress(OSError):
        found = (PROC / str(pid) / "cwd").readlink()
        if found.parent == Path(tempfile.gettempdir()) and found.name.startswith("jissoku-"):
            return found
    return None
