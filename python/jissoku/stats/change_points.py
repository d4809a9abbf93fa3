"""Steps in a series of ratios whose place is not known before: one search, and its p-value.

A search tries every place and takes the best one, so the statistic at that place has no table:
its p-value comes from permuting whole occasions, with the search repeated in each permutation.
The search is circular binary segmentation (Olshen, Venkatraman, Lucito and Wigler, 2004): the
stretch of occasions that differs most from all others, which is a step where it reaches an end of
the series, and a return where it does not.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from jissoku.stats.pooling import VARIANCE_MIN, LogRatio, Numbers

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


@dataclass(frozen=True, slots=True)
class Step:
    """The first place after a step, and the p-value of there being none."""

    place: int
    p_value: float


def find_steps(found: Sequence[LogRatio], tau: float, alpha: float) -> tuple[Step, ...]:
    """All steps, in order.

    Args:
        found: One log ratio per occasion, earliest first.
        tau: Standard deviation between occasions, which the weights contain.
        alpha: A stretch with a larger p-value is not divided.
    """
    first = max(0, len(found) - OCCASIONS_MAX)
    values = np.array([one.mean for one in found[first:]])
    weights = 1 / np.array([max(one.variance, VARIANCE_MIN) + tau**2 for one in found[first:]])
    steps = _divided(values, weights, alpha)
    return tuple(Step(first + one.place, one.p_value) for one in sorted(steps, key=_place))


def _place(step: Step) -> int:
    return step.place


def _divided(values: Numbers, weights: Numbers, alpha: float) -> Iterator[Step]:
    """Steps of a stretch, and of the parts that they divide it into."""
    if len(values) < OCCASIONS_MIN:
        return
    p_value, edges = _search(values, weights)
    if p_value > alpha:
        return
    bounds = [0, *edges, len(values)]
    yield from (Step(edge, p_value) for edge in edges)
    for start, end in pairwise(bounds):
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
    """Cumulative sums of each column, from nothing on."""
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
