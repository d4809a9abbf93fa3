"""The points of a target's series: its ratio to an unchanged arm, on each occasion.

A series is planned from the headers of runs, so that of each run only one pair of arms is read.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from jissoku.inference.across_runs import surroundings
from jissoku.inference.occasions import Occasion, comparison_key
from jissoku.inference.pooling import LogRatio, pair_ratio, within_occasions
from jissoku.model import Load
from jissoku.model.history import ArmRow, IndexedRun, load_of
from jissoku.model.history_answer import RatioColumns, SeriesPoint


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesPlan:
    """One arm of a target in comparable runs, and the arm that is its unit.

    Attributes:
        groups: Runs of one occasion with one program of the target and the same surroundings, the
            earliest occasion first.
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
    """A point of a series with its log ratio, and its newest run."""

    point: SeriesPoint
    value: LogRatio
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
    return tuple(
        plan
        for group in comparable.values()
        for name in _arms_of(group, target)
        if (plan := _plan(group, target, name))
    )


def _arms_of(group: Iterable[Occasion], target: str) -> list[str]:
    """Their names, without those of A/A controls, which are copies of the baseline."""
    arms = (arm for runs in group for run in runs for arm in run.arms)
    return sorted({arm.arm for arm in arms if arm.target == target and not arm.is_control})


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
    rows = _rows_of_runs(columns)
    places: dict[int, list[tuple[int, int, IndexedRun]]] = defaultdict(list)
    for number, group in enumerate(plan.groups):
        for run in group:
            unit = plan.units.get(run.row.run)
            for row in rows.get(run.row.run, ()):
                if columns.arm[row] == plan.arm and columns.unit[row] == unit:
                    places[columns.rate[row]].append((number, row, run))
    for rate, found in places.items():
        yield load_of(rate or None, columns.level[found[-1][1]]), _points(plan.arm, columns, found)


def _rows_of_runs(columns: RatioColumns) -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for row, run in enumerate(columns.run):
        found[run].append(row)
    return found


def _points(
    name: str, columns: RatioColumns, found: Sequence[tuple[int, int, IndexedRun]]
) -> list[Measured]:
    numbers = np.array([number for number, _, _ in found])
    starts = np.flatnonzero(np.diff(numbers, prepend=-1)).tolist()
    rows = [row for _, row, _ in found]
    mean, variance, freedom = (
        np.array([column[row] for row in rows], dtype=float)
        for column in (columns.mean, columns.variance, columns.freedom)
    )
    values = within_occasions(mean, variance, freedom, starts)
    ends = [*starts[1:], len(found)]
    return [
        _point(name, value, [run for _, _, run in found[start:end]])
        for value, start, end in zip(values, starts, ends, strict=True)
    ]


def _point(name: str, value: LogRatio, runs: Sequence[IndexedRun]) -> Measured:
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


def ratio_columns(runs: Iterable[IndexedRun], plans: Iterable[SeriesPlan]) -> RatioColumns:
    """The ratios of some plans, from runs with measurements."""
    asked = sorted({(key, plan.arm, unit) for plan in plans for key, unit in plan.units.items()})
    known = {run.row.run: run for run in runs}
    rows = [
        (key, arm, unit, load.rate_rps or 0, load.level, ratio)
        for key, arm, unit in asked
        for load in known[key].loads
        if (ratio := pair_ratio(known[key], load, arm, unit))
    ]
    return RatioColumns(
        run=[row[0] for row in rows],
        arm=[row[1] for row in rows],
        unit=[row[2] for row in rows],
        rate=[row[3] for row in rows],
        level=[row[4] for row in rows],
        mean=[row[5].mean for row in rows],
        variance=[row[5].variance for row in rows],
        freedom=[row[5].freedom for row in rows],
    )
