"""What shook a run besides the tool, and whether that could have made a figure wrong: pure."""

import re
from collections.abc import Mapping
from typing import Any

from jissoku.calibrate.quiet import FOREIGN_MAX

# An oracle that is as late as this, in one answer of a hundred, ...
LATE_NS_MAX = 50_000

# ... is still no reason for a figure that is off by more than so many times that.
LATE_TIMES = 5

# Of the share of answers that lie beyond a percentile, stalls may have made so much.
STALLED_PART = 1 / 3


def blame(account: Mapping[str, Any], foreign: float, what: str, tolerance: float) -> str:
    """Why a figure that is off says nothing against the tool; empty if it does.

    What was served is known to the nanosecond, so a late oracle is late in the truth as well. But
    a machine on which it was late did the same to the tool, and nobody saw that. A witness does see
    when the host takes the tool's core away.

    Args:
        account: The oracle's.
        foreign: The share of the cores' time that others used.
        what: The expression that was judged, such as `tool.p99_ns`.
        tolerance: How far it may be off, in its own unit.
    """
    if foreign > FOREIGN_MAX:
        return f"others used {foreign * 100:.0f} % of the cores meanwhile"
    if account.get("overflowed"):
        return "the oracle's log was full"
    is_time = what.rstrip(")").endswith("_ns")
    late = (account.get("lateness_ns") or {}).get("p99", 0)
    if late >= max(LATE_NS_MAX, tolerance / LATE_TIMES if is_time else 0):
        return f"the oracle was {late / 1000:.0f} us late in one answer of a hundred"
    stalls = account.get("stalls")
    if is_time and stalls and stalls["watched_ns"] and _stalls_explain(stalls, what, tolerance):
        share = stalls["at_least"][0]["total_ns"] / stalls["watched_ns"] * 100
        longest = stalls["longest_ns"] / 1e6
        return f"the tool's core stood still {share:.1f} % of the time, once for {longest:.1f} ms"
    return ""


def _stalls_explain(stalls: Mapping[str, Any], what: str, tolerance: float) -> bool:
    """Whether stalls alone could move a percentile, or a mean, by the tolerance."""
    watched = stalls["watched_ns"]
    beyond = _beyond(what)
    if beyond is None:
        # What comes at random into a stall of length g, which has g of all time, waits for g / 2.
        return "mean" in what and stalls["squares_us2"] * 1e6 / 2 / watched > tolerance / 2
    long = [it for it in stalls["at_least"] if it["length_ns"] <= tolerance]
    reaching = (long or stalls["at_least"])[-1 if long else 0]["total_ns"] / watched
    return bool(reaching > beyond * STALLED_PART)


def _beyond(what: str) -> float | None:
    """The share of answers beyond a percentile such as `tool.p999_ns`; None if it is none."""
    digits = re.search(r"\bp(\d+)_ns|_p(\d+)_ns", what)
    return 1 - float("0." + (digits[1] or digits[2])) if digits else None
