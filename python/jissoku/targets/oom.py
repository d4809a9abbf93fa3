"""Whether a target that was killed ran out of memory, as far as the kernel says.

The OOM killer sends SIGKILL, as others do. It counts each process that it kills in /proc/vmstat,
for the whole machine and for every cgroup, before it sends the signal.
"""

import re
import signal
from pathlib import Path

VMSTAT = Path("/proc/vmstat")


def kills() -> int | None:
    """Processes that the OOM killer has killed since boot; None where the kernel does not count."""
    try:
        found = re.search(r"^oom_kill (\d+)$", VMSTAT.read_text(), re.MULTILINE)
    except OSError:
        return None
    return int(found[1]) if found else None


def exit_cause(number: int, kills_before: int | None) -> str:
    """What is added to the name of the signal that killed a process; empty if nothing is known."""
    now = kills()
    if number != signal.SIGKILL or kills_before is None or now is None or now <= kills_before:
        return ""
    return " (out of memory: the kernel's OOM killer ran meanwhile)"
