"""Disturbances of a run other than the tool, and whether they explain a deviation: pure."""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from jissoku.stats.oracle_stats import QUANTILES

# A run in which others used more of the cores than this proves nothing about times.
FOREIGN_MAX = 0.03

# An oracle that is as late as this, in one answer of a hundred, ...
LATE_NS_MAX = 50_000

# ... explains deviations of up to this many times that.
LATE_TIMES = 5

# What is no time, a count or a share, is not off by more than that because one answer in a hundred
# was late.
LATE_SHARE_MAX = 0.25

# Stalls are counted three times: what is sent late and what arrives late both suffer, and they
# were sampled.
STALLS_TIMES = 3


# What the stall monitor saw of each core.
Stalls = Sequence[Mapping[str, Any]]


class RunDisturbance(Protocol):
    """A run, as far as it matters here."""

    @property
    def account(self) -> Mapping[str, Any]:
        """The oracle's."""

    @property
    def foreign(self) -> float:
        """The share of the cores' time that others used."""

    @property
    def names(self) -> Mapping[str, float]:
        """Every value that is known; of these, how long answers were served."""


def external_cause(run: RunDisturbance, what: str, got: float, truth: float) -> str:
    """What else explains that a value is off, in a sentence; empty if nothing does.

    What was served is known to the nanosecond, so a late oracle is late in the truth as well. But
    a machine on which it was late disturbed the tool equally, unobserved. The monitor observes
    when the host takes a core away: the tool's, or the oracle's while requests wait to be read.

    Args:
        run: What happened.
        what: The expression that was judged, such as `tool.p99_ns`.
        got: What it came to.
        truth: What it should have come to.
    """
    if run.foreign > FOREIGN_MAX:
        return f"others used {run.foreign * 100:.0f} % of the cores meanwhile"
    if run.account.get("overflowed"):
        return "the oracle's log was full"
    late = (run.account.get("lateness_ns") or {}).get("p99", 0)
    if late >= LATE_NS_MAX and LATE_TIMES * late >= _off_ns(run, what, got, truth):
        return f"the oracle was {late / 1000:.0f} us late in one answer of a hundred"
    stalls = [it for it in run.account.get("stalls") or () if it["samples"]]
    if stalls and _is_time(what) and got > truth:
        beyond = _beyond(what)
        if beyond is None:
            is_enough = "mean" in what and STALLS_TIMES * _mean_wait_ns(stalls) > got - truth
        else:
            left = beyond - _served_above(run.names, got)
            is_enough = STALLS_TIMES * _share(stalls, got - truth) > left
        if is_enough:
            share = _share(stalls, 0) * 100
            longest = max(it["longest_ns"] for it in stalls) / 1e6
            return f"the cores stood still {share:.1f} % of the time, once for {longest:.1f} ms"
    return ""


def _is_time(what: str) -> bool:
    return what.rstrip(")").endswith("_ns")


def _off_ns(run: RunDisturbance, what: str, got: float, truth: float) -> float:
    """How far a value is off, in the time of an answer where it is no time itself."""
    off = abs(got - truth)
    if _is_time(what):
        return off
    share = off / abs(truth or 1)
    return math.inf if share > LATE_SHARE_MAX else share * run.names.get("served.mean_ns", 0.0)


def _share(stalls: Stalls, length_ns: float) -> float:
    """The share of moments that had to wait so long for a core; of several cores, the sum."""
    share = 0.0
    for core in stalls:
        reaching = [it for it in core["at_least"] if it["length_ns"] <= length_ns]
        which = reaching[-1] if reaching else core["at_least"][0]
        share += float(which["samples"] / core["samples"])
    return share


def _mean_wait_ns(stalls: Stalls) -> float:
    """How long a moment had to wait on average."""
    return sum(float(core["waited_ns"] / core["samples"]) for core in stalls)


def _served_above(names: Mapping[str, float], limit_ns: float) -> float:
    """At least this fraction of the responses took longer, whatever the tool does."""
    above = [
        1 - q for name, q in QUANTILES.items() if names.get(f"served.{name}_ns", 0.0) > limit_ns
    ]
    return max(above, default=0.0)


def _beyond(what: str) -> float | None:
    """The share of answers beyond a percentile such as `tool.p999_ns`; None if it is none."""
    digits = re.search(r"\bp(\d+)_ns|_p(\d+)_ns", what)
    return 1 - float("0." + (digits[1] or digits[2])) if digits else None
