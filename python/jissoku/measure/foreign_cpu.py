"""CPU time of foreign processes on the cores, from every process's own clock."""

import os
import time
from collections.abc import Collection, Mapping

from jissoku.system.processes import (
    TICK_NS,
    CoreTimes,
    Processes,
    all_processes,
    core_times,
    is_kernel_thread,
    process_tree,
)


class ForeignCpuMonitor:
    """Adds up the CPU time of foreign processes on some cores until `foreign_fraction` is called.

    From the clocks of processes, not of cores, whose busy time is sampled at the kernel's tick:
    an oracle that wakes up a thousand times a second for an evenly paced load does so at the same
    position between two ticks, which once appeared as 37 % of another process.
    """

    def __init__(self, cores: Collection[int]) -> None:
        """`cores` are those that the oracle and the tool run on."""
        self._cores = cores
        self._start = time.monotonic()
        self._before = self._others_s()

    def foreign_fraction(self) -> float:
        """The fraction of the cores' time used by foreign processes and by other guests."""
        span = (time.monotonic() - self._start) * len(self._cores)
        return max(0.0, self._others_s() - self._before) / max(span, 1e-9)

    def _others_s(self) -> float:
        ticks = steal_ticks(core_times(), self._cores)
        return (ticks + others_ticks(all_processes(), os.getpid(), self._cores)) * TICK_NS / 1e9


def others_ticks(processes: Processes, us: int, cores: Collection[int]) -> int:
    """Ticks so far of all processes except the kernel's and the descendants of `us`.

    A process that ends adds its time to its parent's, so that the sum loses none.
    """
    ours = process_tree(us, processes)
    ticks = 0
    for pid, stat in processes.items():
        if stat.core not in cores or is_kernel_thread(pid, stat):
            continue
        if pid == us:
            ticks += stat.cpu_ticks
        elif pid not in ours:
            ticks += stat.cpu_ticks + stat.children_user_ticks + stat.children_system_ticks
    return ticks


def steal_ticks(times: Mapping[int, CoreTimes], cores: Collection[int]) -> int:
    """Steal time of `cores`, in ticks."""
    return sum(times[core].steal for core in cores if core in times)
