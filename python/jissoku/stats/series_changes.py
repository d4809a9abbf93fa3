"""Changes in a target's series: at known boundaries first, and then where nothing is known.

A boundary is known where the target's program changed, or its surroundings: there a change is
tested, not searched for. Between two changes of the surroundings, occasions are also searched for
steps, whatever their programs: a step at a change of the program belongs to it, any other has no
known cause.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from jissoku.model import Load
from jissoku.model.history import ArmRow
from jissoku.model.history_answer import ArmChange, Control, SeriesPoint, Tau
from jissoku.model.updated import updated
from jissoku.stats.across_runs import (
    CONTROL_ALPHA,
    SUSPICION_ALPHA,
    breaks,
    common_loads,
    difference,
)
from jissoku.stats.change_points import OCCASIONS_MIN, SIDE_MIN, Step, find_steps
from jissoku.stats.pooling import LogRatio, pair_ratio, shift
from jissoku.stats.run_difference import confirmation
from jissoku.stats.series_points import Measured


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
    """Steps that a search found, with the p-value of the search."""
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
    """Of each occasion that has it, the ratio of a program to the anchor."""
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
