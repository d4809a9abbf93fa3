"""From records to a summary: every estimate and verdict of a run, without reading or writing."""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence

from jissoku.inference import checks, estimate, latency
from jissoku.inference.blocks import (
    PAIRED_KINDS,
    ComparisonInput,
    ValidTrials,
    log_cost,
    measurement_of,
    neighbours,
)
from jissoku.inference.compare import (
    ArmOutcome,
    _outcomes,
    aa_control,
    compare,
    comparison_input,
    observed_noise,
    ranked_arms,
)
from jissoku.inference.sentences import advice, headline, ranks, report_warnings
from jissoku.model import (
    Arm,
    ArmMeasurement,
    ArmSummary,
    BlockValue,
    Comparison,
    Estimate,
    EvidenceSource,
    Load,
    LoadPoint,
    MeasurementStatus,
    Metric,
    ReportWarning,
    Run,
    Severity,
    Summary,
    Trial,
    TrialKind,
)
from jissoku.model.updated import updated

# Fraction of the arms with a cost that must reach the load by which tables are sorted.
EXCLUDED_FRACTION_MAX = 0.75


def summarise(run: Run, trials: Sequence[Trial], *, has_curves: bool = True) -> Summary:
    """Answers a run.

    Args:
        run: The header.
        trials: All trials that were recorded, in any order, failed and rejected ones among them.
        has_curves: Whether whole distributions of latencies are computed, for charts.

    Returns:
        The same summary for the same records, always.
    """
    trials = tuple(sorted(trials, key=lambda trial: trial.index))
    counts = _outcomes(run, trials)
    evidence = comparison_input(run, trials)
    seen = neighbours(trials)
    control = aa_control(evidence)
    noise = {one: observed_noise(evidence, one) for one in (Metric.COST, Metric.P50, Metric.P99)}
    evidence = updated(evidence, observed_noise=noise)
    comparisons = compare(evidence)
    unit = _unit(run, counts)
    shown = [arm for arm in run.arms if arm.name != run.aa_control]
    found = [
        arm_summary(evidence, arm, counts[arm.name], unit, has_curves=has_curves) for arm in shown
    ]
    main = main_load(evidence.loads, found)
    arm_summaries = _ranked(evidence, found, comparisons, main)
    return Summary(
        run=run,
        headline=headline(run, arm_summaries, comparisons, main),
        advice=advice(run, arm_summaries, comparisons, evidence.loads),
        unit=unit,
        loads=evidence.loads,
        main_load=main,
        arm_summaries=arm_summaries,
        comparisons=comparisons,
        aa_control=control,
        warnings=report_warnings(run, trials, arm_summaries, comparisons, control),
        blocks=len({t.block for t in trials if any(map(t.is_valid_for, t.arms))}),
        trials_total=len(trials),
        trials_valid=sum(any(map(t.is_valid_for, t.arms)) for t in trials),
        trials_rejected=sum(map(checks.is_rejected, trials)),
        condition=seen.condition,
        other_programs=seen.share,
    )


def of_unfinished(summary: Summary, reason: str) -> Summary:
    """The summary of a run that is not finished: with a warning.

    Verdicts that are looked for after every block hold at each of them. Any other run has no ranks
    and no advice: its values were shown while it ran, and may have been why it was ended.

    Args:
        summary: Of its records.
        reason: The end of a sentence, such as `it was interrupted in block 7`.
    """
    if summary.run.horizon:
        text = f"{reason[:1].upper()}{reason[1:]}. Its verdicts hold; what is missing is undecided."
        note = ReportWarning(severity=Severity.NOTE, title="The run ended early", text=text)
        return updated(summary, warnings=(*summary.warnings, note))
    text = (
        f"{reason[:1].upper()}{reason[1:]}. Values so far are shown while a run is measured, and an"
        " end that is chosen by them makes differences likelier: there are no ranks."
    )
    warning = ReportWarning(severity=Severity.PROBLEM, title="The run is not finished", text=text)
    return updated(
        summary,
        headline=f"No ranking, since the run is not finished: {reason}",
        advice=(),
        arm_summaries=tuple(
            updated(known, points=tuple(updated(point, rank=None) for point in known.points))
            for known in summary.arm_summaries
        ),
        warnings=(warning, *summary.warnings),
    )


def main_load(loads: Sequence[Load], arm_summaries: Sequence[ArmSummary]) -> Load | None:
    """The heaviest load that three quarters of the measured arms reach; tables are sorted by it."""
    reached = {
        load: sum(_cost(known, load) < math.inf for known in arm_summaries) for load in loads
    }
    most = max(reached.values(), default=0)
    if not most:
        return None
    return [load for load in loads if reached[load] >= EXCLUDED_FRACTION_MAX * most][-1]


def _unit(run: Run, counts: Mapping[str, ArmOutcome]) -> str:
    for name in (run.floor, run.baseline):
        if name in counts and counts[name].status is MeasurementStatus.MEASURED:
            return name
    return ""


def _ranked(
    evidence: ComparisonInput,
    found: Sequence[ArmSummary],
    comparisons: Sequence[Comparison],
    main: Load | None,
) -> tuple[ArmSummary, ...]:
    """Cheapest first at the main load, with ranks at every load; the others keep their order.

    Arms about which nothing may be said have no rank.
    """
    named = [name for name in ranked_arms(evidence.run) if name not in evidence.excluded_arms]
    loads = {point.load for known in found for point in known.points}
    ranks = {load: _ranks(found, comparisons, named, load) for load in loads}
    by_capacity = _capacity_ranks(found, comparisons, named)
    ranked = [
        updated(
            known,
            capacity_rank=by_capacity.get(known.arm.name),
            points=tuple(
                updated(point, rank=ranks[point.load].get(known.arm.name)) for point in known.points
            ),
        )
        for known in found
    ]
    return tuple(sorted(ranked, key=lambda known: _cost(known, main)))


def _ranks(
    found: Sequence[ArmSummary], comparisons: Sequence[Comparison], named: Sequence[str], load: Load
) -> dict[str, int]:
    """Ranks at one load of those who have a cost there; one arm alone is first of nothing."""
    known = [s for s in found if s.arm.name in named and _cost(s, load) < math.inf]
    ordered = [s.arm.name for s in sorted(known, key=lambda s: _cost(s, load))]
    apart = {
        frozenset((c.arm, c.against))
        for c in comparisons
        if c.proven and c.metric is Metric.COST and c.load == load
    }
    if len(ordered) < 2:
        return {}
    return ranks(ordered, lambda one, other: frozenset((one, other)) in apart)


def _capacity_ranks(
    found: Sequence[ArmSummary], comparisons: Sequence[Comparison], named: Sequence[str]
) -> dict[str, int]:
    known = {s.arm.name: s.capacity_rps.value for s in found if s.capacity_rps is not None}
    ordered = sorted((name for name in known if name in named), key=lambda name: -known[name])
    if len(ordered) < 2:
        return {}
    apart = {
        frozenset((c.arm, c.against))
        for c in comparisons
        if c.proven and c.metric is Metric.CAPACITY
    }
    return ranks(ordered, lambda one, other: frozenset((one, other)) in apart)


def _cost(known: ArmSummary, load: Load | None) -> float:
    """Nanoseconds per request at a load; infinite where there is no such value."""
    point = known.at(load)
    return point.cost_ns.value if point is not None and point.cost_ns else math.inf


def arm_summary(
    evidence: ComparisonInput, arm: Arm, counted: ArmOutcome, unit: str, *, has_curves: bool = True
) -> ArmSummary:
    """All values of one arm, none of them from a trial that does not count.

    `unit` is the name of the arm that multiples refer to; empty for none. `has_curves`: with whole
    distributions of latencies.
    """
    bare = ArmSummary(
        arm=arm,
        status=counted.status,
        connections=evidence.run.workload.connections,
        failures=counted.failures,
        trials_valid=counted.valid,
        trials_total=counted.total,
    )
    if counted.status is not MeasurementStatus.MEASURED:
        return bare
    found = [
        _point(evidence, arm.name, load, unit, has_curves=has_curves) for load in evidence.loads
    ]
    points = [point for point in found if point]
    reached = {point.load for point in points}
    known = updated(
        bare,
        points=tuple(points),
        unreached=tuple(load for load in evidence.loads if load not in reached),
    )
    return _with_closed_loop(known, evidence)


def _point(
    evidence: ComparisonInput, name: str, load: Load, unit: str, *, has_curves: bool
) -> LoadPoint | None:
    """What is known of an arm at one load; None where it was not measured there."""
    known = evidence.at(load)
    trials, source = _cost_trials(known, name)
    if not trials:
        return None
    measurements = latency.latency_measurements(known, name)
    bare = LoadPoint(
        load=load,
        source=source,
        cost_ns=estimate.geometric_mean(_by_block(trials, name)),
        background_fraction=_background(_measurements(trials, name)),
        percentiles=latency.percentiles(measurements),
        latency_curve=latency.curve(measurements.values()) if has_curves else (),
    )
    return _with_relative_cost(bare, evidence, name, unit)


def _cost_trials(known: ValidTrials, name: str) -> tuple[list[Trial], EvidenceSource]:
    for source, kind in PAIRED_KINDS.items():
        trials = known.with_arm(kind, name)
        if trials:
            return trials, source
    trials = known.with_arm(TrialKind.FIXED_RATE, name) or known.with_arm(
        TrialKind.CLOSED_LOOP, name
    )
    return trials, EvidenceSource.SINGLE


def _with_relative_cost(
    point: LoadPoint, evidence: ComparisonInput, name: str, unit: str
) -> LoadPoint:
    if not unit or point.cost_ns is None:
        return point
    if name == unit:
        blocks = point.cost_ns.blocks
        one = Estimate(value=1.0, low=1.0, high=1.0, blocks=blocks, sd_log=0.0)
        return updated(point, relative_cost=one)
    logs = evidence.cost_ratios(point.load, name, unit).logs
    if len(logs) < 2:
        return point
    return updated(
        point,
        relative_cost=estimate.geometric_mean(list(logs.values())),
        relative_costs=_block_values(logs),
    )


def _by_block(trials: Iterable[Trial], name: str) -> list[float]:
    """One log cost per block; an arm that meets several others in a block has their mean."""
    blocks: dict[int, list[float]] = {}
    for trial in trials:
        cost = log_cost(trial, name)
        if cost is not None:
            blocks.setdefault(trial.block, []).append(cost)
    return [statistics.fmean(costs) for _, costs in sorted(blocks.items())]


def _background(measurements: Iterable[ArmMeasurement]) -> float | None:
    """Part of the CPU time that was used in other arms' turns; None outside of such trials."""
    background = total = 0
    for measurement in measurements:
        if measurement.background_cpu_ns is not None and measurement.cpu_ns:
            background += measurement.background_cpu_ns
            total += measurement.cpu_ns
    return background / total if total else None


def _user_fraction(measurements: Iterable[ArmMeasurement]) -> float | None:
    user = total = 0.0
    for measurement in measurements:
        if measurement.cpu_user_fraction is not None and measurement.cpu_ns:
            user += measurement.cpu_user_fraction * measurement.cpu_ns
            total += measurement.cpu_ns
    return user / total if total else None


def _with_closed_loop(known: ArmSummary, evidence: ComparisonInput) -> ArmSummary:
    """Adds what is measured with nothing else under load."""
    name, readings = known.arm.name, evidence.valid_trials
    rate_trials = readings.with_arm(TrialKind.CLOSED_LOOP, name)
    rates = [
        math.log(measurement.requests / measurement.duration_ns * 1e9)
        for measurement in _measurements(rate_trials, name)
        if measurement.requests and measurement.duration_ns
    ]
    paced = _measurements(
        (t for t in readings.trials if name in t.arms and t.is_valid_for(name)), name
    )
    memory = [
        measurement.rss_bytes_peak for measurement in _measurements(rate_trials, name) or paced
    ]
    seen = [size for size in memory if size is not None]
    idle = [
        measurement.idle_cpu_ns_per_s
        for measurement in paced
        if measurement.idle_cpu_ns_per_s is not None
    ]
    return updated(
        known,
        # At an even pace the kernel's tick meets every request at the same place, and says so: it
        # called 45 % of a server's time user time that a closed loop shows to be 3 %.
        user_fraction=_user_fraction(_measurements(rate_trials, name)),
        rate_rps=estimate.geometric_mean(rates),
        bottleneck=checks.common_bottleneck(t.conditions for t in rate_trials if t.conditions),
        capacity_rps=_capacity(readings.trials, name),
        rss_bytes=round(statistics.median(seen)) if seen else None,
        idle_cpu_fraction=statistics.median(idle) / 1e9 if idle else None,
    )


def _capacity(trials: Sequence[Trial], name: str) -> Estimate | None:
    """The highest rate that met the objective; the next one tried may be the first that did not."""
    logs = list(latency.log_capacities(trials, name).values())
    found = estimate.geometric_mean(logs)
    step = latency.search_step(trials, name)
    return found and updated(found, high=found.high * math.exp(step))


def _block_values(logs: Mapping[int, float]) -> tuple[BlockValue, ...]:
    return tuple(
        BlockValue(block=block, value=math.exp(log)) for block, log in sorted(logs.items())
    )


def _measurements(trials: Iterable[Trial], name: str) -> list[ArmMeasurement]:
    return [
        measurement for trial in trials if (measurement := measurement_of(trial, name)) is not None
    ]
