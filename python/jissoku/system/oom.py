"""Whether a target may have been killed by the kernel's out-of-memory (OOM) killer.

The OOM killer sends SIGKILL, as other programs may do. Before it sends the signal it counts the
process in /proc/vmstat, for the whole machine and all cgroups.
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
    """A remark to the signal that ended a process; empty if no OOM kill can be the reason."""
    now = kills()
    if number != signal.SIGKILL or kills_before is None or now is None or now <= kills_before:
        return ""
    return " (out of memory: the kernel's OOM killer ran meanwhile)"
