"""How much memory the processes of one target hold."""

import resource
from pathlib import Path

PAGE_SIZE = resource.getpagesize()


def members(root: int) -> dict[int, list[str]]:
    """A target's processes, each with its /proc/PID/stat fields from the third on.

    They are `root`, the session that it leads, and all their descendants: what the stopwatch
    counts, too.
    """
    everyone: dict[int, list[str]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = path.read_text()
        except OSError:
            continue  # It ended while we were looking.
        everyone[int(path.parent.name)] = text[text.rindex(")") + 2 :].split()
    return {pid: fields for pid, fields in everyone.items() if _belongs(pid, root, everyone)}


def rss_bytes(root: int) -> int:
    """Resident memory in bytes, summed over a target; pages that processes share count in each."""
    return sum(int(fields[21]) for fields in members(root).values()) * PAGE_SIZE


def _belongs(pid: int, root: int, everyone: dict[int, list[str]]) -> bool:
    seen: set[int] = set()
    while pid in everyone and pid not in seen:
        if root in {pid, int(everyone[pid][3])}:
            return True
        seen.add(pid)
        pid = int(everyone[pid][1])
    return False
