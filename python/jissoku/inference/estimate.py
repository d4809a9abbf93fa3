"""From one logarithm per block to estimates, intervals and p-values, at one look or at several.

All functions use natural logarithms of ratios (or of positive quantities), because servers differ
by factors. The t-interval is primary; the two exact methods assume no distribution and are a check
of it. There is no bootstrap: below twenty blocks its intervals are too narrow.
"""

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from jissoku.inference.late import Numbers, np, optimize, special, stats
from jissoku.model import Estimate, plural, updated

# Sign flips are counted exactly up to this number of blocks; half of them are enumerated at a time,
# in 3 ms. With 40 blocks it took a quarter of a second for each pair.
SIGN_FLIP_BLOCKS_MAX = 30

# |d - median| above this many median absolute deviations is reported as an outlier, and kept
# (ten standard deviations of a normal distribution; Iglewicz and Hoaglin, 1993, as hyperfine does).
OUTLIER_MADS = 14.8


@dataclass(frozen=True, slots=True)
class Interval:
    centre: float
    low: float
    high: float

    def shrunk(self, factor: float) -> "Interval":
        low, high = (self.centre + factor * (end - self.centre) for end in (self.low, self.high))
        return Interval(self.centre, low, high)


@dataclass(frozen=True, slots=True)
class Spread:
    """A standard deviation, and the degrees of freedom from which it is estimated."""

    sd: float
    freedom: float


# The spread after each number of blocks at which a run is looked at.
Spreads = Mapping[int, Spread]
NO_SPREADS: Spreads = {}


def t_interval(logs: Sequence[float], confidence: float = 0.95) -> Interval:
    """Student's two-sided interval of the mean; ValueError from fewer than two values."""
    mean, spread = mean_and_sd(logs)
    return t_interval_from(mean, spread, len(logs), confidence)


def t_interval_from(mean: float, spread: float, blocks: int, confidence: float) -> Interval:
    half = _t_quantile((1 + confidence) / 2, blocks - 1) * spread / math.sqrt(blocks)
    return Interval(mean, mean - half, mean + half)


@cache
def _t_quantile(probability: float, freedom: int) -> float:
    return float(stats.t.ppf(probability, freedom))


def hodges_lehmann(logs: Sequence[float], confidence: float = 0.95) -> Interval | None:
    """Median of all pairwise means, with the interval that inverts Wilcoxon's signed-rank test.

    Exact for a symmetric distribution (Hollander, Wolfe and Chicken, Nonparametric Statistical
    Methods, section 3.3). None from too few blocks for any interval at this confidence.
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
def _pairs(count: int) -> "tuple[np.ndarray, np.ndarray]":
    rows, columns = np.triu_indices(count)
    return rows, columns


@cache
def _walsh_left_out(count: int, confidence: float) -> int:
    """One more than the number of pairwise means outside of the interval on each side."""
    below = np.cumsum(_signed_rank_probabilities(count))
    return int(np.searchsorted(below, (1 - confidence) / 2, side="right"))


def _signed_rank_probabilities(count: int) -> Numbers:
    """P(W = w) for Wilcoxon's W over `count` differences, w from 0: subset sums of 1..count."""
    ways = np.zeros(count * (count + 1) // 2 + 1)
    ways[0] = 1.0
    for rank in range(1, count + 1):
        positive = np.zeros_like(ways)
        positive[rank:] = ways[:-rank]
        ways = (ways + positive) / 2
    return ways


def welch(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Two-sided p-value of equal means, with unequal variances (Welch 1947); two values or more."""
    if max(ours) == min(ours) and max(theirs) == min(theirs):
        return 1.0 if ours[0] == theirs[0] else 0.0
    first, second = ((*mean_and_sd(logs), len(logs)) for logs in (ours, theirs))
    return float(stats.ttest_ind_from_stats(*first, *second, equal_var=False).pvalue)


def welch_min_spread(
    ours: Sequence[float], theirs: Sequence[float], least: Sequence[Spread]
) -> float:
    """Two-sided p-value of equal means, where `theirs` are too few to show their spread.

    Two values that lie close together by chance give Welch's test an error that is much too small.
    Each spread that theirs are known to have at least takes the place of their own where it is
    larger; of several, the one that allows the larger difference. A spread that is known from few
    values allows more than one that is known from many (Welch and Satterthwaite).
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
    """Two-sided p-value of no trend (slope of a line) in at least three ordered values."""
    if min(values) == max(values):
        return 1.0
    return float(stats.linregress(np.arange(len(values)), values).pvalue)


# This many other arms of a trial say what all arms of a block have in common.
OTHERS_MIN = 3

# What the sum of a pair says counts as this many degrees of freedom: much in few blocks, which lack
# them, and little in many.
FREEDOM_OF_SUMS = 2


@dataclass(frozen=True, slots=True)
class Company:
    """What the trials of a pair say of its spread beside the ratios, all by block.

    Where two arms vary independently, the sum of their logarithms varies as their difference does,
    once what the block changes in all arms is removed. The median of the other arms stands for
    that. It has an error of its own, which can only add to the spread: since it is known without
    the two arms, no choice of it makes the sum vary less than they do.

    Attributes:
        sums: Sums of the two logarithms of the pair.
        others: The logarithms of each other arm.
    """

    sums: Mapping[int, float]
    others: tuple[Mapping[int, float], ...]

    def contrasts(self, blocks: Sequence[int]) -> dict[int, float]:
        """The sums without what a block changes in all arms, where other arms are enough."""
        centred = []
        for one in self.others:
            known = [block for block in blocks if block in one]
            mean = sum(one[block] for block in known) / max(1, len(known))
            if len(known) > 1:  # A single value would be its own mean.
                centred.append({block: one[block] - mean for block in known})
        found = {}
        for block in blocks:
            here = [one[block] for one in centred if block in one]
            if len(here) >= OTHERS_MIN:
                found[block] = self.sums[block] - 2 * statistics.median(here)
        return found

    def spread(self, logs: Mapping[int, float], blocks: Sequence[int]) -> Spread:
        """The spread of a pair's differences in these blocks, from the variances of both contrasts.

        By Satterthwaite (1946), as if both varied equally: their own variances would count for
        most where one is small by chance. If one arm varies more than the other, both contrasts
        are mostly that arm, and their correlation takes the added degrees of freedom away again.
        """
        sums = self.contrasts(blocks)
        own, added, weight = len(blocks) - 1, len(sums) - 1, FREEDOM_OF_SUMS
        variance = float(np.var([logs[block] for block in blocks], ddof=1))
        if added < 2:
            return Spread(math.sqrt(variance), own)
        beside = float(np.var(list(sums.values()), ddof=1))
        first, second = (_centred(one[block] for block in sums) for one in (logs, sums))
        product = float((first @ first) * (second @ second))
        correlation = min(1.0, float(first @ second) ** 2 / product) if product > 0 else 1.0
        pooled = (own * variance + weight * beside) / (own + weight)
        freedom = (own + weight) ** 2 / (own + weight**2 / added + 2 * weight * correlation)
        return Spread(math.sqrt(pooled), freedom)


def _centred(values: Iterable[float]) -> Numbers:
    found = np.array(list(values))
    centred: Numbers = found - found.mean()
    return centred


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


def _signed_sums(values: Numbers) -> Numbers:
    sums = np.zeros(1)
    for value in values:
        sums = np.concatenate([sums + value, sums - value])
    return sums


def own_spread(logs: Sequence[float] | Numbers) -> Spread:
    return Spread(mean_and_sd(logs)[1], len(logs) - 1)


def mean_and_sd(logs: Sequence[float] | Numbers) -> tuple[float, float]:
    """Mean and standard deviation (n - 1); ValueError from fewer than two logarithms."""
    if len(logs) < 2:
        gives = plural(len(logs), "block gives", "blocks give")
        raise ValueError(f"{len(logs)} {gives} no interval: at least 2 are needed")
    values = np.asarray(logs, dtype=float)
    return float(values.mean()), float(values.std(ddof=1))


def geometric_mean(logs: Sequence[float]) -> Estimate | None:
    """Geometric mean of the values with these logarithms; None from fewer than two blocks."""
    return as_ratio(t_interval(logs), logs) if len(logs) > 1 else None


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
    value, low, high = (factor * one for one in (ratio.value, ratio.low, ratio.high))
    return updated(ratio, value=value, low=low, high=high)


def outliers(logs: Sequence[float]) -> tuple[int, ...]:
    """Indices of outliers, which are reported and never excluded."""
    values = np.asarray(logs, dtype=float)
    away = np.abs(values - np.median(values))
    deviation = float(np.median(away))
    if deviation == 0:
        return ()
    return tuple(int(i) for i in np.flatnonzero(away > OUTLIER_MADS * deviation))


# Critical values of Student's t when it is looked at after every block.
#
# The error of 5 % is spent over the looks (Lan and DeMets, Biometrika 70, 1983): at each look the
# boundary is where as much of it is spent as the spending function allows up to there. The chance
# that equal arms are ever called different, at any look of a run, is at most 5 %, and the user may
# stop it at any moment.
#
# The boundaries are computed and not simulated. Let S be the sum of the first n log ratios and Q
# the sum of their squares. With u = S / sqrt(Q), Student's t is u sqrt((n - 1) / (n - u^2)), and
# the next one is u' = (u + w) / sqrt(1 + w^2) with w = x / sqrt(Q). Without an effect w is
# independent of all earlier u, and sqrt(n) w has Student's t distribution with n degrees of
# freedom: u is a Markov chain with one number as its state. Its distribution is carried from look
# to look in bins; with w = tan(theta), u' = sqrt(1 + u^2) sin(theta + atan(u)), so that every step
# has a closed form.

# A standard deviation needs two blocks, and one of two says nearly nothing.
FIRST_LOOK = 3

# Longer runs spend more at their first looks, in proportion.
SHORT_HORIZON = 12

# With half and twice as many bins the critical values differ by less than 0.02.
BINS = 80

# Significance levels for which boundaries are computed; between them p-values are interpolated on
# logarithms. Below them two looks hardly ever find the same, and a look has what it may spend.
ALPHAS = (0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 1e-3, 1e-4)


def spent(blocks: int, horizon: int) -> float:
    """The part of the error that may be spent in the first `blocks` blocks.

    A Pocock-type function in short runs, the square root in long ones, whose early looks would have
    next to nothing otherwise.
    """
    part = min(1.0, blocks / horizon)
    return math.log1p((math.e - 1) * part) if horizon <= SHORT_HORIZON else math.sqrt(part)


def critical(blocks: int, horizon: int, alpha: float) -> float:
    """The value that |t| must exceed after `blocks` blocks; infinite before the first look.

    Args:
        blocks: More than `horizon`, over which the error is spent, count as that many.
        alpha: Two-sided, of all looks together.
    """
    return boundaries(horizon, alpha).get(min(blocks, horizon), math.inf)


def compute_looks(horizon: int) -> None:
    for alpha in ALPHAS:
        boundaries(horizon, alpha)


def p_value(t: float, blocks: int, horizon: int, freedom: float | None = None) -> float:
    """The smallest significance level at which a look after `blocks` blocks finds this |t|.

    With other degrees of freedom than those of the blocks |t| counts as the one that is as rare.
    """
    if blocks < FIRST_LOOK:
        return 1.0
    blocks = min(blocks, horizon)
    here = _two_sided(t, blocks - 1 if freedom is None else freedom)
    tails = [_two_sided(critical(blocks, horizon, alpha), blocks - 1) for alpha in ALPHAS]
    if here >= tails[0]:
        return 1.0
    if here <= tails[-1]:
        added = spent(blocks, horizon)
        if blocks > FIRST_LOOK:
            added -= spent(blocks - 1, horizon)
        return min(ALPHAS[-1], here / added)
    known = np.log(tails[::-1]), np.log(ALPHAS[::-1])
    return float(np.exp(np.interp(math.log(here), *known)))


@cache
def boundaries(horizon: int, alpha: float) -> dict[int, float]:
    """The critical value of each look, with the error spent until then by `spent`."""
    found: dict[int, float] = {}
    state, mass, used = np.array([1.0]), np.array([1.0]), 0.0
    for blocks in range(2, horizon + 1):
        above = _above(state, blocks - 1)
        bound = math.inf
        if blocks >= FIRST_LOOK:
            allowed = alpha * spent(blocks, horizon) - used
            if not found:  # Nothing has been stopped before: it is that of a single look.
                bound = float(special.stdtrit(blocks - 1, 1 - allowed / 2))
            else:
                bound = _bound(blocks, mass, above, allowed)
            found[blocks], used = bound, used + allowed
        top = 1.0 if math.isinf(bound) else _u(bound, blocks) / math.sqrt(blocks)
        edges = np.linspace(0.0, math.asin(min(1.0, top)), BINS + 1)
        beyond = np.array([mass @ above(math.sqrt(blocks) * math.sin(edge)) for edge in edges])
        state = math.sqrt(blocks) * np.sin((edges[:-1] + edges[1:]) / 2)
        mass = beyond[:-1] - beyond[1:]
    return found


def _u(t: float, blocks: int) -> float:
    return t * math.sqrt(blocks / (blocks - 1 + t * t))


def _bound(blocks: int, mass: Numbers, above: Callable[[float], Numbers], allowed: float) -> float:
    """The |t| beyond which there is as much as is allowed."""

    def excess(log_t: float) -> float:
        beyond = float(mass @ above(_u(math.exp(log_t), blocks)))
        return math.log(max(beyond, 1e-300) / allowed)

    return math.exp(optimize.brentq(excess, math.log(0.01), math.log(1e9), xtol=1e-6))


def _above(state: Numbers, freedom: int) -> Callable[[float], Numbers]:
    """For each state |u|, the probability that the next one exceeds some value in size."""
    reach, turn = np.sqrt(1 + state * state), np.arctan(state)
    half, scale = math.pi / 2, math.sqrt(freedom)

    def part(low: Numbers, high: Numbers) -> Numbers:
        first, second = (
            special.stdtr(freedom, scale * np.tan(np.clip(one, -half, half))) for one in (low, high)
        )
        difference: Numbers = second - first
        return difference

    def above(size: float) -> Numbers:
        angle = np.arcsin(np.minimum(1.0, size / reach))
        up = part(angle - turn, math.pi - angle - turn)
        down = part(angle - math.pi - turn, -angle - turn)
        return np.where(size >= reach, 0.0, up + down)

    return above


# Exact tests need six blocks for p < 0.05 (2 / 2^6 = 0.031). A run that is looked at once has no
# verdict from fewer; in one that is looked at after every block Student's t decides alone until
# then.
VERDICT_BLOCKS_MIN = 6


@dataclass(frozen=True, slots=True)
class Looks:
    """When a run may be looked at.

    Attributes:
        horizon: The number of blocks over which the error is spent, with a look after each block
            from the third on; 0: a single look after the last block.
        estimates: How many estimates of the same ratio may be looked at in turn; each has an equal
            part of the error.
    """

    horizon: int = 0
    estimates: int = 1

    @property
    def first(self) -> int:
        return FIRST_LOOK if self.horizon else VERDICT_BLOCKS_MIN

    def used(self, logs: Mapping[int, float]) -> tuple[float, ...]:
        """The values of the blocks that have a part of the error to spend, in their order."""
        values = tuple(logs[block] for block in sorted(logs))
        return values[: self.horizon] if self.horizon else values

    def spreads(self, logs: Mapping[int, float], company: Company | None) -> Spreads:
        """What the other arms say of the spread, at each look so far.

        A run with one look has blocks enough for a spread of its own.
        """
        if not self.horizon or company is None:
            return {}
        blocks = sorted(logs)[: self.horizon]
        every = range(self.first, len(blocks) + 1)
        return {count: company.spread(logs, blocks[:count]) for count in every}

    def interval(
        self, mean: float, spread: Spread, blocks: int, confidence: float = 0.95
    ) -> Interval:
        """The interval of `blocks` blocks with this mean and deviation; confidence 0.95 or 0.90.

        With several looks it holds at all of them at once, and of several estimates for each.
        """
        if not self.horizon:
            return t_interval_from(mean, spread.sd, blocks, confidence)
        alpha = next(one for one in ALPHAS if abs(one - (1 - confidence)) < 1e-9)
        factor = critical(blocks, self.horizon, alpha / self.estimates)
        if spread.freedom != blocks - 1 and math.isfinite(factor):
            factor = -float(special.stdtrit(spread.freedom, special.stdtr(blocks - 1, -factor)))
        half = factor * spread.sd / math.sqrt(blocks) if spread.sd else 0.0
        return Interval(mean, mean - half, mean + half)

    def p_of(self, t: float, blocks: int, freedom: float) -> float:
        """Two-sided p-value of Student's t at the look after `blocks` blocks."""
        if self.horizon:
            return min(1.0, self.estimates * p_value(t, blocks, self.horizon, freedom))
        return _two_sided(t, freedom)

    def p_value(
        self, logs: Sequence[float], tolerance: float = 0.0, spreads: Spreads = NO_SPREADS
    ) -> float:
        """Two-sided p-value of a mean of at most `tolerance` on either side of zero."""
        return min(self.p_of(*look) for look in self._steps(logs, 0.0, tolerance, spreads))

    def p_equal(self, logs: Sequence[float], band: float, spreads: Spreads = NO_SPREADS) -> float:
        """P-value of a mean outside of +- `band`: the larger of two one-sided tests."""
        turned = [-log for log in logs]
        return max(self._p_above(logs, band, spreads), self._p_above(turned, band, spreads))

    def _p_above(self, logs: Sequence[float], band: float, spreads: Spreads) -> float:
        """One-sided p-value of a mean of at most -`band`."""
        found = [(one.t > 0, self.p_of(*one) / 2) for one in self._steps(logs, -band, 0.0, spreads)]
        return min(p_value if is_above else 1 - p_value for is_above, p_value in found)

    def _steps(
        self, logs: Sequence[float], origin: float, tolerance: float, spreads: Spreads
    ) -> list["_Look"]:
        is_early = not self.horizon or len(logs) < self.first
        first = len(logs) if is_early else self.first
        values = np.asarray(logs, dtype=float)
        return [
            _look(values[:count], spreads.get(count), origin, tolerance)
            for count in range(first, len(values) + 1)
        ]


class _Look(NamedTuple):
    t: float
    blocks: int
    freedom: float


def _look(values: Numbers, spread: Spread | None, origin: float, tolerance: float) -> _Look:
    known = spread or own_spread(values)
    away = float(values.mean()) - origin
    away = math.copysign(max(0.0, abs(away) - tolerance), away)
    if known.sd == 0:
        t = 0.0 if away == 0 else math.copysign(math.inf, away)
    else:
        t = away / known.sd * math.sqrt(len(values))
    return _Look(t, len(values), known.freedom)
