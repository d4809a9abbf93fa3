"""What the processes of a load generator have run so far, to the nanosecond."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

# Of proc_pid_stat(5), counted from its third field on.
USER, SYSTEM = 11, 12

# All processes that a first one has started, itself included.
Family = Callable[[int], set[int]]


@dataclass(frozen=True, slots=True)
class CpuTime:
    """Counters of some processes, since each began."""

    run_ns: dict[int, int]
    user_ticks: int
    system_ticks: int

    def __add__(self, other: "CpuTime") -> "CpuTime":
        """Both together, if they are of different processes."""
        return CpuTime(
            self.run_ns | other.run_ns,
            self.user_ticks + other.user_ticks,
            self.system_ticks + other.system_ticks,
        )

    def lacks(self, before: "CpuTime") -> bool:
        """Whether a process that was there before has gone, and its time with it."""
        return not before.run_ns.keys() <= self.run_ns.keys()

    def run_ns_since(self, before: "CpuTime") -> int:
        """What was run between two readings; a process that is new began at zero."""
        return sum(self.run_ns.values()) - sum(before.run_ns.values())

    def ticks_since(self, before: "CpuTime") -> tuple[int, int]:
        """Ticks in user code and in the kernel between two readings."""
        return self.user_ticks - before.user_ticks, self.system_ticks - before.system_ticks


def cpu_time(pids: set[int]) -> CpuTime:
    """Reads the counters of processes; one that has gone has none."""
    run_ns: dict[int, int] = {}
    user = system = 0
    for pid in pids:
        try:
            run_ns[pid] = _run_ns(pid)
            stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        fields = stat[stat.rindex(")") + 2 :].split()
        user += int(fields[USER])
        system += int(fields[SYSTEM])
    return CpuTime(run_ns, user, system)


def _run_ns(pid: int) -> int:
    """CPU time of all threads of a process, those included that have ended.

    It is the sum of what schedstat tells of each thread. The number of the clock is made of the
    process's own as in clock_getcpuclockid(3), which Python does not offer.
    """
    return time.clock_gettime_ns((~pid << 3) | 2)
