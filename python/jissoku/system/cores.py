"""Core assignment: server and load generator on different cores; and waiting for idle ones."""

import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from jissoku.errors import InputError
from jissoku.model import CoreAssignment
from jissoku.system.processes import STAT, core_times

TOPOLOGY = Path("/sys/devices/system/cpu")


def available_cores() -> tuple[int, ...]:
    return tuple(sorted(os.sched_getaffinity(0)))


def parse(text: str) -> tuple[int, ...]:
    """Reads a list such as `0,2-3`; InputError unless this process may use all of them."""
    try:
        found = _read(text)
    except ValueError:
        raise InputError(f"{text!r} is not a list of cores: write for example 0,2-3") from None
    unavailable = found - set(available_cores())
    if unavailable or not found:
        usable = ",".join(map(str, available_cores()))
        raise InputError(f"{text!r} names no cores that can be used here: there are {usable}")
    return tuple(sorted(found))


def siblings(core: int, topology: Path = TOPOLOGY) -> frozenset[int]:
    """The logical cores that share one physical core with `core`, itself included."""
    path = topology / f"cpu{core}" / "topology" / "thread_siblings_list"
    try:
        text = path.read_text().strip()
    except OSError:
        return frozenset({core})
    return frozenset(_read(text))


def partition_cores(cores: Iterable[int], topology: Path = TOPOLOGY) -> CoreAssignment:
    """Gives the first half of the physical cores to the server, the rest to the load generator.

    An odd core goes to the load generator: a generator that is the bottleneck invalidates a trial,
    an idle one does not. With one physical core both share it, and the run records that.
    """
    usable = set(cores)
    groups = sorted({tuple(sorted(siblings(core, topology) & usable)) for core in usable})
    if len(groups) < 2:
        everything = tuple(sorted(usable))
        return CoreAssignment(server=everything, generator=everything, shared=True)
    half = len(groups) // 2
    return CoreAssignment(
        server=tuple(sorted(core for group in groups[:half] for core in group)),
        generator=tuple(sorted(core for group in groups[half:] for core in group)),
    )


def shared_with_agent(
    usable: tuple[int, ...], given: str | None, half: tuple[int, ...] | None
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The cores of what an agent starts, and those of the agent itself.

    The first are those of the list `given`, else `half` of a machine that the other role uses too,
    else all but the last physical core, if there are two. The agent has the rest, if there is one.
    InputError for a list that cannot be read.
    """
    if given:
        started = parse(given)
    elif half is not None:
        started = half
    else:
        last = siblings(usable[-1]) & set(usable)
        started = tuple(core for core in usable if core not in last) or usable
    return started, tuple(core for core in usable if core not in started) or started


def core_assignment(server_list: str | None, generator_list: str | None) -> CoreAssignment:
    """Reads both lists; a list that is not given has the cores that the other leaves."""
    if server_list is None and generator_list is None:
        return partition_cores(available_cores())
    server = parse(server_list) if server_list else None
    generator = parse(generator_list) if generator_list else None
    rest = set(available_cores()) - set(server or ()) - set(generator or ())
    server = server or tuple(sorted(rest))
    generator = generator or tuple(sorted(rest))
    if not server or not generator:
        raise InputError(
            "no core is left for the other role: give both --server-cores and --generator-cores"
        )
    return CoreAssignment(
        server=server, generator=generator, shared=bool(set(server) & set(generator))
    )


@contextmanager
def pin_process(cores: Iterable[int]) -> Iterator[None]:
    """Pins every thread of this process, and processes started meanwhile, to `cores`.

    All threads, because a progress display, a timer or a library may have started some before.
    """
    home = os.sched_getaffinity(0)
    former = _bind_threads(frozenset(cores))
    try:
        yield
    finally:
        for thread in _threads():
            with suppress(ProcessLookupError):
                os.sched_setaffinity(thread, former.get(thread, home))


@contextmanager
def pin_thread(cores: Iterable[int]) -> Iterator[None]:
    """Binds this thread to `cores` in between; InputError if one is not available."""
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, cores)
    except OSError as error:
        raise InputError(f"the cores {sorted(cores)} are not all available here") from error
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _bind_threads(cores: frozenset[int]) -> dict[int, set[int]]:
    """Sets the affinity of every thread, and returns the previous one of each.

    A thread inherits the affinity of its creator, so a pass that finds no new thread is the last.
    """
    former = {threading.get_native_id(): os.sched_getaffinity(0)}
    os.sched_setaffinity(0, cores)  # Unusable cores are rejected before any affinity is changed.
    while new := _threads() - former.keys():
        for thread in new:
            former[thread] = set(cores)
            with suppress(ProcessLookupError):
                former[thread] = os.sched_getaffinity(thread)
                os.sched_setaffinity(thread, cores)
    return former


def _threads() -> set[int]:
    return {int(task.name) for task in Path("/proc/self/task").iterdir()}


def _read(text: str) -> set[int]:
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.partition("-")
        found.update(range(int(first), int(last if dash else first) + 1))
    return found


# Idle fraction of the cores' time in one interval. With a tick of 10 ms an interval has 10 ticks
# per core, so on one core no tick may be busy.
IDLE_MIN = 0.97
SPAN_S = 0.1

# If the cores are not idle by then, the trial runs all the same and records it. On a machine with
# constant other load, waiting before every start would only double the campaign's length.
QUIET_LIMIT_S = 1.0
QUIET_AGAIN_LIMIT_S = 0.5


class QuietCores:
    """Waits for idle cores, with a shorter limit after a wait that reached it."""

    def __init__(self, cores: Collection[int]) -> None:
        self._cores = cores
        self._has_failed = False

    def wait(self, *, give_up: Callable[[], bool]) -> float | None:
        """Waits until the cores are idle, the limit is reached, or `give_up` returns True.

        Returns the idle fraction of the last interval; None if there was no time for one.
        """
        limit_s = min(QUIET_LIMIT_S, QUIET_AGAIN_LIMIT_S) if self._has_failed else QUIET_LIMIT_S
        idle = first_quiet(_readings(limit_s, give_up), self._cores)
        self._has_failed = idle is not None and idle < IDLE_MIN
        return idle


def first_quiet(readings: Iterable[str], cores: Collection[int]) -> float | None:
    """The idle fraction of the first interval that is idle enough, or of the last one.

    `readings` are texts of /proc/stat, one interval apart; no more are read than needed.
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
    """Idle part of the cores' time between two readings of /proc/stat, without steal time."""
    start, end = core_times(before), core_times(after)
    idle = sum(end[core].idle - start[core].idle for core in cores)
    idle += sum(end[core].iowait - start[core].iowait for core in cores)
    busy = sum(end[core].busy - start[core].busy for core in cores)
    # The kernel's count of iowait may decrease (proc(5)), and an interval may be all steal time.
    return max(0, idle) / (max(0, idle) + busy) if busy else 1.0


def _readings(limit_s: float, give_up: Callable[[], bool]) -> Iterator[str]:
    start = time.monotonic()
    while time.monotonic() - start < limit_s and not give_up():
        yield STAT.read_text()
        time.sleep(SPAN_S)
