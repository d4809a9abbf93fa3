"""CPU time of foreign processes on the cores, from every process's own clock."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

# A run in which others used more of the cores than this proves nothing about times.
FOREIGN_MAX = 0.03

# The unit of /proc/stat and /proc/PID/stat (proc(5), USER_HZ).
TICK_S = 1 / os.sysconf("SC_CLK_TCK")

# A column of /proc/stat: what the host gave to its other guests.
STEAL = 7

# Of proc_pid_stat(5), counted from its third field on; those of children are of those waited for.
PARENT, USER, SYSTEM, CHILDREN_USER, CHILDREN_SYSTEM, CORE = 1, 11, 12, 13, 14, 36

# Its children work for the loaded processes, the tool and the oracle.
KERNEL_THREADS_PARENT = 2

Table = Mapping[int, Sequence[str]]

# Every process of the machine, each with its /proc/PID/stat from the third field on.
Look = Callable[[], Table]


class ForeignCpuMonitor:
    """Adds up what others ran on some cores until `foreign_fraction` is asked.

    The processes are asked, and not the cores: what a core was busy with is sampled at the kernel's
    tick, and an oracle that gets ready a thousand times a second for an evenly paced load always
    does so at the same place between two ticks. It looked like another process's 37 %.
    """

    def __init__(self, cores: tuple[int, ...], look: Look) -> None:
        """`cores` are those that the oracle and the tool run on."""
        self._cores = cores
        self._look = look
        self._start = time.monotonic()
        self._before = self._others_s()

    def foreign_fraction(self) -> float:
        """The share of the cores' time that went to others, the host's other guests included."""
        span = (time.monotonic() - self._start) * len(self._cores)
        return max(0.0, self._others_s() - self._before) / max(span, 1e-9)

    def _others_s(self) -> float:
        stolen = steal_ticks(Path("/proc/stat").read_text(encoding="ascii"), self._cores)
        return (stolen + others_ticks(self._look(), os.getpid(), self._cores)) * TICK_S


def others_ticks(table: Table, us: int, cores: tuple[int, ...]) -> int:
    """Ticks so far of all processes but the kernel's and the descendants of `us`.

    A process that ends adds its time to its parent's, so that the sum loses none.
    """
    ticks = 0
    for pid, stat in table.items():
        if KERNEL_THREADS_PARENT in {pid, int(stat[PARENT])} or int(stat[CORE]) not in cores:
            continue
        if pid == us:
            ticks += int(stat[USER]) + int(stat[SYSTEM])
        elif not _descends(pid, us, table):
            fields = (USER, SYSTEM, CHILDREN_USER, CHILDREN_SYSTEM)
            ticks += sum(int(stat[field]) for field in fields)
    return ticks


def steal_ticks(text: str, cores: tuple[int, ...]) -> int:
    """What was stolen from `cores`, from the text of /proc/stat."""
    names = {f"cpu{core}" for core in cores}
    rows = (line.split() for line in text.splitlines() if line.startswith("cpu"))
    return sum(int(row[1 + STEAL]) for row in rows if row[0] in names)


def _descends(pid: int, us: int, table: Table) -> bool:
    seen: set[int] = set()
    while pid in table and pid not in seen:
        seen.add(pid)
        pid = int(table[pid][PARENT])
        if pid == us:
            return True
    return False
