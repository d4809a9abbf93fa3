"""From records to a summary: every estimate and verdict of a run, without reading or writing."""

import math
from collections.abc import Mapping, Sequence

from jissoku.inference import run_checks
from jissoku.inference.arm_summary import ArmOutcome, arm_outcome, arm_summary
from jissoku.inference.block_durations import BlockDurations
from jissoku.inference.compare import (
    aa_control,
    compare,
    compare_cost,
    observed_noise,
    pairs,
    ranked_arms,
)
from jissoku.inference.comparison_input import ComparisonInput, loads_of
from jissoku.inference.headline import advice, headline, ranks
from jissoku.inference.looks import Looks
from jissoku.inference.neighbours import neighbours
from jissoku.inference.report_warnings import report_warnings
from jissoku.inference.valid_trials import valid_trials
from jissoku.model import (
    ArmSummary,
    Comparison,
    Load,
    MeasurementStatus,
    Metric,
    ReportWarning,
    Run,
    Severity,
    Summary,
    Trial,
    Verdict,
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
        trials_rejected=sum(map(run_checks.is_rejected, trials)),
        condition=seen.condition,
        other_programs=seen.share,
    )


def comparison_input(run: Run, trials: Sequence[Trial]) -> ComparisonInput:
    """What verdicts are decided from, the same for every question about a run."""
    return ComparisonInput(
        run,
        valid_trials(trials),
        excluded_arms(run, trials),
        loads_of(run, tuple(trials)),
        durations=BlockDurations(trials, run.slice_ns),
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


def excluded_arms(run: Run, trials: Sequence[Trial]) -> dict[str, tuple[Verdict, str]]:
    found = {}
    counts = _outcomes(run, trials)
    uneven = run_checks.uneven_rejection(trials, [arm.name for arm in run.arms])
    for name, known in counts.items():
        reason = known.failures[0].reason if known.failures else ""
        if known.status is MeasurementStatus.FAILED:
            found[name] = (Verdict.FAILED, f"{name}: {reason}")
        elif known.status is MeasurementStatus.INVALID:
            found[name] = (Verdict.INVALID, reason)
        elif name in uneven:
            found[name] = (Verdict.INVALID, f"{name}: {uneven[name]}")
    return found


def _outcomes(run: Run, trials: Sequence[Trial]) -> dict[str, ArmOutcome]:
    least = Looks(run.horizon).first
    return {arm.name: arm_outcome(trials, arm.name, least) for arm in run.arms}


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


def contradicted(run: Run, trials: Sequence[Trial]) -> tuple[Comparison, ...]:
    """The comparisons of a run with a cross-check that does not agree, by its trials so far."""
    evidence = comparison_input(run, trials)
    asked = [(*pair, load) for load in evidence.loads for pair in pairs(run)]
    decided = (compare_cost(evidence, *one, len(asked)) for one in asked)
    return tuple(
        one.found
        for one in decided
        if one and not all(check.agrees for check in one.found.cross_checks)
    )
