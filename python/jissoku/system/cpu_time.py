"""CPU time of some processes, to the nanosecond."""

from dataclasses import dataclass

from jissoku.system.processes import PROC, cpu_ns, read_stat


@dataclass(frozen=True, slots=True)
class CpuTime:
    """Counters of some processes, since the start of each."""

    run_ns: dict[int, int]
    user_ticks: int
    system_ticks: int

    def __add__(self, other: "CpuTime") -> "CpuTime":
        """The sum of both, if they are of different processes."""
        return CpuTime(
            self.run_ns | other.run_ns,
            self.user_ticks + other.user_ticks,
            self.system_ticks + other.system_ticks,
        )

    def lacks(self, before: "CpuTime") -> bool:
        """Whether a process of the earlier reading has ended, so that its time is missing."""
        return not before.run_ns.keys() <= self.run_ns.keys()

    def run_ns_since(self, before: "CpuTime") -> int:
        """CPU nanoseconds between two readings; a new process starts at zero."""
        return sum(self.run_ns.values()) - sum(before.run_ns.values())

    def ticks_since(self, before: "CpuTime") -> tuple[int, int]:
        """Ticks in user code and in the kernel between two readings."""
        return self.user_ticks - before.user_ticks, self.system_ticks - before.system_ticks


def cpu_time(pids: set[int]) -> CpuTime:
    """Reads the counters of processes; processes that have ended are skipped."""
    run_ns: dict[int, int] = {}
    user = system = 0
    for pid in pids:
        try:
            stat, used_ns = read_stat(PROC / str(pid)), cpu_ns(pid)
        except OSError:
            continue
        run_ns[pid] = used_ns
        user += stat.user_ticks
        system += stat.system_ticks
    return CpuTime(run_ns, user, system)
