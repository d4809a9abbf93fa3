"""A ratio from several occasions, its variation between them without any change, and its steps.

An occasion is a group of runs of one boot of one machine. Within an occasion a ratio is measured
precisely; between occasions it varies more, because memory layout, processes and other guests
differ. tau is the standard deviation of that variation, which cannot be estimated from one
occasion.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter

from jissoku.inference.late import Numbers, np, optimize, special
from jissoku.model.history import Change, IndexedRun, PooledRatio, Tau
from jissoku.model.run import Load

# With fewer unchanged pairs tau is assumed, because an estimate would be too uncertain.
UNCHANGED_MIN = 5
TAU_ASSUMED = 0.01

# Fewer machines give no useful prediction for another one.
MACHINES_MIN = 4

CONFIDENCE = 0.95

# The smallest variance: no ratio is measured more precisely than to a millionth.
VARIANCE_MIN = 1e-12


@dataclass(frozen=True, slots=True)
class LogRatio:
    """A log ratio: mean, variance of the mean, degrees of freedom of that variance."""

    mean: float
    variance: float
    freedom: float

    @property
    def error(self) -> float:
        return math.sqrt(self.variance)

    @property
    def change(self) -> Change:
        """With its 95 % interval and the p-value of zero, both by Student's t."""
        half = _quantile(self.freedom) * self.error
        p_value = 1.0 if self.mean == 0 else 0.0
        if self.variance:
            distance = -abs(self.mean) / self.error
            is_normal = math.isinf(self.freedom)
            tail = special.ndtr(distance) if is_normal else special.stdtr(self.freedom, distance)
            p_value = float(2 * tail)
        return Change(mean=self.mean, low=self.mean - half, high=self.mean + half, p_value=p_value)


def _quantile(freedom: float) -> float:
    """Student's t for a 95 % interval: what `scipy.stats.t` calls, without its checks."""
    share = (1 + CONFIDENCE) / 2
    return float(special.ndtri(share) if math.isinf(freedom) else special.stdtrit(freedom, share))


def log_ratio(logs: Sequence[float]) -> LogRatio | None:
    if len(logs) < 2:
        return None
    values = np.asarray(logs, dtype=float)
    variance = float(values.var(ddof=1)) / len(values)
    return LogRatio(float(values.mean()), variance, len(values) - 1)


def pair_ratio(run: IndexedRun, load: Load, arm: str, other: str) -> LogRatio | None:
    """ln(cost of `arm` / cost of `other`) in a run, from its means or its blocks."""
    if found := run.mean(load, arm, other):
        return LogRatio(found.mean, found.variance, found.blocks - 1)
    return log_ratio(list(run.ratios(load, arm, other).values()))


def satterthwaite(parts: Iterable[tuple[float, float]]) -> float:
    """Degrees of freedom of a sum of variances, each with its own (Welch and Satterthwaite)."""
    known = list(parts)
    spread = sum(part**2 / max(freedom, 1.0) for part, freedom in known)
    return sum(part for part, _ in known) ** 2 / spread if spread > 0 else math.inf


def within_occasions(
    mean: Numbers, variance: Numbers, freedom: Numbers, starts: Sequence[int]
) -> list[LogRatio]:
    """One ratio from several runs of each occasion: weighted by their variances.

    The runs of one occasion follow one another, and begin at `starts`.
    """
    weights = 1 / np.maximum(variance, VARIANCE_MIN)
    mass = np.add.reduceat(weights, starts)
    means = np.add.reduceat(weights * mean, starts) / mass
    free = np.add.reduceat(freedom, starts)
    return list(map(LogRatio, means.tolist(), (1 / mass).tolist(), free.tolist()))


def shift(before: Sequence[LogRatio], after: Sequence[LogRatio], tau: Tau) -> LogRatio:
    """The change of a log ratio from some occasions to others.

    Each side's mean is weighted by 1 / (variance + tau^2). The variance of the change is never
    below what tau gives, and larger where the occasions of a side differ by more.
    """
    means, variances = [], []
    squares, freedom = 0.0, 0
    for side in (before, after):
        values = np.array([one.mean for one in side])
        weights = 1 / np.array([max(one.variance, VARIANCE_MIN) + tau.value**2 for one in side])
        mean = float(weights @ values / weights.sum())
        means.append(mean)
        variances.append(float(1 / weights.sum()))
        squares += float(weights @ (values - mean) ** 2)
        freedom += len(side) - 1
    variance = sum(variances) * max(1.0, squares / freedom if freedom else 1.0)
    parts = [
        (one.variance / len(side) ** 2, one.freedom) for side in (before, after) for one in side
    ]
    parts += [(tau.value**2 / len(side), tau.freedom) for side in (before, after)]
    return LogRatio(means[1] - means[0], variance, satterthwaite(parts))


def tau_of_unchanged(differences: Sequence[LogRatio], freedom: float) -> Tau:
    """Rule 4: tau from pairs of unchanged arms (Paule and Mandel, 1982).

    Of each pair, the change of its log ratio between two occasions, with the variance of the two
    measurements; it has twice the variance tau^2. `freedom` is that of their sum of squares.
    """
    if len(differences) < UNCHANGED_MIN:
        return Tau(value=TAU_ASSUMED, pairs=0)
    means = np.array([one.mean for one in differences])
    variances = np.maximum([one.variance for one in differences], VARIANCE_MIN)

    def excess(variance: float) -> float:
        # The mean is known: nothing changed.
        return float((means**2 / (variances + variance)).sum()) - len(means)

    variance = _root(excess, float((means**2).max()))
    return Tau(value=math.sqrt(variance / 2), pairs=len(differences), freedom=freedom)


@dataclass(frozen=True, slots=True)
class RandomEffects:
    """A mean over occasions or machines that differ by more than their errors of measurement.

    `error` is that of the mean, `tau` the standard deviation between them, and `freedom` one less
    than their number.
    """

    mean: float
    error: float
    tau: float
    freedom: int

    def half_width(self, confidence: float = CONFIDENCE) -> float:
        return float(special.stdtrit(self.freedom, (1 + confidence) / 2)) * self.error


class _Pooling:
    """Means and variances of several ratios, pooled for one variance between them or for many."""

    def __init__(self, found: Sequence[LogRatio]) -> None:
        self.means = np.array([one.mean for one in found])
        self.variances = np.maximum([one.variance for one in found], VARIANCE_MIN)
        self.freedom = np.array([one.freedom for one in found])

    def at(self, variances: Numbers) -> tuple[Numbers, Numbers, Numbers]:
        """Of each variance between: mean, its variance, and the weighted sum of squares around."""
        weights = 1 / (self.variances + variances[:, None])
        mass = weights.sum(axis=1)
        means = weights @ self.means / mass
        squares = (weights * (self.means - means[:, None]) ** 2).sum(axis=1)
        return means, 1 / mass, squares

    def at_one(self, variance: float) -> tuple[float, float, float]:
        mean, its_variance, squares = (float(one[0]) for one in self.at(np.array([variance])))
        return mean, its_variance, squares


def random_effects(found: Sequence[LogRatio]) -> RandomEffects | None:
    """Paule and Mandel's variance between, Hartung and Knapp's variance of the mean.

    That is never below the one without their factor (Roever and others, 2015). None from fewer than
    two.
    """
    count = len(found)
    if count < 2:
        return None
    pooling = _Pooling(found)
    above = float(np.ptp(pooling.means)) ** 2
    tau2 = _root(lambda variance: pooling.at_one(variance)[2] - (count - 1), above)
    centre, variance, squares = pooling.at_one(tau2)
    error = math.sqrt(variance * max(1.0, squares / (count - 1)))
    return RandomEffects(centre, error, math.sqrt(tau2), count - 1)


# Variances between, from nothing up to where no sum of squares is left, for their distribution.
GRID = 400


def half_width_of_next(found: Sequence[LogRatio]) -> float:
    """Of the 95 % prediction interval for another one, around the mean of `random_effects`.

    The variance between is not taken for its estimate, which is zero in half of all cases where it
    is small: it has its confidence distribution, that of the sums of squares around the mean
    (Nagashima, Noma and Furukawa, 2019). With equal errors of nearly nothing that is Student's
    interval for one more value.
    """
    pooling, effects = _Pooling(found), random_effects(found)
    assert effects is not None, "one value predicts no other"
    top = 1e4 * (float(np.ptp(pooling.means)) ** 2 + float(pooling.variances.max()))
    edges = np.concatenate([[0.0], np.geomspace(1e-12 * top, top, GRID)])
    below = special.chdtrc(effects.freedom, pooling.at(edges)[2])
    nodes = np.concatenate([[0.0], (edges[1:] + edges[:-1]) / 2])
    mass = np.diff(below, prepend=0.0)
    means, variances, _ = pooling.at(nodes)
    spreads, away = np.sqrt(nodes + variances), means - effects.mean

    def excess(half: float) -> float:
        outside = special.ndtr((-half - away) / spreads) + special.ndtr((away - half) / spreads)
        return float(mass @ outside) / float(mass.sum()) - (1 - CONFIDENCE)

    return _root(excess, 4 * max(effects.tau, effects.error))


def p_differ(found: Sequence[LogRatio]) -> float:
    """P-value of all having one true ratio (Welch, 1951): Cochran's Q, for errors from few values.

    Q itself takes errors for known, and finds differences in 10 % of cases in place of 5 where each
    has nine blocks.
    """
    pooling, count = _Pooling(found), len(found)
    weights = 1 / pooling.variances
    squares = pooling.at_one(0.0)[2]
    lost = float(((1 - weights / weights.sum()) ** 2 / pooling.freedom).sum())
    if lost == 0:
        return float(special.chdtrc(count - 1, squares))
    value = squares / (count - 1) / (1 + 2 * (count - 2) / (count**2 - 1) * lost)
    return float(special.fdtrc(count - 1, (count**2 - 1) / (3 * lost), value))


def i_squared(found: Sequence[LogRatio]) -> float:
    """The part of the variance that is between them (Higgins and Thompson, 2002)."""
    squares = _Pooling(found).at_one(0.0)[2]
    return max(0.0, 1 - (len(found) - 1) / squares) if squares else 0.0


def pool(found: Sequence[LogRatio]) -> PooledRatio | None:
    """Rule 5: a random-effects mean over occasions; None from fewer than two."""
    effects = random_effects(found)
    if effects is None:
        return None
    half, ahead = effects.half_width(), half_width_of_next(found)
    return PooledRatio(
        mean=effects.mean,
        low=effects.mean - half,
        high=effects.mean + half,
        next_low=effects.mean - ahead,
        next_high=effects.mean + ahead,
        tau=effects.tau,
        occasions=len(found),
        is_confirmed=is_confirmed([one.change for one in found]),
    )


def _root(excess: Callable[[float], float], above: float) -> float:
    """The solution of Paule and Mandel's equation; 0 without variance beyond the errors."""
    if above <= 0 or excess(0.0) <= 0:
        return 0.0
    while excess(above) > 0:
        above *= 2
    return float(optimize.brentq(excess, 0.0, above, xtol=1e-14))


def is_confirmed(occasions: Sequence[Change]) -> bool:
    """Rule 6: at least two occasions, and each shows the same direction."""
    signs = {(one.low > 0) - (one.high < 0) for one in occasions}
    return len(occasions) >= 2 and len(signs) == 1 and 0 not in signs


def next_machine(found: Sequence[LogRatio]) -> PooledRatio | None:
    """Rule 7: machines are never averaged; from four on, a prediction interval for another one."""
    return pool(found) if len(found) >= MACHINES_MIN else None


# Six and seven occasions: with fewer, no order of them is rare enough to be a suspicion at 1 %.
OCCASIONS_MIN = 13

# A longer series is searched in its newest occasions: the work grows with the square.
OCCASIONS_MAX = 200

# On either side of a step: one occasion may be an outlier, and rule 6 asks for two.
SIDE_MIN = 2

# More exceedances than this decide that a p-value is large (Besag and Clifford, 1991). The sums of
# a batch fit into a core's cache.
BATCH, BATCHES, EXCEEDANCES = 100, 100, 20

# Permutations, not measurements: any fixed seed gives the same page for the same records.
SEED = 1


# Steps in a series of ratios whose place is not known before: one search, and its p-value. A search
# tries every place and takes the best one, so the statistic at that place has no table: its p-value
# comes from permuting whole occasions, with the search repeated in each permutation. The search is
# circular binary segmentation (Olshen, Venkatraman, Lucito and Wigler, 2004): the stretch of
# occasions that differs most from all others, which is a step where it reaches an end of the
# series, and a return where it does not.


@dataclass(frozen=True, slots=True)
class Step:
    """The first place after a step, and the p-value of there being none."""

    place: int
    p_value: float


def find_steps(found: Sequence[LogRatio], tau: float, alpha: float) -> tuple[Step, ...]:
    """All steps of one log ratio per occasion, in order; tau is in their weights.

    A stretch with a p-value above `alpha` is not divided.
    """
    first = max(0, len(found) - OCCASIONS_MAX)
    values = np.array([one.mean for one in found[first:]])
    weights = 1 / np.array([max(one.variance, VARIANCE_MIN) + tau**2 for one in found[first:]])
    steps = _divided(values, weights, alpha)
    ordered = sorted(steps, key=attrgetter("place"))
    return tuple(Step(first + one.place, one.p_value) for one in ordered)


def _divided(values: Numbers, weights: Numbers, alpha: float) -> Iterator[Step]:
    if len(values) < OCCASIONS_MIN:
        return
    p_value, edges = _search(values, weights)
    if p_value > alpha:
        return
    yield from (Step(edge, p_value) for edge in edges)
    for start, end in pairwise([0, *edges, len(values)]):
        for step in _divided(values[start:end], weights[start:end], alpha):
            yield Step(start + step.place, step.p_value)


def _search(values: Numbers, weights: Numbers) -> tuple[float, tuple[int, ...]]:
    """The p-value of the best stretch, and its ends inside of the series."""
    count = len(values)
    # Around the weighted mean, the sum over a stretch is minus that over the rest.
    values = values - weights @ values / weights.sum()
    best, (start, end) = _best(values, weights)
    edges = tuple(place for place in (start, end) if 0 < place < count)
    order, exceeded, drawn = np.random.default_rng(SEED), 0, 0
    # Equal sums in another order differ in their last digits.
    limit = best * (1 - 1e-9)
    while drawn < BATCHES * BATCH and exceeded < EXCEEDANCES:
        places = order.permuted(np.tile(np.arange(count), (BATCH, 1)), axis=1).T
        exceeded += _exceeding(values[places], weights[places], limit)
        drawn += BATCH
    return (1 + exceeded) / (1 + drawn), edges


def _best(values: Numbers, weights: Numbers) -> tuple[float, tuple[int, int]]:
    """The largest drop of the weighted sum of squares, and the stretch with it."""
    mass, total = _sums(weights[:, None]), _sums((weights * values)[:, None])
    height, place = -1.0, (0, 0)
    for length in range(SIDE_MIN, len(values) - SIDE_MIN + 1):
        drops = _drops(mass, total, length)[:, 0]
        start = int(drops.argmax())
        if drops[start] > height:
            height, place = float(drops[start]), (start, start + length)
    return height, place


def _exceeding(values: Numbers, weights: Numbers, limit: float) -> int:
    """In how many columns a stretch drops the weighted sum of squares by the limit or more."""
    mass, total = _sums(weights), _sums(weights * values)
    height = np.zeros(values.shape[1])
    for length in _possible_lengths(weights[:, 0], float(np.ptp(total, axis=0).max()), limit):
        np.maximum(height, _drops(mass, total, length).max(axis=0), out=height)
    return int((height >= limit).sum())


def _possible_lengths(weights: Numbers, reach: float, limit: float) -> list[int]:
    """Lengths of stretches that may drop the sum of squares by the limit.

    No stretch has a larger sum than `reach`, and none of a length less mass than the smallest
    weights give. That rules out nearly all lengths where a series has a step, and few where not.
    """
    whole = weights.sum()
    least = np.concatenate([[0.0], np.cumsum(np.sort(weights))])
    inner = least * (whole - least)  # Of mass inside and outside; it falls towards both ends.
    lengths = np.arange(SIDE_MIN, len(weights) - SIDE_MIN + 1)
    smallest = np.minimum(inner[lengths], inner[len(weights) - lengths])
    found: list[int] = lengths[reach**2 * whole >= limit * smallest * (1 - 1e-9)].tolist()
    return found


def _sums(rows: Numbers) -> Numbers:
    return np.concatenate([np.zeros((1, rows.shape[1])), np.cumsum(rows, axis=0)])


def _drops(mass: Numbers, total: Numbers, length: int) -> Numbers:
    """By how much each stretch of a length drops the weighted sum of squares, in each column.

    The parts before and after it are empty or long enough; other stretches drop it by -1.
    """
    inside = mass[length:] - mass[:-length]
    drops = total[length:] - total[:-length]
    drops *= drops
    drops *= mass[-1]
    drops /= inside * (mass[-1] - inside)
    for side in range(1, SIDE_MIN):
        drops[[side, -1 - side]] = -1.0
    return drops
