"""What an open page may do to a measurement: pure functions of campaigns with and without one.

Both kinds compare a server with a copy of itself, by turns. The ratio must be the same, which is
shown by an equivalence test (TOST at 5 %: the 90 % interval lies within the bound); that ratios
spread more, or that more trials are rejected, is a broken bound when chance does not explain it.
"""

import math
from collections.abc import Sequence

import numpy as np
from scipy import stats  # type: ignore[import-untyped]

from jissoku.inference.self_test import (
    TAIL,
    BoundCheck,
    BoundState,
    log_ratios,
    pooled_sd,
    too_few_campaigns,
)
from jissoku.model import Comparison

# Of the ratio.
RATIO_MAX = 0.002
EQUIVALENCE = 0.90

# Standard deviation of a block's log ratio, with a page over without.
SPREAD_MAX = 1.10

# Part of all trials.
REJECTED_MAX = 0.01

# (rejected trials, all trials)
Rejections = tuple[int, int]


def check_ratio(
    series: str, opened: Sequence[Comparison], closed: Sequence[Comparison]
) -> BoundCheck:
    """Whether the ratio of equal arms is the same; the campaign is the unit (Welch)."""
    ours, theirs = log_ratios(opened), log_ratios(closed)
    bound = f"within +-{100 * RATIO_MAX:.1f} %"
    if len(ours) < 2 or len(theirs) < 2:
        return too_few_campaigns(series, len(ours) + len(theirs), bound)
    interval = stats.ttest_ind(ours, theirs, equal_var=False).confidence_interval(EQUIVALENCE)
    low, high = float(interval.low), float(interval.high)
    limit = math.log1p(RATIO_MAX)
    if -limit < low and high < limit:
        state = BoundState.PASS
    else:
        state = BoundState.FAIL if low > limit or high < -limit else BoundState.UNDECIDED
    centre = float(np.mean(ours) - np.mean(theirs))
    shown = [f"{100 * math.expm1(log):+.2f} %" for log in (centre, low, high)]
    return BoundCheck(
        series=series,
        campaigns=len(ours) + len(theirs),
        result=f"{shown[0]} [{shown[1]}, {shown[2]}]",
        bound=bound,
        state=state,
    )


def check_spread(
    series: str, opened: Sequence[Comparison], closed: Sequence[Comparison]
) -> BoundCheck:
    """Whether ratios spread more from block to block (F test of the variances)."""
    bound = f"at most {SPREAD_MAX:.2f} times as wide"
    ours, theirs = pooled_sd(opened), pooled_sd(closed)
    freedom = _freedom(opened), _freedom(closed)
    count = len(log_ratios(opened)) + len(log_ratios(closed))
    if not ours or not theirs or 0 in freedom:
        return too_few_campaigns(series, count, bound)
    ratio = ours / theirs
    low = ratio / math.sqrt(float(stats.f.ppf(1 - TAIL, *freedom)))
    return BoundCheck(
        series=series,
        campaigns=count,
        result=f"{ratio:.2f} times",
        bound=bound,
        state=_state(ratio <= SPREAD_MAX, low > SPREAD_MAX),
    )


def check_rejections(
    series: str, campaigns: int, opened: Rejections, closed: Rejections
) -> BoundCheck:
    """Whether checks reject more trials of these campaigns (Agresti and Caffo, 2000)."""
    bound = f"at most {100 * REJECTED_MAX:.0f} point more"
    if not opened[1] or not closed[1]:
        return too_few_campaigns(series, campaigns, bound)
    parts = [rejected / trials for rejected, trials in (opened, closed)]
    added = [((rejected + 1) / (trials + 2), trials + 2) for rejected, trials in (opened, closed)]
    error = math.sqrt(sum(part * (1 - part) / trials for part, trials in added))
    low = added[0][0] - added[1][0] - float(stats.norm.ppf(1 - TAIL)) * error
    difference = parts[0] - parts[1]
    return BoundCheck(
        series=series,
        campaigns=campaigns,
        result=f"{100 * parts[0]:.1f} % and {100 * parts[1]:.1f} % of trials",
        bound=bound,
        state=_state(difference <= REJECTED_MAX, low > REJECTED_MAX),
    )


def _state(is_kept: bool, is_broken: bool) -> BoundState:  # noqa: FBT001 - two sides of one bound
    if is_kept:
        return BoundState.PASS
    return BoundState.FAIL if is_broken else BoundState.UNDECIDED


def _freedom(found: Sequence[Comparison]) -> int:
    """Degrees of freedom of the pooled variance of blocks."""
    return sum(one.ratio.blocks - 1 for one in found if one.ratio is not None)
