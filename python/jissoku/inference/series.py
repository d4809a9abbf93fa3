"""A target's cost over time: ratios to an unchanged arm on each occasion, and where they changed.

A series is planned from the headers of runs, so that of each run only one pair of arms is read. A
boundary is known where the target's program changed, or its surroundings: there a change is tested,
not searched for. Between two changes of the surroundings, occasions are also searched for steps,
whatever their programs: a step at a change of the program belongs to it, any other has no known
cause.
"""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from jissoku.inference import decision, pooling
from jissoku.inference.across_runs import (
    SUSPICION_ALPHA,
    Occasion,
    breaks,
    common_loads,
    comparison_key,
    confirmation,
    difference,
    most_moved,
    race,
    surroundings,
    suspected,
)
from jissoku.inference.late import np
from jissoku.model import Load, updated
from jissoku.model.history import (
    ArmChange,
    ArmRow,
    IndexedRun,
    MachineRatio,
    PooledRatio,
    RatioColumns,
    Series,
    SeriesPoint,
    Tau,
    load_of,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesPlan:
    """One arm of a target in comparable runs, and the arm that is its unit.

    Attributes:
        groups: Runs of one occasion with one program of the target and the same surroundings.
        units: Name of the unit in each run that has it, by the run's key.
        last: The newest occasion.
    """

    target: str
    arm: str
    anchor: ArmRow
    groups: tuple[tuple[IndexedRun, ...], ...]
    units: dict[str, str]
    last: Occasion


@dataclass(frozen=True, slots=True)
class Measured:
    point: SeriesPoint
    value: pooling.LogRatio
    run: IndexedRun


def series_plans(found: Iterable[Occasion], target: str) -> tuple[SeriesPlan, ...]:
    """A plan for each arm of a target in each group of comparable runs; none without an anchor."""
    comparable: dict[tuple[object, ...], list[Occasion]] = defaultdict(list)
    for occasion in found:
        groups: dict[tuple[object, ...], list[IndexedRun]] = defaultdict(list)
        for run in occasion:
            if any(arm.target == target for arm in run.arms):
                groups[comparison_key(run)].append(run)
        for key, runs in groups.items():
            comparable[key].append(tuple(runs))
    plans: list[SeriesPlan] = []
    for group in comparable.values():
        # A/A controls are copies of the baseline.
        arms = (arm for runs in group for run in runs for arm in run.arms if not arm.is_control)
        names = sorted({arm.arm for arm in arms if arm.target == target})
        plans += filter(None, (_plan(group, target, name) for name in names))
    return tuple(plans)


def _plan(group: Sequence[Occasion], target: str, name: str) -> SeriesPlan | None:
    found: list[tuple[IndexedRun, ...]] = []
    every: list[IndexedRun] = []
    for occasion in group:
        # A governor, for one, may change within an occasion.
        alike: dict[tuple[str, ...], list[IndexedRun]] = defaultdict(list)
        for run in occasion:
            arm = run.arm(name)
            if arm is not None:
                alike[arm.program, *surroundings(run)].append(run)
                every.append(run)
        found += map(tuple, alike.values())
    anchor = _anchor(every, target)
    if anchor is None:
        return None
    return SeriesPlan(
        target=target,
        arm=name,
        anchor=anchor,
        groups=tuple(found),
        units={
            run.row.run: arm.arm
            for run in every
            for arm in reversed(run.arms)
            if arm.program == anchor.program
        },
        last=next(occasion for occasion in reversed(group) if any(r.arm(name) for r in occasion)),
    )


def _anchor(runs: Iterable[IndexedRun], target: str) -> ArmRow | None:
    """The unchanged program that most runs have; the floor where it is as frequent as any other."""
    known: dict[str, ArmRow] = {}
    count: Counter[str] = Counter()
    for run in runs:
        for arm in run.arms:
            if arm.program and arm.target != target and not arm.is_control:
                known[arm.program] = arm
                count[arm.program] += 1
    if not count:
        return None
    return known[max(count, key=lambda key: (count[key], known[key].is_floor, known[key].arm))]


def points_by_load(
    plan: SeriesPlan, columns: RatioColumns
) -> Iterator[tuple[Load, list[Measured]]]:
    """The points at each rate that has one; a rate's name is that of its newest run."""
    rows: dict[str, list[int]] = defaultdict(list)
    for row, key in enumerate(columns.run):
        rows[key].append(row)
    places: dict[int, list[tuple[int, int, IndexedRun]]] = defaultdict(list)
    for number, group in enumerate(plan.groups):
        for run in group:
            unit = plan.units.get(run.row.run)
            for row in rows.get(run.row.run, ()):
                if columns.arm[row] == plan.arm and columns.unit[row] == unit:
                    places[columns.rate[row]].append((number, row, run))
    for rate, found in places.items():
        numbers, chosen, runs = zip(*found, strict=True)
        starts = np.flatnonzero(np.diff(numbers, prepend=-1)).tolist()
        mean, variance, freedom = (
            np.array([column[row] for row in chosen], dtype=float)
            for column in (columns.mean, columns.variance, columns.freedom)
        )
        values = pooling.within_occasions(mean, variance, freedom, starts)
        points = [
            _point(plan.arm, value, runs[start:end])
            for value, start, end in zip(values, starts, [*starts[1:], len(runs)], strict=True)
        ]
        yield load_of(rate or None, columns.level[chosen[-1]]), points


def _point(name: str, value: pooling.LogRatio, runs: Sequence[IndexedRun]) -> Measured:
    arm = runs[-1].arm(name)
    assert arm is not None, "a plan has only runs with its arm"
    point = SeriesPoint(
        started_utc=runs[0].row.started_utc,
        version=arm.version,
        program=arm.program,
        runs=tuple(run.row.run for run in runs),
        ratio=value.change,
        error=value.error,
        freedom=value.freedom,
    )
    return Measured(point, value, runs[-1])


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    arm: str
    anchor: ArmRow
    load: Load
    tau: Tau


def with_changes(found: Sequence[Measured], asked: Question) -> tuple[tuple[SeriesPoint, ...], int]:
    """The points with what changed before each, and how many searches found nothing."""
    joined = [found[0], *(_joined(one, two, asked) for one, two in pairwise(found))]
    points = [one.point for one in joined]
    without = 0
    # Stretches within which nothing but the target changed: points of two are never joined.
    broken = [index for index, one in enumerate(joined) if one.point.breaks]
    for start, end in pairwise([0, *broken, len(joined)]):
        stretch = joined[start:end]
        for place, change in _versions(stretch, asked):
            points[start + place] = updated(points[start + place], since=change)
        steps = pooling.find_steps([one.value for one in stretch], asked.tau.value, SUSPICION_ALPHA)
        if len(stretch) >= pooling.OCCASIONS_MIN and not steps:
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
        since = shared and difference(earlier, run, asked.arm, shared, asked.tau)
        if since:
            confirmed_by = confirmation(earlier, run, asked.arm)
            point = updated(point, since=suspected(updated(since, confirmation=confirmed_by)))
    return Measured(point, after.value, run)


def _versions(stretch: Sequence[Measured], asked: Question) -> Iterator[tuple[int, ArmChange]]:
    """Changes of the program with several occasions on a side: all of them are used."""
    programs = [one.point.program for one in stretch]
    places = [index for index in range(1, len(stretch)) if programs[index] != programs[index - 1]]
    bounds = [0, *places, len(stretch)]
    for start, place, end in zip(bounds, bounds[1:], bounds[2:], strict=False):
        if end - start > pooling.SIDE_MIN:
            yield place, _change(stretch[start:place], stretch[place:end], asked)


def _searched(
    stretch: Sequence[Measured], steps: Sequence[pooling.Step], asked: Question
) -> Iterator[tuple[int, ArmChange]]:
    bounds = [0, *(step.place for step in steps), len(stretch)]
    for step, start, end in zip(steps, bounds, bounds[2:], strict=False):
        change = _change(stretch[start : step.place], stretch[step.place : end], asked)
        sure = updated(change.change, p_value=step.p_value)
        yield step.place, suspected(updated(change, change=sure))


def _change(before: Sequence[Measured], after: Sequence[Measured], asked: Question) -> ArmChange:
    """From the occasions on one side of a place to those on its other side."""
    control, moved = most_moved(_moved(before, after, asked))
    points = before[-1].point, after[0].point
    ours, theirs = ([one.value for one in side] for side in (before, after))
    return suspected(
        ArmChange(
            arm=asked.arm,
            load=asked.load,
            versions=(points[0].version, points[1].version),
            change=pooling.shift(ours, theirs, asked.tau).change,
            anchors=(asked.anchor.arm,),
            control=control,
            control_change=moved,
            is_same=points[0].program == points[1].program,
            is_suspected=False,
            occasions=(len(before), len(after)),
            confirmation=confirmation(before[-1].run, after[0].run, asked.arm),
        )
    )


def _moved(
    before: Sequence[Measured], after: Sequence[Measured], asked: Question
) -> list[pooling.LogRatio]:
    """How unchanged other arms moved against the anchor, between the same points."""
    programs = {
        arm.program
        for one in (*before, *after)
        for arm in one.run.arms
        if arm.program and arm.arm != asked.arm and not arm.is_control
    }
    sides = (
        [_ratios(side, program, asked) for side in (before, after)]
        for program in sorted(programs - {asked.anchor.program})
    )
    return [pooling.shift(one, other, asked.tau) for one, other in sides if one and other]


def _ratios(side: Sequence[Measured], program: str, asked: Question) -> list[pooling.LogRatio]:
    found = []
    for one in side:
        names = {arm.program: arm.arm for arm in one.run.arms if not arm.is_control}
        if program not in names or asked.anchor.program not in names:
            continue
        load = next((at for at in one.run.loads if at.rate_rps == asked.load.rate_rps), asked.load)
        value = pooling.pair_ratio(one.run, load, names[program], names[asked.anchor.program])
        if value is not None:
            found.append(value)
    return found


@dataclass(frozen=True, slots=True)
class PlannedSeries:
    plan: SeriesPlan
    load: Load
    points: Sequence[Measured]

    @property
    def runs(self) -> set[str]:
        """Runs of which every ratio to the anchor is needed, by key: the newest of each point."""
        return {one.run.row.run for one in self.points}

    @property
    def beside_changes(self) -> set[str]:
        """Runs that are needed block by block: those on both sides of a known boundary.

        The newest point is one of them, since the command that adds another is made from its run.
        """
        found = {self.points[-1].run.row.run}
        for before, after in pairwise(self.points):
            if before.point.program != after.point.program or breaks(before.run, after.run):
                found |= {before.run.row.run, after.run.row.run}
        return found


def planned_series(plans: Iterable[SeriesPlan], columns: RatioColumns) -> tuple[PlannedSeries, ...]:
    return tuple(
        PlannedSeries(plan, load, points)
        for plan in plans
        for load, points in points_by_load(plan, columns)
    )


def finished_series(
    planned: Iterable[PlannedSeries], runs: Mapping[str, IndexedRun], taus: Mapping[str, Tau]
) -> tuple[Series, ...]:
    """Every series of a target, the one with most points first.

    Suspicions are corrected for the number of boundaries and searches (Holm).
    """
    found = [_series(one, runs, taus) for one in planned]
    found.sort(key=lambda one: (-len(one.points), -(one.load.rate_rps or 0)))
    p_values = [point.since.change.p_value for one in found for point in one.points if point.since]
    p_values += [1.0] * sum(one.searches for one in found)
    adjusted = iter(decision.holm(p_values))
    return tuple(
        updated(one, points=tuple(_with(point, adjusted) for point in one.points)) for one in found
    )


def machine_ratios(found: Sequence[Series]) -> tuple[MachineRatio, ...]:
    """Rule 7: series of one question on several classes of machines."""
    together: dict[tuple[object, ...], dict[str, Series]] = defaultdict(dict)
    for one in found:
        key = (one.arm, one.anchor, one.load.rate_rps, one.workload, one.method)
        together[key].setdefault(one.machine, one)
    ratios = []
    for first, *others in (list(group.values()) for group in together.values()):
        newest = [(one.machine_text, one.points[-1]) for one in (first, *others)]
        values = [pooling.LogRatio(one.ratio.mean, one.error**2, one.freedom) for _, one in newest]
        if others:
            ratios.append(
                MachineRatio(
                    target=first.target,
                    anchor=first.anchor,
                    load=first.load,
                    workload_text=first.workload_text,
                    rows=tuple((text, one.ratio) for text, one in newest),
                    next_machine=pooling.next_machine(values),
                )
            )
    return tuple(ratios)


def _series(
    planned: PlannedSeries, runs: Mapping[str, IndexedRun], taus: Mapping[str, Tau]
) -> Series:
    plan = planned.plan
    row = plan.last[-1].row
    tau = taus[row.machine]
    found = [Measured(one.point, one.value, runs[one.run.row.run]) for one in planned.points]
    facts = (comparison_key(plan.last[-1]), plan.anchor.program)
    question = Question(arm=plan.arm, anchor=plan.anchor, load=planned.load, tau=tau)
    points, searches = with_changes(found, question)
    return Series(
        target=plan.target,
        arm=plan.arm,
        anchor=plan.anchor.arm,
        load=planned.load,
        workload_text=row.workload_text,
        machine=row.machine,
        machine_text=row.machine_label or row.machine_text,
        points=points,
        pooled=_pooled(points, [one.value for one in found]),
        tau=tau,
        searches=searches,
        # Later runs of the target may have had neither the anchor nor the load.
        race=race([found[-1].run], {plan.target, plan.anchor.target}),
        anchor_version=plan.anchor.version,
        method=row.method,
        question=hashlib.sha256(repr(facts).encode()).hexdigest()[:12],
        workload=row.workload,
    )


def _pooled(
    points: Sequence[SeriesPoint], values: Sequence[pooling.LogRatio]
) -> PooledRatio | None:
    """The pooled ratio of the newest program, back to where anything else changed."""
    kept = [values[-1]]
    for place in range(len(points) - 1, 0, -1):
        if points[place].breaks or points[place - 1].program != points[-1].program:
            break
        kept.append(values[place - 1])
    return pooling.pool(kept)


def _with(point: SeriesPoint, adjusted: Iterator[float | None]) -> SeriesPoint:
    if point.since is None:
        return point
    p_value = next(adjusted)
    is_sure = point.since.is_suspected and p_value is not None and p_value <= SUSPICION_ALPHA
    return updated(point, since=updated(point.since, is_suspected=is_sure))
