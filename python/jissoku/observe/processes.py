"""The processes of one target, and the memory they hold."""

import resource
from collections.abc import Iterable, Mapping
from pathlib import Path

PAGE_SIZE = resource.getpagesize()

# Of proc_pid_stat(5), counted from its third field on: the second, a name, may hold anything.
PARENT, SESSION, FAULTS, USER, SYSTEM, CORE = 1, 3, 9, 11, 12, 36

Stat = list[str]


def all_processes() -> dict[int, Stat]:
    """Every process of the machine, each with its /proc/PID/stat from the third field on."""
    found: dict[int, Stat] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = path.read_text()
        except OSError:
            continue  # It ended while we were looking.
        found[int(path.parent.name)] = text[text.rindex(")") + 2 :].split()
    return found


def process_tree(root: int, processes: Mapping[int, Stat]) -> set[int]:
    """A target's processes: `root`, the session that it leads, and all their descendants.

    The load generator counts the same processes.
    """
    return {pid for pid in processes if _belongs(pid, root, processes)}


def rss_bytes(pids: Iterable[int]) -> int:
    """Resident memory in bytes (proc_pid_statm(5)); pages that processes share count in each."""
    pages = 0
    for pid in pids:
        try:
            pages += int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        except OSError:
            continue  # It ended, and holds nothing.
    return pages * PAGE_SIZE


def _belongs(pid: int, root: int, processes: Mapping[int, Stat]) -> bool:
    seen: set[int] = set()
    while pid in processes and pid not in seen:
        if root in {pid, int(processes[pid][SESSION])}:
            return True
        seen.add(pid)
        pid = int(processes[pid][PARENT])
    return False
