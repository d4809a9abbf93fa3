"""From records to a summary: every estimate and verdict of a run, without reading or writing."""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence

from jissoku.inference import checks, estimate, latency
from jissoku.inference.blocks import (
    PAIRED_KINDS,
    ComparisonInput,
    ValidTrials,
    block_log_costs,
    measured,
    neighbours,
)
from jissoku.inference.compare import (
    ArmOutcome,
    aa_control,
    compare,
    comparison_input,
    observed_noise,
    outcomes,
    ranked_arms,
)
from jissoku.inference.run_warnings import report_warnings, warning
from jissoku.inference.sentences import advice, headline, ranks
from jissoku.model import Arm, Load, Run, Trial, TrialKind, summary as model, updated
from jissoku.model.wording import capitalised

# Fraction of the arms with a cost that must reach the load by which tables are sorted.
REACHED_FRACTION_MIN = 0.75


def summarise(
    run: Run, trials: Sequence[Trial], *, has_curves: bool = True, unfinished: str = ""
) -> model.Summary:
    """Answers a run from all its trials; the same summary for the same records, always.

    Args:
        has_curves: With whole distributions of latencies, for charts.
        unfinished: Why the run is not finished, as the end of a sentence, such as `it was
            interrupted in block 7`; empty if it is.
    """
    trials = tuple(sorted(trials, key=lambda trial: trial.index))
    counts = outcomes(run, trials)
    evidence = comparison_input(run, trials)
    seen = neighbours(trials)
    control = aa_control(evidence)
    noise = {
        one: observed_noise(evidence, one)
        for one in (model.Metric.COST, model.Metric.P50, model.Metric.P99)
    }
    evidence = updated(evidence, observed_noise=noise)
    comparisons = compare(evidence)
    known = {name for name, one in counts.items() if one.status is model.MeasurementStatus.MEASURED}
    unit = next((name for name in (run.floor, run.baseline) if name in known), "")
    shown = [arm for arm in run.arms if arm.name != run.aa_control]
    found = [
        arm_summary(evidence, arm, counts[arm.name], unit, has_curves=has_curves) for arm in shown
    ]
    if unfinished:
        found = _with_known_loads(found)
    main = main_load(evidence.loads, found)
    arm_summaries = _ranked(evidence, found, comparisons, main)
    summary = model.Summary(
        run=run,
        headline=headline(run, arm_summaries, comparisons, main),
        advice=advice(run, arm_summaries, comparisons, evidence.loads),
        unit=unit,
        loads=evidence.loads,
        main_load=main,
        arm_summaries=arm_summaries,
        comparisons=comparisons,
        aa_control=control,
        warnings=report_warnings(
            run, trials, arm_summaries, comparisons, control, is_finished=not unfinished
        ),
        blocks=len({t.block for t in trials if any(map(t.is_valid_for, t.arms))}),
        trials_total=len(trials),
        trials_valid=sum(any(map(t.is_valid_for, t.arms)) for t in trials),
        trials_rejected=sum(map(checks.is_rejected, trials)),
        condition=seen.condition,
        other_programs=seen.share,
    )
    return _unfinished(summary, unfinished) if unfinished else summary


def _unfinished(summary: model.Summary, reason: str) -> model.Summary:
    """The summary of a run that is not finished: with a warning.

    Verdicts that are looked for after every block hold at each of them. Any other run has no ranks
    and no advice: its values were shown while it ran, and may have been why it was ended.
    """
    if summary.run.horizon:
        if all(one.ratio is None for one in summary.comparisons):
            summary = updated(summary, headline=f"Nothing is known yet: {reason}.")
        early = warning("ended-early", reason=capitalised(reason))
        return updated(summary, warnings=(*summary.warnings, early))
    unfinished = warning("unfinished", reason=capitalised(reason))
    return updated(
        summary,
        headline=f"No ranking, since the run is not finished: {reason}",
        advice=(),
        arm_summaries=tuple(
            updated(known, points=tuple(updated(point, rank=None) for point in known.points))
            for known in summary.arm_summaries
        ),
        warnings=(unfinished, *summary.warnings),
    )


def _with_known_loads(found: Sequence[model.ArmSummary]) -> list[model.ArmSummary]:
    """Arms that a run was not ended before: at a load, an arm has two blocks if any reaches it."""
    points = [point for known in found for point in known.points]
    seen = {one.load for one in points if one.cost_ns is not None and one.cost_ns.blocks > 1}
    return [
        updated(known, unreached=tuple(load for load in known.unreached if load in seen))
        for known in found
    ]


def main_load(loads: Sequence[Load], arm_summaries: Sequence[model.ArmSummary]) -> Load | None:
    """The heaviest load that three quarters of the measured arms reach; tables are sorted by it."""
    reached = {
        load: sum(_cost(known, load) < math.inf for known in arm_summaries) for load in loads
    }
    most = max(reached.values(), default=0)
    if not most:
        return None
    return [load for load in loads if reached[load] >= REACHED_FRACTION_MIN * most][-1]


def _ranked(
    evidence: ComparisonInput,
    found: Sequence[model.ArmSummary],
    comparisons: Sequence[model.Comparison],
    main: Load | None,
) -> tuple[model.ArmSummary, ...]:
    """Cheapest first at the main load, with ranks at every load; the others keep their order.

    Arms about which nothing may be said have no rank.
    """
    named = set(ranked_arms(evidence.run)) - evidence.excluded_arms.keys()
    field = [known for known in found if known.arm.name in named]
    by_load = {
        load: _ranks(
            {s.arm.name: cost for s in field if (cost := _cost(s, load)) < math.inf},
            [c for c in comparisons if c.metric is model.Metric.COST and c.load == load],
        )
        for load in {point.load for known in found for point in known.points}
    }
    by_capacity = _ranks(
        {s.arm.name: -s.capacity_rps.value for s in field if s.capacity_rps is not None},
        [c for c in comparisons if c.metric is model.Metric.CAPACITY],
    )
    ranked = [
        updated(
            known,
            capacity_rank=by_capacity.get(known.arm.name),
            points=tuple(
                updated(point, rank=by_load[point.load].get(known.arm.name))
                for point in known.points
            ),
        )
        for known in found
    ]
    return tuple(sorted(ranked, key=lambda known: _cost(known, main)))


def _ranks(values: Mapping[str, float], comparisons: Iterable[model.Comparison]) -> dict[str, int]:
    """From the lowest value on; one arm alone is first of nothing."""
    apart = {frozenset((one.arm, one.against)) for one in comparisons if one.proven}
    if len(values) < 2:
        return {}
    ordered = sorted(values, key=values.__getitem__)
    return ranks(ordered, lambda one, other: frozenset((one, other)) in apart)


def _cost(known: model.ArmSummary, load: Load | None) -> float:
    """Nanoseconds per request at a load; infinite where there is no such value."""
    point = known.at(load)
    return point.cost_ns.value if point is not None and point.cost_ns else math.inf


def arm_summary(
    evidence: ComparisonInput, arm: Arm, counted: ArmOutcome, unit: str, *, has_curves: bool
) -> model.ArmSummary:
    """All values of one arm; `unit` is the name of the arm that multiples refer to, or empty."""
    bare = model.ArmSummary(
        arm=arm,
        status=counted.status,
        connections=evidence.run.workload.connections,
        failures=counted.failures,
        trials_valid=counted.valid,
        trials_total=counted.total,
    )
    if counted.status is not model.MeasurementStatus.MEASURED:
        return bare
    found = {
        load: _point(evidence, arm.name, load, unit, has_curves=has_curves)
        for load in evidence.loads
    }
    # A limited time may end before any arm has a trial at a load.
    slow = {rate for _, rate in evidence.valid_trials.unreached}
    known = updated(
        bare,
        points=tuple(filter(None, found.values())),
        unreached=tuple(
            load
            for load, point in found.items()
            if point is None and (evidence.at(load).trials or load.rate_rps in slow)
        ),
    )
    return _with_closed_loop(known, evidence)


def _point(
    evidence: ComparisonInput, name: str, load: Load, unit: str, *, has_curves: bool
) -> model.LoadPoint | None:
    known = evidence.at(load)
    trials, source = _cost_trials(known, name)
    if not trials:
        return None
    measurements = latency.latency_measurements(known, name)
    costs = [statistics.fmean(costs) for costs in block_log_costs(trials, name).values()]
    found = model.LoadPoint(
        load=load,
        source=source,
        cost_ns=estimate.geometric_mean(costs),
        background_fraction=_fraction(
            (one.background_cpu_ns, one.cpu_ns)
            for _, one in measured(trials, name)
            if one.background_cpu_ns is not None and one.cpu_ns
        ),
        percentiles=latency.percentiles(measurements),
        latency_curve=latency.curve(measurements.values()) if has_curves else (),
    )
    if not unit or found.cost_ns is None:
        return found
    if name == unit:
        blocks = found.cost_ns.blocks
        one = model.Estimate(value=1.0, low=1.0, high=1.0, blocks=blocks, sd_log=0.0)
        return updated(found, relative_cost=one)
    logs = evidence.cost_ratios(load, name, unit).logs
    if len(logs) < 2:
        return found
    return updated(
        found,
        relative_cost=estimate.geometric_mean(list(logs.values())),
        relative_costs=tuple(
            model.BlockValue(block=block, value=math.exp(log))
            for block, log in sorted(logs.items())
        ),
    )


def _cost_trials(known: ValidTrials, name: str) -> tuple[list[Trial], model.EvidenceSource]:
    for source, kind in PAIRED_KINDS.items():
        trials = known.with_arm(kind, name)
        if trials:
            return trials, source
    kinds = (TrialKind.FIXED_RATE, TrialKind.CLOSED_LOOP)
    alone = next(filter(None, (known.with_arm(kind, name) for kind in kinds)), [])
    return alone, model.EvidenceSource.SINGLE


def _fraction(parts: Iterable[tuple[float, float]]) -> float | None:
    """The sum of parts over the sum of wholes; None without any."""
    sums = [sum(column) for column in zip(*parts, strict=True)]
    return sums[0] / sums[1] if sums else None


def _with_closed_loop(known: model.ArmSummary, evidence: ComparisonInput) -> model.ArmSummary:
    name, readings = known.arm.name, evidence.valid_trials
    rate_trials = readings.with_arm(TrialKind.CLOSED_LOOP, name)
    alone = [one for _, one in measured(rate_trials, name)]
    every = [one for trial, one in measured(readings.trials, name) if trial.is_valid_for(name)]
    rates = [
        math.log(one.requests / one.duration_ns * 1e9)
        for one in alone
        if one.requests and one.duration_ns
    ]
    memory = [one.rss_bytes_peak for one in alone or every if one.rss_bytes_peak is not None]
    idle = [one.idle_cpu_ns_per_s for one in every if one.idle_cpu_ns_per_s is not None]
    capacity = estimate.geometric_mean(list(latency.log_capacities(readings.trials, name).values()))
    # The next rate that a search tried may be the first that did not meet the objective.
    step = math.exp(latency.search_step(readings.trials, name))
    return updated(
        known,
        # At an even pace the kernel's tick meets every request at the same place, and says so: it
        # called 45 % of a server's time user time that a closed loop shows to be 3 %.
        user_fraction=_fraction(
            (one.cpu_user_fraction * one.cpu_ns, one.cpu_ns)
            for one in alone
            if one.cpu_user_fraction is not None and one.cpu_ns
        ),
        rate_rps=estimate.geometric_mean(rates),
        bottleneck=checks.bottleneck(t.conditions for t in rate_trials if t.conditions),
        capacity_rps=capacity and updated(capacity, high=capacity.high * step),
        rss_bytes=round(statistics.median(memory)) if memory else None,
        idle_cpu_fraction=statistics.median(idle) / 1e9 if idle else None,
    )
