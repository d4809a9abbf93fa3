"""Estimates from logarithms, one per block: means, intervals, exact tests.

All functions use natural logarithms of ratios (or of positive quantities), because servers differ
by factors. The t-interval is primary; the two exact methods assume no distribution and are a check
of it. There is no bootstrap: below twenty blocks its intervals are too narrow.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy import special, stats  # type: ignore[import-untyped]

from jissoku.model import Estimate
from jissoku.model.wording import plural

# Sign flips are counted exactly up to this number of blocks; half of them are enumerated at a time,
# in 3 ms. With 40 blocks it took a quarter of a second for each pair.
SIGN_FLIP_BLOCKS_MAX = 30

# |d - median| above this many median absolute deviations is reported as an outlier, and kept
# (ten standard deviations of a normal distribution; Iglewicz and Hoaglin, 1993, as hyperfine does).
OUTLIER_MADS = 14.8


@dataclass(frozen=True, slots=True)
class Interval:
    """A centre and its interval, as natural logarithms."""

    centre: float
    low: float
    high: float

    def excludes(self, other: "Interval") -> bool:
        """Whether the intervals are disjoint."""
        return self.low > other.high or self.high < other.low


@dataclass(frozen=True, slots=True)
class Spread:
    """A standard deviation, and the degrees of freedom from which it is estimated."""

    sd: float
    freedom: int


def t_interval(logs: Sequence[float], confidence: float = 0.95) -> Interval:
    """The mean of `logs` with its two-sided interval by Student's t.

    Raises:
        ValueError: Fewer than two values; no interval can be had from one.
    """
    mean, spread = mean_and_sd(logs)
    return t_interval_from(mean, spread, len(logs), confidence)


def t_interval_from(mean: float, spread: float, blocks: int, confidence: float) -> Interval:
    """The interval of this many blocks with this mean and standard deviation."""
    half = _t_quantile((1 + confidence) / 2, blocks - 1) * spread / math.sqrt(blocks)
    return Interval(mean, mean - half, mean + half)


@cache
def _t_quantile(probability: float, freedom: int) -> float:
    return float(stats.t.ppf(probability, freedom))


def hodges_lehmann(logs: Sequence[float], confidence: float = 0.95) -> Interval | None:
    """Median of all pairwise means, with the interval that inverts Wilcoxon's signed-rank test.

    Exact for a symmetric distribution (Hollander, Wolfe and Chicken, Nonparametric Statistical
    Methods, section 3.3).

    Returns:
        None when there are too few blocks for any interval at this confidence.
    """
    left_out = _walsh_left_out(len(logs), confidence)
    if left_out == 0:
        return None
    values = np.asarray(logs, dtype=float)
    rows, columns = _pairs(len(values))
    walsh = np.sort((values[rows] + values[columns]) / 2)
    middle = len(walsh) // 2
    centre = (walsh[middle] + walsh[-middle - 1]) / 2
    return Interval(float(centre), float(walsh[left_out - 1]), float(walsh[len(walsh) - left_out]))


@cache
def _pairs(count: int) -> tuple[np.ndarray, np.ndarray]:
    rows, columns = np.triu_indices(count)
    return rows, columns


@cache
def _walsh_left_out(count: int, confidence: float) -> int:
    """One more than the number of pairwise means outside of the interval on each side."""
    below = np.cumsum(_signed_rank_probabilities(count))
    return int(np.searchsorted(below, (1 - confidence) / 2, side="right"))


def _signed_rank_probabilities(count: int) -> np.ndarray:
    """P(W = w) for Wilcoxon's W over `count` differences, w from 0: subset sums of 1..count."""
    ways = np.zeros(count * (count + 1) // 2 + 1)
    ways[0] = 1.0
    for rank in range(1, count + 1):
        positive = np.zeros_like(ways)
        positive[rank:] = ways[:-rank]
        ways = (ways + positive) / 2
    return ways


def t_test(logs: Sequence[float]) -> float:
    """Two-sided p-value of the hypothesis that the mean is zero."""
    mean, spread = mean_and_sd(logs)
    if mean == 0:
        return 1.0
    if spread == 0:
        return 0.0
    return _two_sided(mean / spread * math.sqrt(len(logs)), len(logs) - 1)


def welch(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Two-sided p-value of equal means, with unequal variances (Welch 1947).

    Raises:
        ValueError: Fewer than two values on either side.
    """
    if max(ours) == min(ours) and max(theirs) == min(theirs):
        return 1.0 if ours[0] == theirs[0] else 0.0
    first, second = ((*mean_and_sd(logs), len(logs)) for logs in (ours, theirs))
    return float(stats.ttest_ind_from_stats(*first, *second, equal_var=False).pvalue)


def few_against_many(
    ours: Sequence[float], theirs: Sequence[float], least: Sequence[Spread]
) -> float:
    """Two-sided p-value of equal means, where `theirs` are too few to show their spread.

    Two values that lie close together by chance give Welch's test an error that is much too small.
    Each spread that theirs are known to have at least takes the place of their own where it is
    larger; of several, the one that allows the larger difference. A spread that is known from few
    values allows more than one that is known from many (Welch and Satterthwaite).

    Raises:
        ValueError: Fewer than two values on either side.
    """
    (mean, sd), (their_mean, their_sd) = mean_and_sd(ours), mean_and_sd(theirs)
    larger = [known for known in least if known.sd > their_sd]
    if not larger:
        return welch(ours, theirs)
    first = sd**2 / len(ours)
    p_values = []
    for known in larger:
        second = known.sd**2 / len(theirs)
        by_part = first**2 / (len(ours) - 1) + second**2 / known.freedom
        t = abs(mean - their_mean) / math.sqrt(first + second)
        p_values.append(_two_sided(t, (first + second) ** 2 / by_part))
    return max(p_values)


def trend(values: Sequence[float]) -> float:
    """Two-sided p-value of no trend (slope of a line) in at least three ordered values.

    A line is fitted so that the trend itself does not count as noise.
    """
    seen = np.asarray(values, dtype=float)
    place = np.arange(len(seen)) - (len(seen) - 1) / 2
    slope = float(place @ seen / (place @ place))
    rest = seen - seen.mean() - slope * place
    error = math.sqrt(float(rest @ rest) / (len(seen) - 2) / float(place @ place))
    if error == 0:
        return 0.0 if slope else 1.0
    return _two_sided(slope / error, len(seen) - 2)


def _two_sided(t: float, freedom: float) -> float:
    return float(2 * special.stdtr(freedom, -abs(t)))


def sign_flip(logs: Sequence[float]) -> float | None:
    """Exact p-value of the mean under all 2^n assignments of signs; None above 30 blocks.

    The smallest p that n blocks can give is 2 / 2^n: six are needed to get below 0.05.
    """
    values = np.asarray(logs, dtype=float)
    if len(values) > SIGN_FLIP_BLOCKS_MAX:
        return None
    seen = abs(float(values.sum())) - 1e-9 * float(np.abs(values).sum())
    half = len(values) // 2
    left, right = _signed_sums(values[:half]), np.sort(_signed_sums(values[half:]))
    # |left + right| >= seen, counted by binary search of each left sum among the sorted right ones.
    high = len(right) - np.searchsorted(right, seen - left, side="left")
    low = np.searchsorted(right, -seen - left, side="right")
    return float(min(1.0, (high.sum() + low.sum()) / 2.0 ** len(values)))


def _signed_sums(values: np.ndarray) -> np.ndarray:
    sums = np.zeros(1)
    for value in values:
        sums = np.concatenate([sums + value, sums - value])
    return sums


def mean_and_sd(logs: Sequence[float]) -> tuple[float, float]:
    """Mean and standard deviation (n - 1) of at least two logarithms.

    Raises:
        ValueError: Fewer than two values.
    """
    if len(logs) < 2:
        raise ValueError(
            f"{len(logs)} {plural(len(logs), 'block gives', 'blocks give')} no interval: at"
            " least 2 are"
            " needed"
        )
    values = np.asarray(logs, dtype=float)
    return float(values.mean()), float(values.std(ddof=1))


def geometric_mean(logs: Sequence[float], confidence: float = 0.95) -> Estimate | None:
    """Geometric mean of the values with these logarithms; None from fewer than two blocks."""
    if len(logs) < 2:
        return None
    return as_ratio(t_interval(logs, confidence), logs)


def as_ratio(interval: Interval, logs: Sequence[float]) -> Estimate:
    """An interval converted from logarithms; count and spread are those of `logs`."""
    return Estimate(
        value=math.exp(interval.centre),
        low=math.exp(interval.low),
        high=math.exp(interval.high),
        blocks=len(logs),
        sd_log=mean_and_sd(logs)[1],
    )


def scaled(ratio: Estimate, factor: float) -> Estimate:
    """The same ratio of another unit."""
    return Estimate(
        value=ratio.value * factor,
        low=ratio.low * factor,
        high=ratio.high * factor,
        blocks=ratio.blocks,
        sd_log=ratio.sd_log,
    )


def outliers(logs: Sequence[float]) -> tuple[int, ...]:
    """Indices of outliers, which are reported and never excluded."""
    values = np.asarray(logs, dtype=float)
    away = np.abs(values - np.median(values))
    deviation = float(np.median(away))
    if deviation == 0:
        return ()
    return tuple(int(i) for i in np.flatnonzero(away > OUTLIER_MADS * deviation))
