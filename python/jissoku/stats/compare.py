"""Compares arms by CPU time, latency and capacity: ratios, and whether they are proven."""

from itertools import combinations

from jissoku.model import (
    FULL_LOAD,
    Comparison,
    EvidenceSource,
    Load,
    Method,
    Metric,
    Run,
    Verdict,
)
from jissoku.model.updated import updated
from jissoku.stats import decision, samples
from jissoku.stats.comparison_input import ComparisonInput
from jissoku.stats.comparison_text import comparison_text
from jissoku.stats.cross_checks import cross_checks
from jissoku.stats.ratio_samples import RatioSamples, select_ratio_source
from jissoku.stats.verdict import MINIMUM_EFFECT_OF_METRIC, minimum_effect_of

# One pair: (candidate, the arm that it is compared with).
Pair = tuple[str, str]


def ranked_arms(run: Run) -> tuple[str, ...]:
    """Arms that are ranked. The floor is the unit, and is ranked only if it is also a target."""
    names = tuple(arm.name for arm in run.arms if arm.name != run.aa_control)
    others = tuple(name for name in names if name != run.floor)
    return names if run.baseline == run.floor or len(others) < 2 else others


def pairs(run: Run) -> tuple[Pair, ...]:
    """Every pair of ranked arms; those with the baseline first."""
    names = ranked_arms(run)
    ordered = sorted(names, key=lambda name: name != run.baseline)
    return tuple((later, earlier) for earlier, later in combinations(ordered, 2))


def compare(
    evidence: ComparisonInput, asked: tuple[Pair, ...] | None = None
) -> tuple[Comparison, ...]:
    """All pairs by every metric, each metric corrected for its own number of comparisons.

    Args:
        asked: The pairs; None: all pairs of ranked arms.
    """
    asked = pairs(evidence.run) if asked is None else asked
    costs = [
        found
        for load in evidence.loads
        for arm, against in asked
        if (found := compare_cost(evidence, arm, against, load, len(asked) * len(evidence.loads)))
    ]
    latencies = [
        [
            found
            for load in evidence.loads
            for pair in asked
            if (found := _compare_metric(evidence, *pair, metric, load))
        ]
        for metric in (Metric.P50, Metric.P99)
    ]
    capacities = [
        found
        for pair in asked
        if (found := _compare_metric(evidence, *pair, Metric.CAPACITY, None))
    ]
    families = [costs, *latencies, capacities]
    return tuple(found for family in families for found in decision.settle(family))


def aa_control(evidence: ComparisonInput) -> tuple[Comparison, ...]:
    """The baseline against its A/A control at each load; none in a run without one."""
    run = evidence.run
    if not run.aa_control:
        return ()
    found = [
        compare_cost(evidence, run.aa_control, run.baseline, load, len(evidence.loads))
        for load in evidence.loads
    ]
    return decision.settle([one for one in found if one is not None])


def compare_cost(
    evidence: ComparisonInput, arm: str, against: str, load: Load, comparisons: int
) -> Comparison | None:
    """One pair by CPU time per request at one load, checked, and not yet settled.

    Returns:
        None if one of them does not reach this load. An excluded arm has a comparison at each load,
        which gives the reason.
    """
    for name in (arm, against):
        if name in evidence.excluded_arms:
            return _without_figure(evidence, arm, against, load, name)
    pair = select_ratio_source(evidence.at(load), arm, against)
    if not pair.logs:
        return None
    seen = evidence.neighbours_at(load)
    blank = Comparison(
        arm=arm,
        against=against,
        verdict=Verdict.INCONCLUSIVE,
        load=load,
        source=pair.source,
        connections=pair.connections,
        minimum_effect=_minimum_effect(evidence.run, pair),
        condition=seen.condition,
        other_programs=seen.share,
    )
    found = decision.decide(blank, pair.logs)
    return decision.with_checks(found, cross_checks(evidence, found, pair, comparisons))


def _minimum_effect(run: Run, pair: RatioSamples) -> float:
    """The minimum effect: at least the noise floor of this machine."""
    least = minimum_effect_of(pair.source, run.mode)
    return max(run.minimum_effect, least, run.noise_floor or 0.0)


def _without_figure(
    evidence: ComparisonInput, arm: str, against: str, load: Load, name: str
) -> Comparison:
    verdict, reason = evidence.excluded_arms[name]
    bare = Comparison(arm=arm, against=against, verdict=verdict, load=load, remarks=(reason,))
    return updated(bare, sentence=comparison_text(bare))


def _compare_metric(
    evidence: ComparisonInput, arm: str, against: str, metric: Metric, load: Load | None
) -> Comparison | None:
    """One pair by latency at a load, or by capacity; None if either has no value."""
    if {arm, against} & evidence.excluded_arms.keys():
        return None
    if load is None:
        logs = samples.log_capacity_ratios(evidence.valid_trials.trials, arm, against)
        source, load = EvidenceSource.SINGLE, FULL_LOAD
    else:
        logs = samples.log_latency_ratios(evidence.at(load), metric, arm, against)
        is_sliced = evidence.run.method is Method.TIME_SLICED
        source = EvidenceSource.TIME_SLICED if is_sliced else EvidenceSource.SINGLE
    if not logs:
        return None
    seen = evidence.neighbours_at(load)
    blank = Comparison(
        arm=arm,
        against=against,
        verdict=Verdict.INCONCLUSIVE,
        metric=metric,
        load=load,
        source=source,
        connections=evidence.run.workload.connections,
        minimum_effect=MINIMUM_EFFECT_OF_METRIC[metric],
        condition=seen.condition,
        other_programs=seen.share,
    )
    return decision.decide(blank, logs)
