"""The time of each core by use, from /proc/stat (proc(5)).

In ticks of `processes.TICK_NS`.
"""

from dataclasses import dataclass
from pathlib import Path

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
