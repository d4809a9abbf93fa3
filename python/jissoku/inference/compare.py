"""Compares the arms of a run: which count, their ratios, cross-checks, and whether it is enough."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

from jissoku.inference import checks, decision, estimate, latency
from jissoku.inference.blocks import (
    PAIRED_KINDS,
    BlockDurations,
    ComparisonInput,
    RatioSamples,
    ValidTrials,
    block_log_costs,
    fixed_rate_ratios,
    loads_of,
    log_differences,
    log_ratios,
    neighbours,
    valid_trials,
)
from jissoku.inference.decision import MINIMUM_EFFECT_OF_METRIC, Decided, minimum_effect_of
from jissoku.inference.estimate import VERDICT_BLOCKS_MIN, Looks
from jissoku.model import FULL_LOAD, Load, Method, Run, updated
from jissoku.model.summary import (
    Comparison,
    CrossCheck,
    CrossCheckName,
    EvidenceSource,
    FailureSummary,
    MeasurementStatus,
    Metric,
    Verdict,
)
from jissoku.model.trial import CheckOutcome, Condition, FailedCheck, Trial, TrialKind


@dataclass(frozen=True, slots=True)
class ArmOutcome:
    status: MeasurementStatus
    failures: tuple[FailureSummary, ...]
    valid: int
    total: int


def arm_outcome(
    trials: Sequence[Trial], arm: str, blocks_min: int = VERDICT_BLOCKS_MIN
) -> ArmOutcome:
    """Whether an arm has values, and what went wrong with it.

    An arm that broke, and has fewer blocks than a verdict of the run needs (`blocks_min`), has no
    values at all: the trials in which a failing target did not fail are not a fair sample of it.
    """
    ours = [trial for trial in trials if arm in trial.arms]
    # The conditions of most blocks; the others are cross-checks.
    kind = max(TrialKind, key=lambda kind: len({t.block for t in ours if t.kind is kind}))
    blocks = {t.block for t in ours if t.kind is kind and t.is_valid_for(arm)}
    failures = [t for t in ours if t.failure is not None and t.failure.arm == arm]
    wrong = [trial for trial in ours if _invalid_checks(trial, arm)]
    status = MeasurementStatus.MEASURED if blocks else MeasurementStatus.UNMEASURED
    if len(blocks) < blocks_min:
        if (not blocks and failures) or any(trial.kind is kind for trial in failures):
            status = MeasurementStatus.FAILED
        elif (not blocks and wrong) or any(trial.kind is kind for trial in wrong):
            status = MeasurementStatus.INVALID
    counted = sum(trial.is_valid_for(arm) for trial in ours)
    return ArmOutcome(status, _failures(failures, wrong, arm), counted, len(ours))


def _invalid_checks(trial: Trial, arm: str) -> list[FailedCheck]:
    return [
        check
        for check in trial.failed_checks
        if check.outcome is CheckOutcome.INVALID and check.arm in ("", arm)
    ]


def _failures(
    failures: Iterable[Trial], wrong: Iterable[Trial], arm: str
) -> tuple[FailureSummary, ...]:
    """Each reason once, with all its trials and the target's last output."""
    every = [
        (
            one.reason,
            FailureSummary(
                stage=str(one.stage),
                reason=one.reason,
                stderr=one.stderr,
                trials=(trial.index,),
                has_ended=one.has_ended,
            ),
        )
        for trial in failures
        if (one := trial.failure) is not None
    ]
    every += [  # Their messages differ by counts.
        (check.name, FailureSummary(stage="", reason=check.message, trials=(trial.index,)))
        for trial in wrong
        for check in _invalid_checks(trial, arm)
    ]
    found: dict[tuple[str, str], FailureSummary] = {}
    for reason, more in every:
        known = found.setdefault((more.stage, reason), more)
        if known is not more:
            trials = (*known.trials, *more.trials)
            found[more.stage, reason] = updated(
                known, stderr=more.stderr or known.stderr, trials=trials
            )
    return tuple(found.values())


def comparison_input(run: Run, trials: Sequence[Trial]) -> ComparisonInput:
    """What verdicts are decided from, the same for every question about a run."""
    return ComparisonInput(
        run,
        valid_trials(trials),
        excluded_arms(run, trials),
        loads_of(run, tuple(trials)),
        durations=BlockDurations(trials, run.slice_ns),
    )


def excluded_arms(run: Run, trials: Sequence[Trial]) -> dict[str, tuple[Verdict, str]]:
    found = {}
    counts = outcomes(run, trials)
    uneven = checks.uneven_rejection(trials, [arm.name for arm in run.arms])
    for name, known in counts.items():
        reason = known.failures[0].reason if known.failures else ""
        if known.status is MeasurementStatus.FAILED:
            found[name] = (Verdict.FAILED, f"{name}: {reason}")
        elif known.status is MeasurementStatus.INVALID:
            found[name] = (Verdict.INVALID, reason)
        elif name in uneven:
            found[name] = (Verdict.INVALID, f"{name}: {uneven[name]}")
    return found


def outcomes(run: Run, trials: Sequence[Trial]) -> dict[str, ArmOutcome]:
    least = Looks(run.horizon).first
    return {arm.name: arm_outcome(trials, arm.name, least) for arm in run.arms}


# One pair: (candidate, the arm that it is compared with), and the same at one load.
Pair = tuple[str, str]
Question = tuple[str, str, Load]


def ranked_arms(run: Run) -> tuple[str, ...]:
    """Arms that are ranked. The floor is the unit, and is ranked only if it is also a target."""
    names = tuple(arm.name for arm in run.arms if arm.name != run.aa_control)
    others = tuple(name for name in names if name != run.floor)
    return names if run.baseline == run.floor or len(others) < 2 else others


def pairs(run: Run) -> tuple[Pair, ...]:
    """The pairs that a run compares: all of its targets, or a target and each of its variants."""
    names = ranked_arms(run)
    if run.verb == "tune":
        return tuple((name, run.baseline) for name in names if name != run.baseline)
    ordered = sorted(names, key=lambda name: name != run.baseline)
    return tuple((later, earlier) for earlier, later in combinations(ordered, 2))


def compare(evidence: ComparisonInput) -> tuple[Comparison, ...]:
    """All pairs by every metric, each metric corrected for its own number of comparisons."""
    asked = pairs(evidence.run)
    found = list(compare_costs(evidence, asked))
    for metric in (Metric.P50, Metric.P99, Metric.CAPACITY):
        loads: Sequence[Load | None] = (None,) if metric is Metric.CAPACITY else evidence.loads
        family = {
            (*pair, load or FULL_LOAD): _compare_metric(evidence, *pair, metric, load)
            for load in loads
            for pair in asked
        }
        found += _settled(evidence, family)
    return tuple(found)


def compare_costs(evidence: ComparisonInput, asked: Sequence[Pair]) -> tuple[Comparison, ...]:
    each = [(*pair, load) for load in evidence.loads for pair in asked]
    return _settled(evidence, {one: compare_cost(evidence, *one, len(each)) for one in each})


def _settled(
    evidence: ComparisonInput, family: Mapping[Question, Decided | None]
) -> tuple[Comparison, ...]:
    """The comparisons of a family that have values.

    In a run that is looked at several times what is not measured yet counts, too, so that nothing
    is taken back when it is.
    """
    if not evidence.looks.horizon:
        return decision.settle([found for found in family.values() if found])
    settled = decision.settle(
        [found or Decided(_blank(evidence, *question)) for question, found in family.items()]
    )
    return tuple(one for one, found in zip(settled, family.values(), strict=True) if found)


def aa_control(evidence: ComparisonInput, metric: Metric = Metric.COST) -> tuple[Comparison, ...]:
    """The baseline against its A/A control at each load; none in a run without one.

    By cost the copies are compared in their common trials, by latency in the same trials.
    """
    run = evidence.run
    if not run.aa_control:
        return ()
    pair = run.aa_control, run.baseline
    found = [
        compare_cost(evidence, *pair, load, len(evidence.loads))
        if metric is Metric.COST
        else _compare_metric(evidence, *pair, metric, load)
        for load in evidence.loads
    ]
    return decision.settle([one for one in found if one is not None])


def observed_noise(evidence: ComparisonInput, metric: Metric) -> float:
    """Ratio minus one by which two copies of the baseline are shown to differ; 0 if they do not."""
    shown = aa_control(evidence, metric)
    logs = [abs(math.log(one.ratio.value)) for one in shown if one.proven and one.ratio]
    return math.expm1(max(logs, default=0.0))


def compare_cost(
    evidence: ComparisonInput, arm: str, against: str, load: Load, comparisons: int
) -> Decided | None:
    """One pair by CPU time per request at one load, checked, and not yet settled.

    None if one of them does not reach this load. An excluded arm has the reason at each load.
    """
    excluded = [evidence.excluded_arms.get(name) for name in (arm, against)]
    slow = evidence.unreached_text(load, arm, against)
    unreached = (Verdict.UNREACHED, slow) if slow else None
    if lack := excluded[0] or excluded[1] or unreached:
        verdict, reason = lack
        return Decided(
            Comparison(arm=arm, against=against, verdict=verdict, load=load, remarks=(reason,))
        )
    pair, run = evidence.cost_ratios(load, arm, against), evidence.run
    if not pair.logs:
        return None
    least = minimum_effect_of(pair.source, run.mode)
    blank = updated(
        _blank(evidence, arm, against, load),
        source=pair.source,
        connections=pair.connections,
        minimum_effect=max(run.minimum_effect, least, evidence.noise(Metric.COST)),
        is_calm=pair.is_calm,
        calm_fraction=pair.calm_fraction,
        other_ratio=estimate.geometric_mean(list(pair.others.values())),
    )
    block_s = evidence.block_s(pair.source, load)
    decided = decision.decide(blank, pair.logs, pair.looks, block_s=block_s, company=pair.company)
    found = cross_checks(evidence, decided.found, pair, comparisons)
    return decision.with_checks(decided, found)


def _blank(evidence: ComparisonInput, arm: str, against: str, load: Load) -> Comparison:
    seen = neighbours(evidence.at(load).trials)
    return Comparison(
        arm=arm,
        against=against,
        verdict=Verdict.INCONCLUSIVE,
        load=load,
        condition=seen.condition,
        other_programs=seen.share,
    )


def _compare_metric(
    evidence: ComparisonInput, arm: str, against: str, metric: Metric, load: Load | None
) -> Decided | None:
    """One pair by latency at a load, or by capacity; None if either has no value."""
    if {arm, against} & evidence.excluded_arms.keys():
        return None
    if load is not None and evidence.unreached_text(load, arm, against):
        return None
    resolution = 0.0
    if load is None:
        trials = evidence.valid_trials.trials
        capacities = (latency.log_capacities(trials, one) for one in (arm, against))
        logs: Mapping[int, float] = log_differences(*capacities)
        resolution = latency.search_resolution(trials, arm, against)
        # With what is measured on the starts of the searches.
        kinds = {TrialKind.CAPACITY, TrialKind.CLOSED_LOOP}
        block_s = evidence.durations.longest_s(TrialKind.CAPACITY, kinds)
        source, load = EvidenceSource.SINGLE, FULL_LOAD
    else:
        logs = latency.log_latency_ratios(evidence.at(load), metric, arm, against)
        is_sliced = evidence.run.method is Method.TIME_SLICED
        source = EvidenceSource.TIME_SLICED if is_sliced else EvidenceSource.SINGLE
        block_s = evidence.block_s(source, load)
    if not logs:
        return None
    blank = updated(
        _blank(evidence, arm, against, load),
        metric=metric,
        source=source,
        connections=evidence.run.workload.connections,
        minimum_effect=max(MINIMUM_EFFECT_OF_METRIC[metric], evidence.noise(metric)),
    )
    return decision.decide(blank, logs, evidence.looks, resolution=resolution, block_s=block_s)


def cross_checks(
    evidence: ComparisonInput, found: Comparison, pair: RatioSamples, comparisons: int
) -> tuple[CrossCheck, ...]:
    """Every check that the run's records allow; none for arms that were measured alone.

    A check beside other programs is a missing one: short, and of few blocks, it would show what the
    machine did in other moments. It is as strict as the number of comparisons of the run asks.
    """
    if pair.source is EvidenceSource.SINGLE:
        return ()
    alone = _spread_alone(evidence, found, pair.source)
    return tuple(
        CrossCheck(
            name=name,
            ratio=estimate.geometric_mean(list(logs.values())),
            agrees=decision.agrees(
                list(pair.logs.values()),
                list(logs.values()),
                comparisons,
                alone if name is CrossCheckName.ALONE else None,
            ),
        )
        for name, logs in _other_methods(evidence, found, pair.source)
        if logs
    )


def _other_methods(
    evidence: ComparisonInput, found: Comparison, source: EvidenceSource
) -> Iterator[tuple[CrossCheckName, Mapping[int, float]]]:
    run = evidence.run
    readings = evidence.valid_trials.at(found.load).only(
        lambda trial: neighbours([trial]).condition is Condition.QUIET
    )
    other = _sliced(readings.with_slice_length(run.check_slice_ns), found)
    if source is EvidenceSource.TIME_SLICED:
        yield CrossCheckName.OTHER_SLICE, other
    else:
        yield CrossCheckName.TIME_SLICED, _sliced(readings.with_slice_length(run.slice_ns), found)
    yield CrossCheckName.ALONE, fixed_rate_ratios(readings, found.arm, found.against).logs


def _sliced(readings: ValidTrials, found: Comparison) -> Mapping[int, float]:
    trials = readings.paired(TrialKind.TIME_SLICED, found.arm, found.against)
    return log_ratios(trials, found.arm, found.against)


def _spread_alone(
    evidence: ComparisonInput, found: Comparison, source: EvidenceSource
) -> estimate.Spread | None:
    """The least spread of ln(ratio) between blocks with each arm alone; None if it is not known.

    Each arm meets another start and other moments of the machine than the other one. What that
    changes is known where an arm has two trials in a block, as the baseline has with an A/A
    control: in 36 runs of one program 9 % from block to block, where the ratios of arms alone
    varied by 8 %, and those of paired trials by 0.9 %.
    """
    kind = PAIRED_KINDS.get(source, TrialKind.PAIRED)
    readings = evidence.at(found.load)
    changes = [
        second - first
        for arm in (found.arm, found.against)
        for costs in block_log_costs(readings.with_arm(kind, arm), arm).values()
        for first, second in pairwise(costs)
    ]
    if len(changes) < 2:
        return None
    return estimate.Spread(estimate.mean_and_sd(changes)[1], len(changes) - 1)


# Sources with both arms in one trial; a pair from two paired trials is as precise as these two.
JOINT_SOURCES = {EvidenceSource.TIME_SLICED, EvidenceSource.PAIRED}


def half_widths(run: Run, trials: Sequence[Trial]) -> dict[Question, float]:
    """The 95 % half-width of each pair's cost ratio at each load, as a natural logarithm.

    In a paired run without pairs that have no common trial.
    """
    return {
        pair: one.ratio.half_width
        for pair, one in cost_verdicts(run, trials).items()
        if one.ratio and (one.source in JOINT_SOURCES or run.method is Method.SINGLE)
    }


def lacks_calm(found: Comparison) -> bool:
    """Whether more blocks of a ratio beside other programs may have enough calm rotations."""
    beside = found.condition is not Condition.QUIET
    return beside and not found.is_calm and bool(found.calm_fraction)


def cost_verdicts(run: Run, trials: Sequence[Trial]) -> Mapping[Question, Comparison]:
    settled = compare_costs(comparison_input(run, trials), pairs(run))
    return {(one.arm, one.against, one.load): one for one in settled}


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
