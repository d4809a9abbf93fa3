"""Reads the CPU time and the waiting of targets all the time, so that it is known at any instant.

The load generator on another host decides when a window or a time slice ends, and reports it
afterwards: no message is sent while load is measured. So the counters are read every millisecond,
and looked up at the instants that it names. The thread sleeps in between, on a core that targets do
not use; a reading of ten processes takes about 20 us.
"""

import os
import threading
import time
from bisect import bisect_left
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from jissoku.system import processes
from jissoku.system.processes import PROC

# Nanoseconds between readings of CPU time; every fifth one also reads how long threads waited, and
# every twentieth what the kernel prints in ticks of 10 ms.
INTERVAL_NS = 1_000_000
WAITS_EVERY = 5
TICKS_EVERY = 20


@dataclass(slots=True)
class Series:
    """Counters over time, in the order of time."""

    at_ns: list[int] = field(default_factory=list)
    values: list[tuple[int, ...]] = field(default_factory=list)

    def add(self, at_ns: int, values: tuple[int, ...]) -> None:
        self.at_ns.append(at_ns)
        self.values.append(values)

    def at(self, instants_ns: Iterable[int]) -> list[list[int]]:
        """Each counter at these instants, on a straight line between two readings.

        Before the first and after the last reading it is that reading.
        """
        found: list[list[int]] = [[] for _ in (self.values or [()])[0]]
        for instant_ns in instants_ns:
            for values, value in zip(found, self._at(instant_ns), strict=True):
                values.append(value)
        return found

    def _at(self, instant_ns: int) -> Sequence[int]:
        after = bisect_left(self.at_ns, instant_ns)
        if after == 0 or after == len(self.at_ns):
            return self.values[min(after, len(self.values) - 1)] if self.values else ()
        before = after - 1
        part_ns = instant_ns - self.at_ns[before]
        span_ns = self.at_ns[after] - self.at_ns[before]
        both = zip(self.values[before], self.values[after], strict=True)
        return [low + (high - low) * part_ns // span_ns for low, high in both]

    def gap_ns(self, instants_ns: Iterable[int]) -> int:
        """The longest time between two readings around one of these instants; 0 without any."""
        gaps = []
        for instant_ns in instants_ns:
            after = min(max(1, bisect_left(self.at_ns, instant_ns)), len(self.at_ns) - 1)
            gaps.append(self.at_ns[after] - self.at_ns[after - 1] if after > 0 else 0)
        return max(gaps, default=0)

    def covers(self, instants_ns: Collection[int]) -> bool:
        """Whether there are readings before and after all of these instants."""
        if len(self.at_ns) < 2:
            return False
        return all(self.at_ns[0] <= one <= self.at_ns[-1] for one in instants_ns)


class _Waits:
    """How long the threads of a target had no core, from files that stay open."""

    def __init__(self, pids: Iterable[int]) -> None:
        self._folders = [PROC / str(pid) / "task" for pid in sorted(pids)]
        self._links = [0] * len(self._folders)
        self._files: dict[Path, int] = {}
        self._last: dict[Path, tuple[int, int]] = {}
        self._list()
        self.read()

    @property
    def is_known(self) -> bool:
        """Whether the kernel counts it (CONFIG_SCHED_INFO)."""
        return bool(self._last)

    def read(self) -> tuple[int, int]:
        """Nanoseconds, and how often a thread got a core; ended threads keep their last values."""
        if self._links != [_links(folder) for folder in self._folders]:
            self._list()
        for path, file in self._files.items():
            with suppress(OSError, ValueError):
                _, waited, runs = map(int, os.pread(file, 80, 0).split())
                self._last[path] = waited, runs
        totals = self._last.values()
        return sum(waited for waited, _ in totals), sum(runs for _, runs in totals)

    def close(self) -> None:
        for file in self._files.values():
            os.close(file)
        self._files = {}

    def _list(self) -> None:
        self._links = [_links(folder) for folder in self._folders]
        for folder in self._folders:
            for task in folder.glob("[0-9]*"):
                path = task / "schedstat"
                if path not in self._files:
                    with suppress(OSError):
                        self._files[path] = os.open(path, os.O_RDONLY)


def _links(folder: Path) -> int:
    try:
        return folder.stat().st_nlink
    except OSError:
        return 0


class _Cpu:
    """CPU time of the processes that a target has when it is looked at."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._pids = sorted(processes.process_tree(root))
        self._last = dict.fromkeys(self._pids, 0)
        self._ended: set[int] = set()
        self._children_ns = _children_ns(self._pids)

    @property
    def pids(self) -> list[int]:
        return self._pids

    def read(self) -> int:
        """Of all of them so far; a process that has ended keeps its last value."""
        for pid in self._pids:
            if pid not in self._ended:
                try:
                    self._last[pid] = processes.cpu_ns(pid)
                except OSError:
                    self._ended.add(pid)
        return sum(self._last.values())

    def beyond_ns(self) -> int | None:
        """CPU time of other processes since the beginning: new ones, and children that ended.

        None if the first process has ended, or one that was not waited for: its time is lost. The
        kernel charges a parent with the whole time of a child that it waited for, so what is known
        of one that ended is taken off.
        """
        if self._root in self._ended:
            return None
        new = processes.process_tree(self._root) - set(self._pids)
        used = sum(spent for _, spent in processes.read_living(new, processes.cpu_ns))
        waited_ns = _children_ns([*self._pids, *new]) - self._children_ns
        known_ns = sum(self._last[pid] for pid in self._ended)
        # The time of children has the resolution of a tick.
        if waited_ns + processes.TICK_NS < known_ns:
            return None
        return used + max(0, waited_ns - known_ns)


def _children_ns(pids: Iterable[int]) -> int:
    found = processes.read_living(pids, lambda pid: processes.read_stat(PROC / str(pid)))
    ticks = (stat.children_user_ticks + stat.children_system_ticks for _, stat in found)
    return processes.TICK_NS * sum(ticks)


class Meter:
    """Reads counters of targets, by their first processes, from `start` to `stop`."""

    def __init__(self, roots: Sequence[int], cores: Collection[int]) -> None:
        """Looks up the processes and threads; `cores` are those of the targets."""
        self._cores = sorted(cores)
        self._cpus = [_Cpu(root) for root in roots]
        self._waits = [_Waits(cpu.pids) for cpu in self._cpus]
        self.cpu, self.waits, self.ticks = Series(), Series(), Series()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="meter", daemon=True)

    @property
    def knows_waits(self) -> bool:
        return all(waits.is_known for waits in self._waits)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()
        for waits in self._waits:
            waits.close()

    def beyond_ns(self) -> tuple[int | None, ...]:
        return tuple(cpu.beyond_ns() for cpu in self._cpus)

    def _run(self) -> None:
        count, next_ns = 0, time.monotonic_ns()
        while not self._stopping.is_set():
            self.cpu.add(time.monotonic_ns(), tuple(cpu.read() for cpu in self._cpus))
            if count % WAITS_EVERY == 0:
                both = [waits.read() for waits in self._waits]
                values = *(waited for waited, _ in both), *(runs for _, runs in both)
                self.waits.add(time.monotonic_ns(), values)
            if count % TICKS_EVERY == 0:
                self.ticks.add(time.monotonic_ns(), (self._idle_ns(), _kernel_ns()))
            count += 1
            # A reading that came late is not made up for.
            next_ns = max(next_ns + INTERVAL_NS, time.monotonic_ns())
            time.sleep(max(0, next_ns - time.monotonic_ns()) / 1e9)

    def _idle_ns(self) -> int:
        times = processes.core_times()
        idle = sum(times[core].idle + times[core].iowait for core in self._cores if core in times)
        return processes.TICK_NS * idle


def _kernel_ns() -> int:
    return sum(processes.kernel_cpu_ns().values())
