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
import numpy.typing as npt

from jissoku.stats.pooling import VARIANCE_MIN, LogRatio

Numbers = npt.NDArray[np.float64]

# Six and seven occasions: with fewer, no order of them is rare enough to be a suspicion at 1 %.
OCCASIONS_MIN = 13

# A longer series is searched in its newest occasions: the work grows with the square.
OCCASIONS_MAX = 200

# On either side of a step: one occasion may be an outlier, and rule 6 asks for two.
SIDE_MIN = 2

# More exceedances than this decide that a p-value is large (Besag and Clifford, 1991).
BATCH, BATCHES, EXCEEDANCES = 1_000, 10, 20

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
    (best,), ((start, end),) = _best(values[None], weights[None])
    edges = tuple(place for place in (int(start), int(end)) if 0 < place < count)
    order, exceeded, drawn = np.random.default_rng(SEED), 0, 0
    # Equal sums in another order differ in their last digits.
    limit = best * (1 - 1e-9)
    while drawn < BATCHES * BATCH and exceeded < EXCEEDANCES:
        places = order.permuted(np.tile(np.arange(count), (BATCH, 1)), axis=1)
        heights, _ = _best(values[places], weights[places])
        exceeded += int((heights >= limit).sum())
        drawn += BATCH
    return (1 + exceeded) / (1 + drawn), edges


def _best(values: Numbers, weights: Numbers) -> tuple[Numbers, npt.NDArray[np.int64]]:
    """For each row the largest drop of the weighted sum of squares, and the stretch with it."""
    rows, count = values.shape
    zero = np.zeros((rows, 1))
    mass = np.concatenate([zero, np.cumsum(weights, axis=1)], axis=1)
    total = np.concatenate([zero, np.cumsum(weights * values, axis=1)], axis=1)
    height, place = np.full(rows, -1.0), np.zeros((rows, 2), dtype=np.int64)
    for length in range(SIDE_MIN, count - SIDE_MIN + 1):
        starts = np.array([s for s in range(count - length + 1) if _is_whole(s, length, count)])
        inside = mass[:, starts + length] - mass[:, starts]
        outside = mass[:, -1:] - inside
        part = total[:, starts + length] - total[:, starts]
        gap = part / inside - (total[:, -1:] - part) / outside
        drop = gap**2 * inside * outside / mass[:, -1:]
        at = drop.argmax(axis=1)
        high = drop[np.arange(rows), at]
        is_better = high > height
        height = np.where(is_better, high, height)
        ends = np.stack([starts[at], starts[at] + length], axis=1)
        place = np.where(is_better[:, None], ends, place)
    return height, place


def _is_whole(start: int, length: int, count: int) -> bool:
    """Whether the parts before and after a stretch are empty or long enough."""
    after = count - start - length
    return (start == 0 or start >= SIDE_MIN) and (after == 0 or after >= SIDE_MIN)
