"""A target's cost over time: ratios to an unchanged arm, tested where the program changed."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from jissoku.model import Load
from jissoku.model.history import ArmRow, IndexedRun
from jissoku.model.history_answer import MachineRatio, PooledRatio, Series, SeriesPoint, Tau
from jissoku.model.updated import updated
from jissoku.stats import multiplicity
from jissoku.stats.across_runs import SUSPICION_ALPHA
from jissoku.stats.occasions import Occasion, comparison_key, observed_tau, occasions
from jissoku.stats.pooling import LogRatio, log_ratio, next_machine, pool, within_occasion
from jissoku.stats.run_difference import race
from jissoku.stats.series_changes import Measured, Question, with_changes


def target_history(runs: Sequence[IndexedRun], target: str) -> tuple[Series, ...]:
    """Every series of a target, the one with most points first.

    Suspicions are corrected for the number of boundaries and searches (Holm).
    """
    comparable: dict[tuple[object, ...], list[IndexedRun]] = defaultdict(list)
    for run in runs:
        if any(arm.target == target for arm in run.arms):
            comparable[comparison_key(run)].append(run)
    machines = {run.row.machine for run in runs}
    taus = {one: observed_tau([r for r in runs if r.row.machine == one]) for one in machines}
    found = [
        series
        for group in comparable.values()
        for name in sorted({arm.arm for run in group for arm in run.arms if arm.target == target})
        for series in _series_of_arm(group, (target, name), taus[group[0].row.machine])
    ]
    found.sort(key=lambda one: (-len(one.points), -(one.load.rate_rps or 0)))
    return _corrected(found)


def machine_ratios(found: Sequence[Series]) -> tuple[MachineRatio, ...]:
    """Rule 7: series of one question on several classes of machines."""
    together: dict[tuple[str, str, int | None, str], dict[str, Series]] = defaultdict(dict)
    for one in found:
        key = (one.arm, one.anchor, one.load.rate_rps, one.workload_text)
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


def _series_of_arm(
    group: Sequence[IndexedRun], asked: tuple[str, str], tau: Tau
) -> Iterator[Series]:
    """One series per load; its anchor is the unchanged program that most runs have."""
    target, name = asked
    group = [run for run in group if run.arm(name)]
    ordered = occasions(group)
    anchor = _anchor(group, target)
    if anchor is None:
        return
    rates = {load.rate_rps: load for run in group for load in run.logs}
    for load in rates.values():
        found = [one for occasion in ordered for one in _points(occasion, name, anchor, load)]
        if found:
            question = Question(arm=name, anchor=anchor, load=load, tau=tau)
            points, searches = with_changes(found, question)
            row = group[-1].row
            yield Series(
                target=target,
                arm=name,
                anchor=anchor.arm,
                load=load,
                workload_text=row.workload_text,
                machine=row.machine,
                machine_text=row.machine_label or row.machine_text,
                points=points,
                pooled=_pooled(points, [one.value for one in found]),
                tau=tau,
                searches=searches,
                race=race(ordered[-1], {target, anchor.target}),
            )


def _anchor(group: Sequence[IndexedRun], target: str) -> ArmRow | None:
    """The floor where it is as frequent as any other."""
    known: dict[str, ArmRow] = {}
    count: Counter[str] = Counter()
    for run in group:
        for arm in run.arms:
            if arm.program and arm.target != target and not arm.is_control:
                known[arm.program] = arm
                count[arm.program] += 1
    if not count:
        return None
    return known[max(count, key=lambda key: (count[key], known[key].is_floor, known[key].arm))]


def _points(occasion: Occasion, name: str, anchor: ArmRow, load: Load) -> Iterator[Measured]:
    """A point for each program of the target that was measured on an occasion."""
    programs: dict[str, list[tuple[IndexedRun, ArmRow, LogRatio]]] = defaultdict(list)
    for run in occasion:
        unit = next((arm.arm for arm in run.arms if arm.program == anchor.program), "")
        arm = run.arm(name)
        at = next((one for one in run.logs if one.rate_rps == load.rate_rps), load)
        value = log_ratio(list(run.ratios(at, name, unit).values()))
        if arm is not None and value is not None:
            programs[arm.program].append((run, arm, value))
    for program, found in programs.items():
        value = within_occasion([one for _, _, one in found])
        run, arm, _ = found[-1]
        point = SeriesPoint(
            started_utc=found[0][0].row.started_utc,
            version=arm.version,
            program=program,
            runs=tuple(run.row.run for run, _, _ in found),
            ratio=value.change,
        )
        yield Measured(point, value, run)


def _pooled(points: Sequence[SeriesPoint], values: Sequence[LogRatio]) -> PooledRatio | None:
    """Of the newest program, back to where anything else changed."""
    kept = [values[-1]]
    for place in range(len(points) - 1, 0, -1):
        if points[place].breaks or points[place - 1].program != points[-1].program:
            break
        kept.append(values[place - 1])
    return pool(kept)


def _as_log_ratio(point: SeriesPoint) -> LogRatio:
    half = (point.ratio.high - point.ratio.low) / 2
    return LogRatio(point.ratio.mean, (half / 1.96) ** 2, 60)


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
