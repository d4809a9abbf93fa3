"""From a sweep's records to its summary: results by level, the fitted model, and its predictions.

Intervals are bootstrapped by complete blocks, so that disturbances common to all levels of a block
stay together. A bootstrap of few blocks varies too little, so distances from the estimate are
widened by the ratio of Student's t to the normal quantile, and by n / (n - 1). A peak or a
prediction is given only if the fit supports it; otherwise the reason is given.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from jissoku.inference import checks, estimate, latency
from jissoku.inference.blocks import measured
from jissoku.inference.checks import GENERATOR_BUSY_MAX
from jissoku.inference.compare import arm_outcome
from jissoku.inference.late import Numbers, np, optimize, stats
from jissoku.inference.limits import OTHERS_MAX
from jissoku.inference.run_warnings import warning
from jissoku.inference.texts import said
from jissoku.model import ACHIEVED_MIN, Arm, ArmMeasurement, Run, Trial, plural, times, updated
from jissoku.model.experiment import (
    Axis,
    IntervalEstimate,
    LevelResult,
    Prediction,
    Sweep,
    SweepSummary,
    TargetSweep,
    UslModel,
)
from jissoku.model.summary import Bottleneck, MeasurementStatus, ReportWarning

STEPS_MAX = 50
HALVINGS_MAX = 30
TOLERANCE = 1e-12

# Stands for no coherency at all where a peak is computed from it.
VARIANCE_MIN = 1e-15


@dataclass(frozen=True, slots=True)
class Fit:
    """The Universal Scalability Law: X(N) = k N / (1 + a (N - 1) + b N (N - 1)), a, b >= 0.

    (Gunther, Guerrilla Capacity Planning, 2007, chapter 4.) Rates differ by factors, so it is
    fitted to their logarithms. N / X is linear in 1 / k, a / k and b / k, so each Gauss-Newton step
    on the logarithms is a linear least-squares problem whose unknowns must not be negative. scipy
    solves that one exactly: a parameter that would be negative is zero, and not merely small.

    Attributes:
        inverse_rate: 1 / k: what one takes alone, in seconds per answer.
        contention_term: a / k.
        coherency_term: b / k.
    """

    inverse_rate: float
    contention_term: float
    coherency_term: float

    @property
    def single(self) -> float:
        return 1 / self.inverse_rate

    @property
    def contention(self) -> float:
        return self.contention_term / self.inverse_rate

    @property
    def coherency(self) -> float:
        return self.coherency_term / self.inverse_rate

    @property
    def peak(self) -> float:
        return math.sqrt(max(0.0, 1 - self.contention) / max(self.coherency, VARIANCE_MIN))

    def rate(self, level: float) -> float:
        load = (
            self.inverse_rate
            + self.contention_term * (level - 1)
            + self.coherency_term * level * (level - 1)
        )
        return level / load


def solve(levels: Numbers, logs: Numbers) -> Fit | None:
    """The model nearest to a table of logarithms of rates, one row a level, one column a block.

    Cells that are not there are NaN. None when the rates leave the rate of one open.
    """
    means, counts = adjusted(logs)
    there = counts > 0
    levels, weights = levels[there], np.sqrt(counts[there])
    wanted = np.log(levels) - means[there]  # of N / X
    design = np.column_stack([np.ones_like(levels), levels - 1, levels * (levels - 1)])
    # The first step takes relative errors for logarithms of ratios; each later one is exact.
    guess, _ = optimize.nnls(design * (weights / np.exp(wanted))[:, None], weights)
    guess = guess + np.array([1e-6 * math.exp(float(wanted.min())), 0.0, 0.0])
    for _ in range(STEPS_MAX):
        better = _step(design, wanted, weights, guess)
        moved = float(np.abs(better - guess).max()) / float(guess.max())
        guess = better
        if moved < TOLERANCE:
            break
    base, waiting, agreeing = (float(value) for value in guess)
    return Fit(base, waiting, agreeing) if base > 0 else None


def _step(design: Numbers, wanted: Numbers, weights: Numbers, guess: Numbers) -> Numbers:
    """One Gauss-Newton step, shortened until it does no harm.

    Both its ends are allowed, so all that lies between them is.
    """
    modelled = design @ guess
    target = 1 + wanted - np.log(modelled)
    aim, _ = optimize.nnls(design * (weights / modelled)[:, None], weights * target)
    before = _loss(design, wanted, weights, guess)
    length = 1.0
    for _ in range(HALVINGS_MAX):
        tried = guess + length * (aim - guess)
        if _loss(design, wanted, weights, tried) <= before:
            return np.asarray(tried)
        length /= 2
    return guess


def _loss(design: Numbers, wanted: Numbers, weights: Numbers, guess: Numbers) -> float:
    modelled = design @ guess
    if float(modelled.min()) <= 0:
        return math.inf
    return float(np.sum((weights * (wanted - np.log(modelled))) ** 2))


def adjusted(logs: Numbers) -> tuple[Numbers, Numbers]:
    """Each level's mean over blocks, and of how many.

    A level that lacks a slow block would seem fast, so where cells are missing the blocks' own
    effects are estimated beside the levels' (two-way additive model) and taken out.
    """
    there = ~np.isnan(logs)
    counts = there.sum(axis=1).astype(float)
    if there.all():
        return logs.mean(axis=1), counts
    rows, columns = np.nonzero(there)
    height, width = logs.shape
    design = np.zeros((len(rows), height + width))
    design[np.arange(len(rows)), rows] = 1
    design[np.arange(len(rows)), height + columns] = 1
    effects = np.linalg.lstsq(design, logs[there], rcond=None)[0]
    used = np.unique(columns)
    return effects[:height] + effects[height + used].mean(), counts


def _lack_of_fit(levels: Numbers, logs: Numbers, found: Fit) -> tuple[float, float]:
    """The farthest level's distance from the model, as a fraction, and its p-value.

    By an F-test of the levels' distances against the noise within blocks.
    """
    means, counts = adjusted(logs)
    distances = means - np.log([found.rate(level) for level in levels])
    largest = float(np.abs(np.expm1(distances)).max())
    rest = logs - means[:, None]
    rest = rest - np.nanmean(rest, axis=0)[None, :]
    height, width = logs.shape
    freedom = int((~np.isnan(logs)).sum()) - height - width + 1
    noise = float(np.nansum(rest**2)) / freedom if freedom > 0 else 0.0
    lack = float(np.sum(counts * distances**2)) / (height - 3)
    if noise <= 0:
        return largest, 0.0 if lack > 0 else 1.0
    return largest, float(stats.f.sf(lack / noise, height - 3, freedom))


RESAMPLES = 1000
TAIL = 0.025
FIT_BLOCKS_MIN = 2
FIT_LEVELS_MIN = 4  # one more than there are parameters

# Largest residual, where it exceeds noise, above which the model is not adequate.
RESIDUAL_MAX = 0.05
MISFIT_ALPHA = 0.01

# The fit is not extrapolated beyond this multiple of the highest level.
REACH = 2.0

# Half-width of the interval, as a logarithm, above which no prediction is reported.
HALF_WIDTH_MAX = 0.10

CURVE_POINTS = 60

# Logarithms of rates, by level and then by block.
Rates = Mapping[int, Mapping[int, float]]


@dataclass(frozen=True, slots=True)
class _Bootstrap:
    estimate: Fit
    resamples: Sequence[Fit]
    widening: float
    highest: int

    def interval(self, quantity: Callable[[Fit], float]) -> IntervalEstimate:
        """The interval of a quantity that is at least zero."""
        value = quantity(self.estimate)
        low, high = self._ends(value, [quantity(fit) for fit in self.resamples])
        return IntervalEstimate(value=value, low=max(0.0, low), high=max(value, high))

    def positive_interval(self, quantity: Callable[[Fit], float]) -> IntervalEstimate:
        logs = [math.log(max(quantity(fit), 1e-300)) for fit in (self.estimate, *self.resamples)]
        low, high = self._ends(logs[0], logs[1:])
        return IntervalEstimate(
            value=math.exp(logs[0]), low=math.exp(low), high=math.exp(min(high, 700.0))
        )

    def _ends(self, value: float, drawn: Sequence[float]) -> tuple[float, float]:
        low, high = (float(end) for end in np.quantile(drawn, [TAIL, 1 - TAIL]))
        return (
            value - self.widening * max(0.0, value - low),
            value + self.widening * max(0.0, high - value),
        )


def fit(rates: Rates, *, at: Sequence[int] = (), seed: int = 0) -> UslModel:
    """Fits the model to at least four levels in at least two blocks, which may lack some levels.

    Rates are predicted at other levels. ValueError if the rate at level 1 is left open.
    """
    numbers = sorted({block for row in rates.values() for block in row})
    if len(rates) < FIT_LEVELS_MIN or len(numbers) < FIT_BLOCKS_MIN:
        raise ValueError(f"{len(rates)} levels in {len(numbers)} blocks cannot be fitted")
    levels = np.array(sorted(rates), dtype=float)
    logs = np.array([[rates[n].get(block, math.nan) for block in numbers] for n in sorted(rates)])
    found = solve(levels, logs)
    if found is None:
        raise ValueError("the rates do not determine the rate at level 1")
    largest, p_value = _lack_of_fit(levels, logs, found)
    drawn = list(_resamples(levels, logs, seed))
    wide, normal = stats.t.ppf(1 - TAIL, len(numbers) - 1), stats.norm.ppf(1 - TAIL)
    widening = float(wide / normal) * math.sqrt(len(numbers) / (len(numbers) - 1))
    evidence = _Bootstrap(found, drawn, widening, max(rates))
    places: list[float] = np.geomspace(levels[0], levels[-1], CURVE_POINTS).tolist()
    model = UslModel(
        single_rps=evidence.positive_interval(lambda one: one.single),
        contention=evidence.interval(lambda one: one.contention),
        coherency=evidence.interval(lambda one: one.coherency),
        levels=tuple(sorted(rates)),
        blocks=len(numbers),
        curve=tuple((place, found.rate(place)) for place in places),
        max_residual=largest,
        is_adequate=largest <= RESIDUAL_MAX or p_value >= MISFIT_ALPHA,
    )
    peak, reason = _peak(model, evidence)
    forecasts = tuple(_prediction(model, evidence, level) for level in at)
    return updated(model, peak=peak, peak_reason=reason, predictions=forecasts)


def _resamples(levels: Numbers, logs: Numbers, seed: int) -> Iterator[Fit]:
    rng = np.random.default_rng(seed)
    width = logs.shape[1]
    # The order of blocks is irrelevant, so few blocks have few samples: three have ten.
    known: dict[tuple[int, ...], Fit | None] = {}
    for _ in range(RESAMPLES):
        drawn_blocks: list[int] = rng.integers(0, width, size=(width,)).tolist()
        chosen = tuple(sorted(drawn_blocks))
        if chosen not in known:
            known[chosen] = solve(levels, logs[:, chosen])
        drawn = known[chosen]
        if drawn is not None:
            yield drawn


def _peak(model: UslModel, evidence: _Bootstrap) -> tuple[IntervalEstimate | None, str]:
    if not model.is_adequate:
        return None, said("sweep", "misfit", residual=100 * model.max_residual)
    if model.coherency.low <= 0:
        return None, "the interval of the coherency includes zero: no peak is shown"
    if evidence.estimate.contention >= 1:
        return None, "the rate is highest at level 1"
    if evidence.estimate.peak > REACH * evidence.highest:
        return None, said("sweep", "peak-too-far", reach=REACH, highest=evidence.highest)
    return evidence.positive_interval(lambda one: one.peak), ""


def _prediction(model: UslModel, evidence: _Bootstrap, level: int) -> Prediction:
    if not model.is_adequate:
        reason = said("sweep", "misfit", residual=100 * model.max_residual)
        return Prediction(level=level, rate_rps=None, reason=reason)
    if level > REACH * evidence.highest:
        values = {"level": level, "reach": REACH, "highest": evidence.highest}
        return Prediction(
            level=level, rate_rps=None, reason=said("sweep", "level-too-far", **values)
        )
    rate = evidence.positive_interval(lambda one: one.rate(level))
    half, reason = math.log(rate.high / rate.low) / 2, ""
    if half > HALF_WIDTH_MAX:
        width, limit = (100 * math.expm1(log) for log in (half, HALF_WIDTH_MAX))
        reason = said("sweep", "too-wide", width=width, limit=limit)
    return Prediction(level=level, rate_rps=None if reason else rate, reason=reason)


# The model has three parameters, and an interval needs blocks.
SUMMARY_LEVELS_MIN = 6
SUMMARY_BLOCKS_MIN = 3

LABELS = ("p50", "p99")

# Failed checks that limit what a level says.
REMARKED_CHECKS = {"rate-not-reached", "late-sends", "drift", "overflows"}


def summarise_sweep(
    run: Run, sweep: Sweep, trials: Sequence[Trial], *, unfinished: str = ""
) -> SweepSummary:
    """The summary of a sweep; `unfinished` is why it is not finished, as the end of a sentence."""
    trials = tuple(sorted(trials, key=lambda trial: trial.index))
    targets = tuple(_target_sweep(run, sweep, arm, trials) for arm in run.arms)
    if unfinished:
        targets = tuple(_unfinished(one, unfinished) for one in targets)
    return SweepSummary(
        run=run,
        sweep=sweep,
        targets=targets,
        warnings=tuple(_warnings(run, sweep, targets)),
        trials_total=len(trials),
        trials_valid=sum(trial.is_valid for trial in trials),
        trials_rejected=sum(map(checks.is_rejected, trials)),
    )


def _unfinished(target: TargetSweep, reason: str) -> TargetSweep:
    """Without a fitted model it concludes nothing."""
    if target.model or target.sustained_rps or target.status is MeasurementStatus.FAILED:
        return target
    text = f"the sweep is not finished: {reason}"
    results = tuple(updated(one, remarks=()) for one in target.results)
    return updated(target, sentence=f"{target.arm.name}: {text}", reason=text, results=results)


def _target_sweep(run: Run, sweep: Sweep, arm: Arm, trials: Sequence[Trial]) -> TargetSweep:
    by_level: dict[int, dict[int, Trial]] = {}
    for trial in trials:
        if trial.level is not None and trial.arms == (arm.name,):
            row = by_level.setdefault(trial.level, {})
            if trial.is_valid:
                row.setdefault(trial.block, trial)
    counted = arm_outcome(trials, arm.name)
    status = counted.status
    if any(by_level.values()):
        status = MeasurementStatus.MEASURED
    elif status is MeasurementStatus.MEASURED:
        status = MeasurementStatus.UNMEASURED
    results, fitted = [], {}
    for level, row in sorted(by_level.items()):
        rates = _fittable_rates(run, sweep, level, row, arm.name)
        if is_fitted := len(rates) >= SUMMARY_BLOCKS_MIN:
            fitted[level] = rates
        found = measured((trial for _, trial in sorted(row.items())), arm.name)
        results.append(updated(_level_result(run, sweep, level, found), is_fitted=is_fitted))
    model, reason = _model(run, sweep, fitted)
    target = TargetSweep(
        arm=arm,
        status=status,
        results=tuple(results),
        model=model,
        reason=reason,
        sustained_rps=_sustained(sweep, results),
        failures=counted.failures,
    )
    return updated(target, sentence=_sentence(sweep, target))


def _fittable_rates(
    run: Run, sweep: Sweep, level: int, row: Mapping[int, Trial], name: str
) -> dict[int, float]:
    """Logarithms of the rates that say something of the target, by block."""
    if sweep.axis is Axis.RATE or run.cores.shared or _has_too_few_cores(run, sweep, level):
        return {}
    return {
        block: _log_rate(measurement)
        for block, each in row.items()
        for trial, measurement in measured([each], name)
        if measurement.requests and not _is_generator_limited(trial)
    }


def _is_generator_limited(trial: Trial) -> bool:
    """Whether the load generator may have been what the rate was bound by."""
    if any(check.name == "little" for check in trial.failed_checks):
        return True
    seen = trial.conditions
    if seen is None or seen.generator_busy_polls:
        return False
    return seen.generator_busy_fraction > GENERATOR_BUSY_MAX


def _has_too_few_cores(run: Run, sweep: Sweep, level: int) -> bool:
    return sweep.axis is Axis.WORKERS and level > len(run.cores.server)


def _log_rate(measurement: ArmMeasurement) -> float:
    return math.log(measurement.requests / measurement.duration_ns * 1e9)


def _level_result(
    run: Run, sweep: Sweep, level: int, found: Sequence[tuple[Trial, ArmMeasurement]]
) -> LevelResult:
    trials = [trial for trial, _ in found]
    measurements = [one for _, one in found]
    costs = [math.log(one.cpu_ns / one.requests) for one in measurements if one.cpu_ns]
    achieved = [
        one.requests / (one.duration_ns / 1e9) / one.rate_rps_offered
        for one in measurements
        if one.rate_rps_offered and one.duration_ns
    ]
    percentiles = latency.percentiles(dict(enumerate(measurements)))
    conditions = [trial.conditions for trial in trials if trial.conditions]
    is_paced = sweep.axis is Axis.RATE
    return LevelResult(
        level=level,
        blocks=len(trials),
        rate_rps=estimate.geometric_mean(list(map(_log_rate, measurements))),
        cost_ns=estimate.geometric_mean(costs),
        percentiles=tuple(one for one in percentiles if one.label in LABELS),
        bottleneck=Bottleneck.UNKNOWN if is_paced else checks.bottleneck(conditions),
        achieved_fraction=min(achieved, default=None),
        remarks=tuple(_remarks(run, sweep, level, trials)),
    )


def _remarks(run: Run, sweep: Sweep, level: int, trials: Sequence[Trial]) -> Iterator[str]:
    if len(trials) < SUMMARY_BLOCKS_MIN:
        yield f"{len(trials) or 'none'} of its blocks count, and {SUMMARY_BLOCKS_MIN} are needed"
    if _has_too_few_cores(run, sweep, level):
        cores = len(run.cores.server)
        yield f"more workers than the {cores} {plural(cores, 'core')} the server had"
    held = [] if sweep.axis is Axis.RATE else [one for one in trials if _is_generator_limited(one)]
    waits = [one.conditions.generator_wait_fraction for one in held if one.conditions]
    delayed = sum((wait or 0.0) > OTHERS_MAX for wait in waits)
    for count, what in (
        (len(held) - delayed, "the load generator was near its limit"),
        (delayed, "other programs took the load generator's core"),
    ):
        if count:
            yield f"{what} in {count} of {len(trials)} {plural(len(trials), 'block')}"
    messages: dict[str, str] = {}
    for check in (check for trial in trials for check in trial.failed_checks):
        if check.name in REMARKED_CHECKS:
            messages.setdefault(check.name, check.message)
    yield from messages.values()


def _model(run: Run, sweep: Sweep, fitted: Rates) -> tuple[UslModel | None, str]:
    if sweep.axis is Axis.RATE:
        return None, said("sweep", "rate")
    if run.cores.shared:
        return None, said("sweep", "shared-cores")
    if len(fitted) < SUMMARY_LEVELS_MIN:
        can = f"{len(fitted)} {plural(len(fitted), 'level')} can be fitted"
        return None, f"{can} and {SUMMARY_LEVELS_MIN} are needed; each level's remarks say why"
    try:
        return fit(fitted, at=sweep.at, seed=run.seed), ""
    except ValueError as error:
        return None, str(error)


def _sustained(sweep: Sweep, results: Sequence[LevelResult]) -> int | None:
    """The highest level up to which every block of every level answered what was offered."""
    if sweep.axis is not Axis.RATE:
        return None
    highest = None
    for one in results:
        if one.blocks < SUMMARY_BLOCKS_MIN or (one.achieved_fraction or 0.0) < ACHIEVED_MIN:
            break
        highest = one.level
    return highest


def _sentence(sweep: Sweep, target: TargetSweep) -> str:
    name = target.arm.name
    if target.status is not MeasurementStatus.MEASURED:
        why = target.failures[0].reason if target.failures else "no trial of it counts"
        return f"{name} has no result: {why}"
    if sweep.axis is Axis.RATE:
        return _sustained_sentence(target)
    if target.model is None:
        return f"{name}: measured, without a fitted model: {target.reason}"
    model = target.model
    contention = _span(model.contention, 100, ".2f", " %")
    coherency = _span(model.coherency, 1e6, ",.0f")
    text = f"{name}: contention {contention}, coherency {coherency} per million"
    peak = model.peak
    if peak is None:
        return f"{text}; no peak: {model.peak_reason}"
    n, a, b = peak.value, model.contention.value, model.coherency.value
    rate = model.single_rps.value * n / (1 + a * (n - 1) + b * n * (n - 1))
    beyond = ", which is beyond what was measured" if n > max(model.levels) else ""
    return (
        f"{text}; highest at {_span(peak, 1, ',.0f')} {sweep.axis}, about {rate:,.0f} requests per"
        f" second{beyond}"
    )


def _span(span: IntervalEstimate, scale: float, form: str, unit: str = "") -> str:
    value, low, high = (format(scale * one, form) for one in (span.value, span.low, span.high))
    return f"{value}{unit} [{low}, {high}]"


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
            values = {"name": target.arm.name, "times": times(len(broken.trials))}
            yield warning("swept-failure", broken.stderr, **values, reason=broken.reason)
    if run.cores.shared:
        yield warning("swept-shared-cores")
    if sweep.axis is Axis.WORKERS:
        threads = " Two of its cores may be threads of one." if run.machine.smt else ""
        yield warning("worker", cores=len(run.cores.server), threads=threads)
