"""A target's cost over time: ratios to an unchanged arm, tested where the program changed."""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from jissoku.inference import multiplicity
from jissoku.inference.across_runs import SUSPICION_ALPHA, breaks
from jissoku.inference.occasions import comparison_key, observed_tau, occasions
from jissoku.inference.pooling import LogRatio, next_machine, pool
from jissoku.inference.run_difference import race
from jissoku.inference.series_changes import Question, with_changes
from jissoku.inference.series_points import (
    Measured,
    SeriesPlan,
    points_by_load,
    ratio_columns,
    series_plans,
)
from jissoku.model import Load
from jissoku.model.history import IndexedRun
from jissoku.model.history_answer import (
    MachineRatio,
    PooledRatio,
    RatioColumns,
    Series,
    SeriesPoint,
    Tau,
)
from jissoku.model.updated import updated


@dataclass(frozen=True, slots=True)
class PlannedSeries:
    """A series with its values, before its changes are tested."""

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


def target_history(runs: Sequence[IndexedRun], target: str) -> tuple[Series, ...]:
    """Every series of a target, from runs with all their measurements."""
    plans = series_plans(occasions(runs), target)
    planned = planned_series(plans, ratio_columns(runs, plans))
    machines = {run.row.machine for run in runs}
    taus = {one: observed_tau(run for run in runs if run.row.machine == one) for one in machines}
    return finished_series(planned, {run.row.run: run for run in runs}, taus)


def planned_series(plans: Iterable[SeriesPlan], columns: RatioColumns) -> tuple[PlannedSeries, ...]:
    """One series per load of a plan."""
    return tuple(
        PlannedSeries(plan, load, points)
        for plan in plans
        for load, points in points_by_load(plan, columns)
    )


def finished_series(
    planned: Iterable[PlannedSeries],
    runs: Mapping[str, IndexedRun],
    taus: Mapping[str, Tau],
) -> tuple[Series, ...]:
    """Every series, the one with most points first.

    Suspicions are corrected for the number of boundaries and searches (Holm).

    Args:
        planned: All series of a target.
        runs: By key those that the series need, with measurements.
        taus: By class of machines.
    """
    found = [_series(one, runs, taus) for one in planned]
    found.sort(key=lambda one: (-len(one.points), -(one.load.rate_rps or 0)))
    return _corrected(found)


def machine_ratios(found: Sequence[Series]) -> tuple[MachineRatio, ...]:
    """Rule 7: series of one question on several classes of machines."""
    together: dict[tuple[object, ...], dict[str, Series]] = defaultdict(dict)
    for one in found:
        key = (one.arm, one.anchor, one.load.rate_rps, one.workload, one.method)
        together[key].setdefault(one.machine, one)
    return tuple(
        MachineRatio(
            target=first.target,
            anchor=first.anchor,
            load=first.load,
            workload_text=first.workload_text,
            rows=tuple((one.machine_text, one.points[-1].ratio) for one in group.values()),
            next_machine=next_machine([_as_log_ratio(one.points[-1]) for one in group.values()]),
        )
        for group in together.values()
        for first in [next(iter(group.values()))]
        if len(group) > 1
    )


def _series(
    planned: PlannedSeries, runs: Mapping[str, IndexedRun], taus: Mapping[str, Tau]
) -> Series:
    plan = planned.plan
    row = plan.last[-1].row
    tau = taus[row.machine]
    found = [Measured(one.point, one.value, runs[one.run.row.run]) for one in planned.points]
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
        question=_question(plan),
        workload=row.workload,
    )


def _question(plan: SeriesPlan) -> str:
    facts = (comparison_key(plan.last[-1]), plan.anchor.program)
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:12]


def _pooled(points: Sequence[SeriesPoint], values: Sequence[LogRatio]) -> PooledRatio | None:
    """Of the newest program, back to where anything else changed."""
    kept = [values[-1]]
    for place in range(len(points) - 1, 0, -1):
        if points[place].breaks or points[place - 1].program != points[-1].program:
            break
        kept.append(values[place - 1])
    return pool(kept)


def _as_log_ratio(point: SeriesPoint) -> LogRatio:
    return LogRatio(point.ratio.mean, point.error**2, point.freedom)


def _corrected(found: Sequence[Series]) -> tuple[Series, ...]:
    """Suspicions after Holm's correction over all boundaries and searches of the target."""
    p_values = [point.since.change.p_value for one in found for point in one.points if point.since]
    p_values += [1.0] * sum(one.searches for one in found)
    adjusted = iter(multiplicity.holm(p_values))
    return tuple(
        updated(one, points=tuple(_with(point, adjusted) for point in one.points)) for one in found
    )


def _with(point: SeriesPoint, adjusted: Iterator[float | None]) -> SeriesPoint:
    if point.since is None:
        return point
    p_value = next(adjusted)
    is_sure = point.since.is_suspected and p_value is not None and p_value <= SUSPICION_ALPHA
    return updated(point, since=updated(point.since, is_suspected=is_sure))
