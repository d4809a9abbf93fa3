"""Waits until the server's cores are idle, as earlier processes may still be ending."""

import time
from collections.abc import Callable, Collection, Iterable, Iterator

from jissoku.system.cpu_time import STAT, core_times

# Idle fraction of the cores' time in one interval. With a tick of 10 ms an interval has 10 ticks
# per core, so on one core no tick may be busy.
IDLE_MIN = 0.97
SPAN_S = 0.1

# If the cores are not idle by then, the trial runs all the same and records it. On a machine with
# constant other load, waiting before every start would only double the campaign's length.
LIMIT_S = 1.0
LIMIT_AFTER_FAILURE_S = 0.5


class QuietCores:
    """Waits for idle cores, with a shorter limit after a wait that reached it."""

    def __init__(self, cores: Collection[int]) -> None:
        self._cores = cores
        self._has_failed = False

    def wait(self, *, give_up: Callable[[], bool]) -> float | None:
        """Waits until the cores are idle, the limit is reached, or `give_up` returns True.

        Returns:
            The idle fraction of the last interval; None if there was no time for one.
        """
        limit_s = min(LIMIT_S, LIMIT_AFTER_FAILURE_S) if self._has_failed else LIMIT_S
        idle = first_quiet(_readings(limit_s, give_up), self._cores)
        self._has_failed = idle is not None and idle < IDLE_MIN
        return idle


def first_quiet(readings: Iterable[str], cores: Collection[int]) -> float | None:
    """The idle fraction of the first interval that is idle enough, or of the last one.

    Args:
        readings: Texts of /proc/stat, one interval apart; no more are read than needed.
    """
    idle = before = None
    for now in readings:
        if before is not None:
            idle = idle_fraction(before, now, cores)
            if idle >= IDLE_MIN:
                return idle
        before = now
    return idle


def idle_fraction(before: str, after: str, cores: Collection[int]) -> float:
    """The idle fraction of the cores' time between two readings of /proc/stat.

    Steal time is excluded.
    """
    start, end = core_times(before), core_times(after)
    idle = sum(end[core].idle - start[core].idle for core in cores)
    idle += sum(end[core].iowait - start[core].iowait for core in cores)
    busy = sum(end[core].busy - start[core].busy for core in cores)
    # The kernel's count of iowait may decrease (proc(5)), and an interval may be all steal time.
    return max(0, idle) / (max(0, idle) + busy) if busy else 1.0


def _readings(limit_s: float, give_up: Callable[[], bool]) -> Iterator[str]:
    """Texts of /proc/stat, one interval apart, until the limit is reached."""
    start = time.monotonic()
    while time.monotonic() - start < limit_s and not give_up():
        yield STAT.read_text()
        time.sleep(SPAN_S)
