"""CPU time of the kernel's own threads, which work for any process.

Work that they do for a target costs CPU time, which is not accounted to any process.
"""

from collections.abc import Mapping

from jissoku.system import processes
from jissoku.system.processes import KERNEL_THREADS_PARENT, PROC

PARENT_NAME = "kthreadd"


def cpu_ns() -> dict[int, int]:
    """CPU nanoseconds of each so far."""
    return {pid: used for pid in _threads() if (used := _used(pid)) is not None}


def spent_ns(before: Mapping[int, int], after: Mapping[int, int]) -> int | None:
    """CPU nanoseconds of all between two readings; the time of a thread that ended is missing.

    None if none of them is visible, as in a container.
    """
    if not before:
        return None
    return sum(used - before.get(pid, 0) for pid, used in after.items())


def _threads() -> list[int]:
    folder = PROC / str(KERNEL_THREADS_PARENT) / "task" / str(KERNEL_THREADS_PARENT)
    try:
        if (folder / "comm").read_text().strip() != PARENT_NAME:
            return []
        return [int(pid) for pid in (folder / "children").read_text().split()]
    except OSError:
        return []


def _used(pid: int) -> int | None:
    try:
        return processes.cpu_ns(pid)
    except OSError:
        return None  # It has ended.
