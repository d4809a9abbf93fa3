"""CPU time: of some processes to the nanosecond, and of each core by use (/proc/stat) in ticks."""

from dataclasses import dataclass
from pathlib import Path

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


STAT = Path("/proc/stat")


@dataclass(frozen=True, slots=True)
class CoreTimes:
    """Ticks of one core since boot; `steal` is time that the host gave to other guests."""

    user: int
    nice: int
    system: int
    idle: int
    iowait: int
    irq: int
    softirq: int
    steal: int

    @property
    def busy(self) -> int:
        """Ticks used by processes and the kernel of this machine, without steal time."""
        return self.user + self.nice + self.system + self.irq + self.softirq


def core_times(text: str | None = None) -> dict[int, CoreTimes]:
    """Every core's times, by its number.

    Args:
        text: Of /proc/stat; read now if not given.
    """
    text = STAT.read_text() if text is None else text
    rows = (line.split() for line in text.splitlines() if line.startswith("cpu"))
    return {int(row[0][3:]): CoreTimes(*map(int, row[1:9])) for row in rows if row[0] != "cpu"}
