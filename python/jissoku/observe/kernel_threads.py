"""CPU time of the kernel's own threads, which work for any process.

What a target has done by them costs as much as what it does itself, and no process is charged.
"""

import time
from collections.abc import Mapping
from pathlib import Path

# Whose children all of them are; in a container the number may be another process's.
PARENT = 2
PARENT_NAME = "kthreadd"

# A process's clock (clock_getcpuclockid(3)); the C library has the name for it, Python has not.
CPU_CLOCK = 2


def cpu_ns() -> dict[int, int]:
    """What each has used so far, in nanoseconds."""
    return {pid: used for pid in _threads() if (used := _used(pid)) is not None}


def spent_ns(before: Mapping[int, int], after: Mapping[int, int]) -> int | None:
    """What all of them used between two readings; one that ended in between took its share along.

    None where this kernel shows none of them, as in a container.
    """
    if not before:
        return None
    return sum(used - before.get(pid, 0) for pid, used in after.items())


def _threads() -> list[int]:
    folder = Path(f"/proc/{PARENT}/task/{PARENT}")
    try:
        if (folder / "comm").read_text().strip() != PARENT_NAME:
            return []
        return [int(pid) for pid in (folder / "children").read_text().split()]
    except OSError:
        return []


def _used(pid: int) -> int | None:
    try:
        return time.clock_gettime_ns((~pid << 3) | CPU_CLOCK)
    except OSError:
        return None  # It ended while we were looking.
