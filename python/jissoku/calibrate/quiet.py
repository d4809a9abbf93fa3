"""Did anybody else use the cores meanwhile? What we started is known, to the clock tick."""

import gzip
import os
import platform
import resource
import time
from pathlib import Path

STAT = Path("/proc/stat")
CONFIGS = (Path("/proc/config.gz"), Path(f"/boot/config-{platform.release()}"))

# A run in which others used more of the cores than this proves nothing about times.
FOREIGN_MAX = 0.03

# Columns of proc_stat(5): what is busy, and what is work for interrupts.
BUSY = (0, 1, 2, 7)
INTERRUPTS = (5, 6)


class Watch:
    """Compares what the cores did with what our children used, until `foreign` is asked."""

    def __init__(self, cores: tuple[int, ...]) -> None:
        """`cores` are those that the oracle and the tool run on."""
        self._cores = cores
        self._columns = BUSY if _interrupts_are_apart() else BUSY + INTERRUPTS
        self._start = time.monotonic()
        self._busy = self._busy_s()
        self._ours = _children_s()

    def foreign(self) -> float:
        """The share of the cores' time that went to others, the host's other guests included.

        Only children that have been waited for are known to be ours.
        """
        others = self._busy_s() - self._busy - (_children_s() - self._ours)
        span = (time.monotonic() - self._start) * len(self._cores)
        return max(0.0, others) / max(span, 1e-9)

    def _busy_s(self) -> float:
        return busy_s(STAT.read_text(encoding="ascii"), self._cores, self._columns)


def busy_s(stat: str, cores: tuple[int, ...], columns: tuple[int, ...]) -> float:
    """Seconds that `cores` spent on what `columns` stand for, since the machine started."""
    ticks = 0
    for line in stat.splitlines():
        name, *fields = line.split()
        if name in {f"cpu{core}" for core in cores}:
            ticks += sum(int(fields[column]) for column in columns)
    return ticks / os.sysconf("SC_CLK_TCK")


def _interrupts_are_apart() -> bool:
    """Whether a process is not billed for the interrupts that come while it runs.

    Where the kernel does not tell, they are left out: foreign work is then told too low.
    """
    for path in CONFIGS:
        try:
            raw = path.read_bytes()
        except OSError:
            continue
        text = gzip.decompress(raw) if path.suffix == ".gz" else raw
        return b"\nCONFIG_IRQ_TIME_ACCOUNTING=y" in text
    return True


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
