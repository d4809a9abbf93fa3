"""The bounds of the lab's self-test: pure functions of finished campaigns.

A bound is broken if the probability of the result by chance is below 1/40: the lab is then proven
not to keep its promise on this machine (METHODOLOGY, "The lab tests itself").
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from jissoku.inference.late import np, stats
from jissoku.model.summary import Comparison

# Maximum rate of differences between equal arms, and minimum rate of detection of injected work.
FALSE_ALARMS = 0.05
POWER = 0.975

# One-sided significance level of every bound.
TAIL = 0.025

# Independent 95 % intervals of one ratio miss each other in 0.6 % of pairs.
DISJOINT = 0.01

# The injected effect must be within this interval; the 95 % interval is shown.
COMPATIBLE = 0.99


class BoundState(StrEnum):
    PASS = "pass"  # noqa: S105 - a verdict
    FAIL = "BROKEN"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class BoundCheck:
    """A line of the table: what campaigns with a ratio showed, and what is allowed or promised."""

    series: str
    campaigns: int
    result: str
    bound: str
    state: BoundState


def false_alarms_max(campaigns: int) -> int:
    return int(stats.binom.ppf(1 - TAIL, campaigns, FALSE_ALARMS))


def detections_min(campaigns: int) -> int:
    return int(stats.binom.ppf(TAIL, campaigns, POWER))


def check_false_alarms(series: str, found: Sequence[Comparison]) -> BoundCheck:
    """Equal arms: how often they were reported as different."""
    known = [one for one in found if one.ratio is not None]
    alarms, bound = sum(one.proven for one in known), false_alarms_max(len(known))
    state = _state(known, is_kept=alarms <= bound)
    return BoundCheck(series, len(known), f"{alarms} called different", f"at most {bound}", state)


def check_detection(series: str, found: Sequence[Comparison]) -> tuple[BoundCheck, BoundCheck]:
    """Injected work: how often it was detected, and how often with the wrong sign."""
    known = [one for one in found if one.ratio is not None]
    higher = sum(one.proven and one.ratio.value > 1 for one in known if one.ratio)
    wrong = sum(one.proven and one.ratio.value < 1 for one in known if one.ratio)
    bound = detections_min(len(known))
    logs = log_ratios(known)
    mean = f", {_percent(math.expm1(float(np.mean(logs))))} on average" if logs else ""
    states = _state(known, is_kept=higher >= bound), _state(known, is_kept=wrong == 0)
    return (
        BoundCheck(series, len(known), f"{higher} found{mean}", f"at least {bound}", states[0]),
        BoundCheck(f"{series}: wrong sign", len(known), str(wrong), "none", states[1]),
    )


def check_shift(
    series: str, plain: Sequence[Comparison], slowed: Sequence[Comparison], effect: float
) -> BoundCheck:
    """Different programs: whether the ratio moved by the injected effect.

    The campaign is the unit, so that what differs between campaigns is in the interval (Welch).
    `effect` is the injected ratio minus one.
    """
    ours, theirs = log_ratios(slowed), log_ratios(plain)
    bound = f"{_percent(effect)} within the interval"
    campaigns = len(ours) + len(theirs)
    if len(ours) < 2 or len(theirs) < 2:
        return too_few_campaigns(series, campaigns, bound)
    test = stats.ttest_ind(ours, theirs, equal_var=False)
    shown, wide = (test.confidence_interval(level) for level in (0.95, COMPATIBLE))
    centre = np.mean(ours) - np.mean(theirs)
    low, value, high = (math.expm1(float(log)) for log in (shown.low, centre, shown.high))
    if not wide.low <= math.log1p(effect) <= wide.high:
        state = BoundState.FAIL
    else:
        # An interval that also contains no effect does not decide.
        state = BoundState.PASS if shown.low > 0 else BoundState.UNDECIDED
    result = f"{_percent(value)} [{_percent(low)}, {_percent(high)}]"
    return BoundCheck(series, campaigns, result, bound, state)


def check_repeatability(series: str, found: Sequence[Comparison]) -> BoundCheck:
    """The same pair in campaigns with other seeds: how many intervals are disjoint.

    Each campaign is in one pair only, so that pairs are independent.
    """
    ratios = [one.ratio for one in found if one.ratio is not None]
    pairs = list(zip(ratios[::2], ratios[1::2], strict=False))
    apart = sum(one.low > other.high or other.low > one.high for one, other in pairs)
    bound = int(stats.binom.ppf(1 - TAIL, len(pairs), DISJOINT)) if pairs else 0
    result = f"{apart} of {len(pairs)} pairs disjoint"
    state = _state(pairs, is_kept=apart <= bound)
    return BoundCheck(series, len(ratios), result, f"at most {bound}", state)


def too_few_campaigns(series: str, campaigns: int, bound: str) -> BoundCheck:
    return BoundCheck(series, campaigns, "too few campaigns", bound, BoundState.UNDECIDED)


def pooled_sd(found: Iterable[Comparison]) -> float | None:
    """Standard deviation of one block's log ratio, pooled over campaigns; None without any."""
    variances = [one.ratio.sd_log**2 for one in found if one.ratio is not None]
    return math.sqrt(float(np.mean(variances))) if variances else None


def noise_floor(found: Iterable[Comparison]) -> float | None:
    """The deviation from 1 that 95 % of ratios of equal arms do not exceed; None without any."""
    away = [abs(log) for log in log_ratios(found)]
    return math.expm1(float(np.quantile(away, 0.95))) if away else None


def log_ratios(found: Iterable[Comparison]) -> list[float]:
    return [math.log(one.ratio.value) for one in found if one.ratio is not None]


def _percent(effect: float) -> str:
    return f"{100 * effect:+.1f} %"


def _state(seen: Sequence[object], *, is_kept: bool) -> BoundState:
    if not seen:
        return BoundState.UNDECIDED
    return BoundState.PASS if is_kept else BoundState.FAIL
