"""Results of one arm."""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from jissoku.inference import bottleneck, estimate, latency, samples
from jissoku.inference.comparison_input import ComparisonInput
from jissoku.inference.looks import VERDICT_BLOCKS_MIN
from jissoku.inference.ratio_samples import PAIRED_KINDS
from jissoku.inference.valid_trials import ValidTrials, log_cost, measurement_of
from jissoku.model import (
    Arm,
    ArmMeasurement,
    ArmSummary,
    BlockValue,
    CheckOutcome,
    Estimate,
    EvidenceSource,
    FailureSummary,
    Load,
    LoadPoint,
    MeasurementStatus,
    Trial,
    TrialKind,
)
from jissoku.model.updated import updated


@dataclass(frozen=True, slots=True)
class ArmOutcome:
    """An arm's trials."""

    status: MeasurementStatus
    failures: tuple[FailureSummary, ...]
    valid: int
    total: int


def arm_outcome(
    trials: Sequence[Trial], arm: str, blocks_min: int = VERDICT_BLOCKS_MIN
) -> ArmOutcome:
    """Whether an arm has values, and what went wrong with it.

    An arm that broke, and has fewer blocks than a verdict needs, has no values at all: the trials
    in which a failing target did not fail are not a fair sample of it.

    Args:
        blocks_min: As many blocks as a verdict of the run needs.
    """
    ours = [trial for trial in trials if arm in trial.arms]
    kind = _main_kind(ours)
    blocks = {t.block for t in ours if t.kind is kind and t.is_valid_for(arm)}
    failures = [t for t in ours if t.failure is not None and t.failure.arm == arm]
    wrong = [trial for trial in ours if _invalid_reasons(trial, arm)]
    status = MeasurementStatus.MEASURED if blocks else MeasurementStatus.UNMEASURED
    if len(blocks) < blocks_min:
        if (not blocks and failures) or any(trial.kind is kind for trial in failures):
            status = MeasurementStatus.FAILED
        elif (not blocks and wrong) or any(trial.kind is kind for trial in wrong):
            status = MeasurementStatus.INVALID
    counted = sum(trial.is_valid_for(arm) for trial in ours)
    return ArmOutcome(status, _failures(failures, wrong, arm), counted, len(ours))


def _main_kind(ours: Sequence[Trial]) -> TrialKind:
    """The conditions of most blocks of an arm; the others are cross-checks."""
    blocks = {kind: {trial.block for trial in ours if trial.kind is kind} for kind in TrialKind}
    return max(TrialKind, key=lambda kind: len(blocks[kind]))


def _invalid_reasons(trial: Trial, arm: str) -> list[str]:
    return [
        check.message
        for check in trial.failed_checks
        if check.outcome is CheckOutcome.INVALID and check.arm in ("", arm)
    ]


def _failures(
    failures: Iterable[Trial], wrong: Iterable[Trial], arm: str
) -> tuple[FailureSummary, ...]:
    """Each reason once, with all its trials and the target's last output."""
    found: dict[tuple[str, str], FailureSummary] = {}
    for trial in failures:
        if trial.failure is not None:
            key = (str(trial.failure.stage), trial.failure.reason)
            _add(found, key, trial, trial.failure.stderr)
    for trial in wrong:
        for reason in _invalid_reasons(trial, arm):
            _add(found, ("", reason), trial, "")
    return tuple(found.values())


def _add(
    found: dict[tuple[str, str], FailureSummary], key: tuple[str, str], trial: Trial, stderr: str
) -> None:
    known = found.get(key, FailureSummary(stage=key[0], reason=key[1]))
    found[key] = updated(known, stderr=stderr or known.stderr, trials=(*known.trials, trial.index))


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
    measurements = samples.latency_measurements(known, name)
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
        bottleneck=bottleneck.common_bottleneck(t.conditions for t in rate_trials if t.conditions),
        capacity_rps=_capacity(readings.trials, name),
        rss_bytes=round(statistics.median(seen)) if seen else None,
        idle_cpu_fraction=statistics.median(idle) / 1e9 if idle else None,
    )


def _capacity(trials: Sequence[Trial], name: str) -> Estimate | None:
    """The highest rate that met the objective; the next one tried may be the first that did not."""
    logs = list(samples.log_capacities(trials, name).values())
    found = estimate.geometric_mean(logs)
    step = samples.search_step(trials, name)
    return found and updated(found, high=found.high * math.exp(step))


def _block_values(logs: Mapping[int, float]) -> tuple[BlockValue, ...]:
    return tuple(
        BlockValue(block=block, value=math.exp(log)) for block, log in sorted(logs.items())
    )


def _measurements(trials: Iterable[Trial], name: str) -> list[ArmMeasurement]:
    return [
        measurement for trial in trials if (measurement := measurement_of(trial, name)) is not None
    ]
