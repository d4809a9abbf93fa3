"""From a sweep's records to its summary: results by level, and the fitted model."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from jissoku.inference import checks, estimate, latency, scalability
from jissoku.inference.blocks import measurement_of
from jissoku.inference.checks import ACHIEVED_MIN, GENERATOR_BUSY_MAX
from jissoku.inference.compare import arm_outcome
from jissoku.model import (
    Arm,
    ArmMeasurement,
    Axis,
    Bottleneck,
    IntervalEstimate,
    LevelResult,
    MeasurementStatus,
    ReportWarning,
    Run,
    Severity,
    Sweep,
    SweepSummary,
    TargetSweep,
    Trial,
    UslModel,
)
from jissoku.model.updated import updated
from jissoku.model.wording import plural, times

# The model has three parameters, and an interval needs blocks.
SUMMARY_LEVELS_MIN = 6
SUMMARY_BLOCKS_MIN = 3

LABELS = ("p50", "p99")


def summarise(run: Run, sweep: Sweep, trials: Sequence[Trial]) -> SweepSummary:
    """Answers a sweep; the same summary for the same records, always."""
    trials = tuple(sorted(trials, key=lambda trial: trial.index))
    targets = tuple(_target_sweep(run, sweep, arm, trials) for arm in run.arms)
    return SweepSummary(
        run=run,
        sweep=sweep,
        targets=targets,
        warnings=tuple(_warnings(run, sweep, targets)),
        trials_total=len(trials),
        trials_valid=sum(trial.is_valid for trial in trials),
        trials_rejected=sum(map(checks.is_rejected, trials)),
    )


def _target_sweep(run: Run, sweep: Sweep, arm: Arm, trials: Sequence[Trial]) -> TargetSweep:
    ours = [trial for trial in trials if trial.level is not None and trial.arms == (arm.name,)]
    by_level: dict[int, dict[int, Trial]] = {}
    for trial in ours:
        assert trial.level is not None, "others were left out above"
        row = by_level.setdefault(trial.level, {})
        if trial.is_valid:
            row.setdefault(trial.block, trial)
    counted = arm_outcome(trials, arm.name)
    measured = any(by_level.values())
    broken = (
        counted.status
        if counted.status is not MeasurementStatus.MEASURED
        else MeasurementStatus.UNMEASURED
    )
    results, fitted = [], {}
    for level, row in sorted(by_level.items()):
        rates = _is_fittable(run, sweep, level, row, arm.name)
        result = _level_result(run, sweep, level, row, arm.name)
        if len(rates) >= SUMMARY_BLOCKS_MIN:
            fitted[level] = rates
        results.append(updated(result, is_fitted=len(rates) >= SUMMARY_BLOCKS_MIN))
    model, reason = _model(run, sweep, fitted)
    target = TargetSweep(
        arm=arm,
        status=MeasurementStatus.MEASURED if measured else broken,
        results=tuple(results),
        model=model,
        reason=reason,
        sustained_rps=_sustained(sweep, results),
        failures=counted.failures,
    )
    return updated(target, sentence=_sentence(sweep, target))


def _is_fittable(
    run: Run, sweep: Sweep, level: int, row: Mapping[int, Trial], name: str
) -> dict[int, float]:
    """Logarithms of the rates that say something of the target, by block."""
    if sweep.axis is Axis.RATE or run.cores.shared or _has_too_few_cores(run, sweep, level):
        return {}
    found = {}
    for block, trial in row.items():
        measurement = measurement_of(trial, name)
        if measurement is not None and measurement.requests and not _is_generator_limited(trial):
            found[block] = _log_rate(measurement)
    return found


def _is_generator_limited(trial: Trial) -> bool:
    """Whether the load generator may have been what the rate was bound by."""
    seen = trial.conditions
    busy = (
        seen is not None
        and not seen.generator_busy_polls
        and seen.generator_busy_fraction > GENERATOR_BUSY_MAX
    )
    return busy or any(check.name == "little" for check in trial.failed_checks)


def _has_too_few_cores(run: Run, sweep: Sweep, level: int) -> bool:
    return sweep.axis is Axis.WORKERS and level > len(run.cores.server)


def _log_rate(measurement: ArmMeasurement) -> float:
    return math.log(measurement.requests / measurement.duration_ns * 1e9)


def _level_result(
    run: Run, sweep: Sweep, level: int, row: Mapping[int, Trial], name: str
) -> LevelResult:
    trials = [trial for _, trial in sorted(row.items())]
    measurements = [
        measurement for trial in trials if (measurement := measurement_of(trial, name)) is not None
    ]
    costs = [
        math.log(measurement.cpu_ns / measurement.requests)
        for measurement in measurements
        if measurement.cpu_ns
    ]
    achieved = [
        measurement.requests / (measurement.duration_ns / 1e9) / measurement.rate_rps_offered
        for measurement in measurements
        if measurement.rate_rps_offered and measurement.duration_ns
    ]
    return LevelResult(
        level=level,
        blocks=len(trials),
        rate_rps=estimate.geometric_mean([_log_rate(measurement) for measurement in measurements]),
        cost_ns=estimate.geometric_mean(costs),
        percentiles=tuple(
            one for one in latency.percentiles(dict(enumerate(measurements))) if one.label in LABELS
        ),
        bottleneck=_bottleneck(sweep, trials),
        achieved_fraction=min(achieved) if achieved else None,
        remarks=tuple(_remarks(run, sweep, level, trials)),
    )


def _bottleneck(sweep: Sweep, trials: Sequence[Trial]) -> Bottleneck:
    if sweep.axis is Axis.RATE:
        return Bottleneck.UNKNOWN
    return checks.common_bottleneck(trial.conditions for trial in trials if trial.conditions)


def _remarks(run: Run, sweep: Sweep, level: int, trials: Sequence[Trial]) -> Iterator[str]:
    if len(trials) < SUMMARY_BLOCKS_MIN:
        yield f"{len(trials) or 'none'} of its blocks count, and {SUMMARY_BLOCKS_MIN} are needed"
    if _has_too_few_cores(run, sweep, level):
        yield (
            f"more workers than the {len(run.cores.server)}"
            f" {plural(len(run.cores.server), 'core')} the server had"
        )
    if sweep.axis is not Axis.RATE:
        held = sum(map(_is_generator_limited, trials))
        if held:
            yield (
                f"the load generator was near its limit in {held} of {len(trials)}"
                f" {plural(len(trials), 'block')}"
            )
    messages = Counter(check.message for trial in trials for check in trial.failed_checks)
    names = {check.message: check.name for trial in trials for check in trial.failed_checks}
    text: set[str] = set()
    for message in messages:
        if names[message] in ("rate-not-reached", "late-sends", "drift", "overflows"):
            if names[message] not in text:
                yield message
            text.add(names[message])


def _model(run: Run, sweep: Sweep, fitted: scalability.Rates) -> tuple[UslModel | None, str]:
    if sweep.axis is Axis.RATE:
        return None, "no scalability model is fitted over given rates: see the sustained rate"
    if run.cores.shared:
        return (
            None,
            "servers and load generator shared cores, so the fit would include the load generator",
        )
    if len(fitted) < SUMMARY_LEVELS_MIN:
        return None, (
            f"{len(fitted)} {plural(len(fitted), 'level')} can be fitted"
            f" and {SUMMARY_LEVELS_MIN} are needed; each level's"
            f" remarks"
            " say why"
        )
    try:
        return scalability.fit(fitted, at=sweep.at, seed=run.seed), ""
    except ValueError as error:
        return None, str(error)


def _sustained(sweep: Sweep, results: Sequence[LevelResult]) -> int | None:
    """The highest level up to which every block of every level answered what was offered."""
    if sweep.axis is not Axis.RATE:
        return None
    best = None
    for result in results:
        if (
            result.blocks < SUMMARY_BLOCKS_MIN
            or result.achieved_fraction is None
            or result.achieved_fraction < ACHIEVED_MIN
        ):
            return best
        best = result.level
    return best


def _sentence(sweep: Sweep, target: TargetSweep) -> str:
    name = target.arm.name
    if target.status is not MeasurementStatus.MEASURED:
        why = target.failures[0].reason if target.failures else "no trial of it counts"
        return f"{name} has no result: {why}"
    if sweep.axis is Axis.RATE:
        return _sustained_sentence(target)
    if target.model is None:
        return f"{name}: no model was fitted: {target.reason}"
    model = target.model
    text = (
        f"{name}: contention {_percent(model.contention)}, coherency {_parts(model.coherency)} per"
        f" million"
    )
    if model.peak is not None:
        rate = next(y for x, y in _at(model))
        text += (
            f"; highest at {model.peak.value:,.0f} [{model.peak.low:,.0f}, {model.peak.high:,.0f}]"
            f" {sweep.axis}, about {rate:,.0f} requests per second"
        )
        if model.peak.value > max(model.levels):
            text += ", which is beyond what was measured"
        return text
    return f"{text}; no peak: {model.peak_reason}"


def _at(model: UslModel) -> Iterator[tuple[float, float]]:
    assert model.peak is not None, "only a model with a peak has one"
    n = model.peak.value
    a, b, k = model.contention.value, model.coherency.value, model.single_rps.value
    yield n, k * n / (1 + a * (n - 1) + b * n * (n - 1))


def _percent(span: IntervalEstimate) -> str:
    return f"{100 * span.value:.2f} % [{100 * span.low:.2f}, {100 * span.high:.2f}]"


def _parts(span: IntervalEstimate) -> str:
    return f"{1e6 * span.value:.3g} [{1e6 * span.low:.3g}, {1e6 * span.high:.3g}]"


def _sustained_sentence(target: TargetSweep) -> str:
    name, low, top = target.arm.name, target.results[0].level, target.results[-1].level
    if target.sustained_rps is None:
        return f"{name} did not sustain the lowest offered rate, {low:,}/s"
    if target.sustained_rps == top:
        return f"{name} sustained every offered rate, up to {top:,}/s: its limit is higher"
    following = next(r.level for r in target.results if r.level > target.sustained_rps)
    return (
        f"{name} sustained the offered rate up to {target.sustained_rps:,}/s, and not at"
        f" {following:,}/s"
    )


def _warnings(run: Run, sweep: Sweep, targets: Sequence[TargetSweep]) -> Iterator[ReportWarning]:
    for target in targets:
        for broken in target.failures:
            yield ReportWarning(
                severity=Severity.PROBLEM,
                title=f"{target.arm.name} failed {times(len(broken.trials))}",
                text=broken.reason,
                detail=broken.stderr,
            )
    if run.cores.shared:
        yield ReportWarning(
            severity=Severity.WARNING,
            title="Servers and load generator shared cores",
            text="No model is fitted: the contention may be the load generator's.",
        )
    if sweep.axis is Axis.WORKERS:
        cores = len(run.cores.server)
        yield ReportWarning(
            severity=Severity.NOTE,
            title="Meaning of a worker",
            text=(
                f"Each level has as many workers as cores, up to the {cores} that the server was"
                " given. What is said of cores is not said of hosts, which share less and agree"
                " over a network."
                + (" Two of its cores may be threads of one." if run.machine.smt else "")
            ),
        )
