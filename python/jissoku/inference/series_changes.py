"""Changes in a target's series: at known boundaries first, and then where nothing is known.

A boundary is known where the target's program changed, or its surroundings: there a change is
tested, not searched for. Between two changes of the surroundings, occasions are also searched for
steps, whatever their programs: a step at a change of the program belongs to it, any other has no
known cause.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from jissoku.inference.across_runs import (
    CONTROL_ALPHA,
    SUSPICION_ALPHA,
    breaks,
    common_loads,
    difference,
)
from jissoku.inference.pooling import VARIANCE_MIN, LogRatio, Numbers, pair_ratio, shift
from jissoku.inference.run_difference import confirmation
from jissoku.inference.series_points import Measured
from jissoku.model import Load
from jissoku.model.history import ArmRow
from jissoku.model.history_answer import ArmChange, Control, SeriesPoint, Tau
from jissoku.model.updated import updated

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a series is about."""

    arm: str
    anchor: ArmRow
    load: Load
    tau: Tau


def with_changes(found: Sequence[Measured], asked: Question) -> tuple[tuple[SeriesPoint, ...], int]:
    """The points with what changed before each, and how many searches found nothing."""
    joined = [found[0], *(_joined(one, two, asked) for one, two in pairwise(found))]
    points = [one.point for one in joined]
    without = 0
    for start, end in _stretches(joined):
        stretch = joined[start:end]
        for place, change in _versions(stretch, asked):
            points[start + place] = updated(points[start + place], since=change)
        steps = find_steps([one.value for one in stretch], asked.tau.value, SUSPICION_ALPHA)
        if len(stretch) >= OCCASIONS_MIN and not steps:
            without += 1
        for place, change in _searched(stretch, steps, asked):
            known = points[start + place].since
            # A test at a known boundary may show more than the search.
            if known is None or change.change.p_value <= known.change.p_value:
                points[start + place] = updated(points[start + place], since=change)
    return tuple(points), without


def _joined(before: Measured, after: Measured, asked: Question) -> Measured:
    """With what changed since the point before, and by how much the cost did (rules 2, 3, 8)."""
    earlier, run = before.run, after.run
    point = updated(after.point, breaks=breaks(earlier, run))
    is_same = point.program == before.point.program
    if earlier.row.run != run.row.run and not (is_same and not point.breaks):
        rate = asked.load.rate_rps
        shared = next((one for one in common_loads(earlier, run) if one.rate_rps == rate), None)
        names = (asked.arm, asked.arm)
        since = shared and difference(earlier, run, names, shared, asked.tau)
        if since:
            confirmed_by = confirmation(earlier, run, asked.arm)
            point = updated(point, since=_suspected(updated(since, confirmation=confirmed_by)))
    return Measured(point, after.value, run)


def _stretches(found: Sequence[Measured]) -> Iterator[tuple[int, int]]:
    """Parts within which nothing but the target changed: points of two are never joined."""
    places = [index for index, one in enumerate(found) if one.point.breaks]
    yield from pairwise([0, *places, len(found)])


def _versions(stretch: Sequence[Measured], asked: Question) -> Iterator[tuple[int, ArmChange]]:
    """Changes of the program with several occasions on a side: all of them are used."""
    programs = [one.point.program for one in stretch]
    places = [index for index in range(1, len(stretch)) if programs[index] != programs[index - 1]]
    bounds = [0, *places, len(stretch)]
    for start, place, end in zip(bounds, bounds[1:], bounds[2:], strict=False):
        if end - start > SIDE_MIN:
            yield place, _change(stretch, (start, place, end), asked)


def _searched(
    stretch: Sequence[Measured], steps: Sequence[Step], asked: Question
) -> Iterator[tuple[int, ArmChange]]:
    bounds = [0, *(step.place for step in steps), len(stretch)]
    for number, step in enumerate(steps):
        change = _change(stretch, (bounds[number], step.place, bounds[number + 2]), asked)
        sure = updated(change.change, p_value=step.p_value)
        yield step.place, _suspected(updated(change, change=sure))


def _change(
    stretch: Sequence[Measured], bounds: tuple[int, int, int], asked: Question
) -> ArmChange:
    """From the occasions on one side of a place to those on its other side."""
    start, place, end = bounds
    before, after = stretch[start:place], stretch[place:end]
    tau = asked.tau
    found = shift([one.value for one in before], [one.value for one in after], tau).change
    control, moved = _control(before, after, asked)
    points = before[-1].point, after[0].point
    return _suspected(
        ArmChange(
            arm=asked.arm,
            load=asked.load,
            versions=(points[0].version, points[1].version),
            change=found,
            anchors=(asked.anchor.arm,),
            control=control,
            control_change=moved.change if moved else None,
            is_same=points[0].program == points[1].program,
            is_suspected=False,
            occasions=(len(before), len(after)),
            confirmation=confirmation(before[-1].run, after[0].run, asked.arm),
        )
    )


def _control(
    before: Sequence[Measured], after: Sequence[Measured], asked: Question
) -> tuple[Control, LogRatio | None]:
    """Rule 3: whether other unchanged arms moved against the anchor at the same place."""
    moved = []
    programs = {
        arm.program
        for one in (*before, *after)
        for arm in one.run.arms
        if arm.program and arm.arm != asked.arm and not arm.is_control
    }
    for program in sorted(programs - {asked.anchor.program}):
        sides = [_ratios(side, program, asked) for side in (before, after)]
        if all(sides):
            moved.append(shift(sides[0], sides[1], asked.tau))
    if not moved:
        return Control.ABSENT, None
    most = min(moved, key=lambda one: one.change.p_value)
    has_moved = most.change.p_value < CONTROL_ALPHA / len(moved)
    return (Control.MOVED if has_moved else Control.UNMOVED), most


def _ratios(side: Sequence[Measured], program: str, asked: Question) -> list[LogRatio]:
    found = []
    for one in side:
        names = {arm.program: arm.arm for arm in one.run.arms if not arm.is_control}
        if program not in names or asked.anchor.program not in names:
            continue
        load = next((at for at in one.run.loads if at.rate_rps == asked.load.rate_rps), asked.load)
        value = pair_ratio(one.run, load, names[program], names[asked.anchor.program])
        if value is not None:
            found.append(value)
    return found


def _suspected(change: ArmChange) -> ArmChange:
    """With what the p-value says, before it is corrected for the number of tests."""
    is_sure = change.control is not Control.MOVED and change.change.p_value <= SUSPICION_ALPHA
    return updated(change, is_suspected=is_sure)
