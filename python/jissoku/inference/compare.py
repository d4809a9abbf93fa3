"""Compares arms by CPU time, latency and capacity: ratios, and whether they are proven."""

import math
from collections.abc import Sequence
from itertools import combinations

from jissoku.inference import decision, estimate, samples
from jissoku.inference.comparison_input import ComparisonInput
from jissoku.inference.cross_checks import cross_checks
from jissoku.inference.decision import Decided
from jissoku.inference.ratio_samples import RatioSamples
from jissoku.inference.verdict import MINIMUM_EFFECT_OF_METRIC, minimum_effect_of
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
    latencies = [
        [
            _compare_metric(evidence, *pair, metric, load)
            for load in evidence.loads
            for pair in asked
        ]
        for metric in (Metric.P50, Metric.P99)
    ]
    capacities = [_compare_metric(evidence, *pair, Metric.CAPACITY, None) for pair in asked]
    others = [found for family in (*latencies, capacities) for found in _settled(evidence, family)]
    return (*compare_costs(evidence, asked), *others)


def compare_costs(
    evidence: ComparisonInput, asked: tuple[Pair, ...] | None = None
) -> tuple[Comparison, ...]:
    """The same by CPU time per request alone."""
    asked = pairs(evidence.run) if asked is None else asked
    count = len(asked) * len(evidence.loads)
    return _settled(
        evidence,
        [compare_cost(evidence, *pair, load, count) for load in evidence.loads for pair in asked],
    )


def _settled(evidence: ComparisonInput, family: Sequence[Decided | None]) -> tuple[Comparison, ...]:
    """Of a family those that have values.

    In a run that is looked at several times what is not measured yet counts, too, so that nothing
    is taken back when it is.
    """
    if not evidence.looks.horizon:
        return decision.settle([found for found in family if found])
    absent = Comparison(arm="", against="", verdict=Verdict.INCONCLUSIVE)
    settled = decision.settle([found or Decided(absent) for found in family])
    return tuple(one for one, found in zip(settled, family, strict=True) if found)


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


def observed_noise(evidence: ComparisonInput, metric: Metric) -> float:
    """Ratio minus one by which two copies of the baseline are shown to differ; 0 if they are not.

    By cost the copies are compared in their common trials, by latency in the same trials.
    """
    run = evidence.run
    if not run.aa_control:
        return 0.0
    if metric is Metric.COST:
        shown = aa_control(evidence)
    else:
        pair = run.aa_control, run.baseline
        found = [_compare_metric(evidence, *pair, metric, load) for load in evidence.loads]
        shown = decision.settle([one for one in found if one is not None])
    known = [abs(math.log(one.ratio.value)) for one in shown if one.proven and one.ratio]
    return math.expm1(max(known, default=0.0))


def compare_cost(
    evidence: ComparisonInput, arm: str, against: str, load: Load, comparisons: int
) -> Decided | None:
    """One pair by CPU time per request at one load, checked, and not yet settled.

    Returns:
        None if one of them does not reach this load. An excluded arm has a comparison at each load,
        which gives the reason.
    """
    for name in (arm, against):
        if name in evidence.excluded_arms:
            return _without_figure(evidence, arm, against, load, name)
    pair = evidence.cost_ratios(load, arm, against)
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
        minimum_effect=_minimum_effect(evidence, pair),
        condition=seen.condition,
        other_programs=seen.share,
        is_calm=pair.is_calm,
        calm_fraction=pair.calm_fraction,
        other_ratio=estimate.geometric_mean(list(pair.others.values())),
    )
    block_s = evidence.block_s(pair.source, load)
    decided = decision.decide(blank, pair.logs, pair.looks, block_s=block_s)
    checks = cross_checks(evidence, decided.found, pair, comparisons)
    return decision.with_checks(decided, checks)


def _minimum_effect(evidence: ComparisonInput, pair: RatioSamples) -> float:
    """At least the noise floor of this machine, and what the A/A control differs by."""
    run = evidence.run
    least = minimum_effect_of(pair.source, run.mode)
    return max(run.minimum_effect, least, evidence.noise(Metric.COST))


def _without_figure(
    evidence: ComparisonInput, arm: str, against: str, load: Load, name: str
) -> Decided:
    verdict, reason = evidence.excluded_arms[name]
    return Decided(
        Comparison(arm=arm, against=against, verdict=verdict, load=load, remarks=(reason,))
    )


def _compare_metric(
    evidence: ComparisonInput, arm: str, against: str, metric: Metric, load: Load | None
) -> Decided | None:
    """One pair by latency at a load, or by capacity; None if either has no value."""
    if {arm, against} & evidence.excluded_arms.keys():
        return None
    resolution = 0.0
    if load is None:
        trials = evidence.valid_trials.trials
        logs = samples.log_capacity_ratios(trials, arm, against)
        resolution = samples.search_resolution(trials, arm, against)
        source, load, block_s = EvidenceSource.SINGLE, FULL_LOAD, evidence.search_s()
    else:
        logs = samples.log_latency_ratios(evidence.at(load), metric, arm, against)
        is_sliced = evidence.run.method is Method.TIME_SLICED
        source = EvidenceSource.TIME_SLICED if is_sliced else EvidenceSource.SINGLE
        block_s = evidence.block_s(source, load)
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
        minimum_effect=max(MINIMUM_EFFECT_OF_METRIC[metric], evidence.noise(metric)),
        condition=seen.condition,
        other_programs=seen.share,
    )
    return decision.decide(blank, logs, evidence.looks, resolution=resolution, block_s=block_s)
