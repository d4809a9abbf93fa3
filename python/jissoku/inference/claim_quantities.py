"""The logarithms, by block, of the quantities in claims."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from jissoku.inference import bottleneck, compare, latency, samples
from jissoku.inference.comparison_input import ComparisonInput
from jissoku.inference.inequality import COUNTERS, Quantity
from jissoku.inference.looks import Looks
from jissoku.inference.ratio_samples import PAIRED_KINDS
from jissoku.inference.summary import comparison_input
from jissoku.inference.valid_trials import (
    ValidTrials,
    log_cost,
    log_total_cpu,
    measurement_of,
    valid_trials,
)
from jissoku.model import (
    FULL_LOAD,
    ArmMeasurement,
    Bottleneck,
    CounterReadings,
    CrossCheck,
    Load,
    Run,
    Trial,
    TrialKind,
)
from jissoku.model.experiment import BenchmarkOutput

Logs = Mapping[int, float]


@dataclass(frozen=True, kw_only=True)  # without slots, which prevent cached properties
class WorkloadTrials:
    """One workload's records.

    Attributes:
        counters: Counters per request, by arm; empty without any.
    """

    run: Run
    trials: tuple[Trial, ...]
    counters: Mapping[str, CounterReadings]

    @cached_property
    def valid_trials(self) -> ValidTrials:
        return valid_trials(self.trials)

    @cached_property
    def comparison_input(self) -> ComparisonInput:
        return comparison_input(self.run, self.trials)

    @cached_property
    def load(self) -> Load:
        """The load of the workload; the heaviest of several."""
        loads = self.comparison_input.loads
        return loads[-1] if loads else FULL_LOAD

    @cached_property
    def at_load(self) -> ValidTrials:
        """The trials at that load, and those of the closed loop."""
        here = self.load.rate_rps
        return self.comparison_input.main.only(lambda trial: trial.load_rps in {here, None})


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRatioSample:
    """The part of an inequality that one workload contributes: log ratios by block, and checks.

    Attributes:
        looks: When the logarithms may be looked at.
    """

    logs: Logs
    checks: tuple[CrossCheck, ...] = ()
    looks: Looks = field(default_factory=Looks)


@dataclass(frozen=True, slots=True)
class Held:
    """Arms whose rate was held down by the load generator, above and below the line of a ratio."""

    above: tuple[str, ...] = ()
    below: tuple[str, ...] = ()

    def doubt(self, *, is_above: bool) -> str:
        """Why a ratio may not be on this side of its bound: such a rate is less than the truth."""
        arms = ", ".join(sorted({*(self.below if is_above else self.above)}))
        return arms and f"the load generator, not the server, held the rate down: {arms}"


def generator_held(
    campaign_of: Callable[[Quantity], WorkloadTrials],
    above: Sequence[Quantity],
    below: Sequence[Quantity],
) -> Held:
    """Which rates of a ratio say more about the load generator than about the server."""
    return Held(
        *(
            tuple(
                q.arm
                for q in quantities
                if q.metric == "rate"
                and rate_bottleneck(campaign_of(q), q.arm) is Bottleneck.GENERATOR
            )
            for quantities in (above, below)
        )
    )


def log_ratio_sample(
    campaign: WorkloadTrials, above: Sequence[Quantity], below: Sequence[Quantity]
) -> LogRatioSample:
    """The log of the quantities above over those below, all of one workload, block by block.

    The costs of two arms are taken from common trials; all other values are paired by block, in
    which trials ran one after the other.
    """
    if [q.metric for q in (*above, *below)] == ["cost", "cost"] and len(above) == 1:
        return _cost_ratio(campaign, above[0].arm, below[0].arm)
    known = campaign.at_load
    signed = [(1, logs(known, q)) for q in above] + [(-1, logs(known, q)) for q in below]
    shared = set.intersection(*(set(found) for _, found in signed))
    return LogRatioSample(
        logs={block: sum(sign * one[block] for sign, one in signed) for block in sorted(shared)},
        looks=campaign.comparison_input.looks,
    )


def _cost_ratio(campaign: WorkloadTrials, arm: str, against: str) -> LogRatioSample:
    evidence = campaign.comparison_input
    found = compare.compare_cost(evidence, arm, against, campaign.load, 1)
    pair = evidence.cost_ratios(campaign.load, arm, against)
    checks = found.found.cross_checks if found else ()
    return LogRatioSample(logs=pair.logs, checks=checks, looks=pair.looks)


def benchmark_sample(
    figures: BenchmarkOutput, above: Sequence[Quantity], below: Sequence[Quantity]
) -> LogRatioSample:
    """The log of a benchmark's values above over those below, round by round."""
    signed = [(1, _name(q)) for q in above] + [(-1, _name(q)) for q in below]
    return LogRatioSample(
        logs={
            index: sum(sign * math.log(found[name]) for sign, name in signed)
            for index, found in enumerate(figures.rounds)
        }
    )


def counter_value(counts: CounterReadings, metric: str) -> float | None:
    """One count per request; None if it is unknown, which is not zero."""
    metric, _, name = metric.partition(".")
    if metric != "calls":
        return counts.per_request.get(metric)
    if counts.syscalls_reason:
        return None
    if name:
        return counts.per_request.get(name, 0.0)
    return sum(n for one, n in counts.per_request.items() if one not in COUNTERS)


def _name(quantity: Quantity) -> str:
    return quantity.metric.partition(".")[2]


def logs(known: ValidTrials, quantity: Quantity) -> dict[int, float]:
    """One quantity's logarithm in each block; blocks without it are skipped."""
    arm = quantity.arm
    if quantity.metric == "cost":
        return _costs(known, arm)
    rates = known.with_arm(TrialKind.CLOSED_LOOP, arm)
    if quantity.metric == "rate":
        return _each(
            rates, arm, lambda measurement: measurement.requests / measurement.duration_ns * 1e9
        )
    if quantity.metric == "total_cpu":
        found = {trial.block: log_total_cpu(trial, arm) for trial in rates}
        return {block: value for block, value in found.items() if value is not None}
    if quantity.metric == "memory":
        return _each(rates, arm, lambda measurement: measurement.rss_bytes_peak or 0)
    fraction = latency.FRACTIONS[quantity.metric]
    measurements = samples.latency_measurements(known, arm)
    if measurements:
        return latency.log_percentiles(measurements, fraction)
    return _each(rates, arm, lambda measurement: _latency(measurement, fraction))


def rate_bottleneck(campaign: WorkloadTrials, arm: str) -> Bottleneck:
    """The bottleneck of the closed-loop rate of an arm."""
    trials = campaign.valid_trials.with_arm(TrialKind.CLOSED_LOOP, arm)
    return bottleneck.common_bottleneck(t.conditions for t in trials if t.conditions)


def error_count(campaign: WorkloadTrials, arm: str) -> int | None:
    """Failed requests in all trials of an arm, also in trials that errors made invalid.

    A trial in which the arm failed completely has no count and adds one error. None without a
    trial.
    """
    mine = [trial for trial in campaign.trials if arm in trial.arms]
    measurements = [
        measurement for trial in mine if (measurement := measurement_of(trial, arm)) is not None
    ]
    failed = sum(t.failure is not None and t.failure.arm == arm for t in mine)
    return (
        sum(sum(measurement.errors.values()) for measurement in measurements) + failed
        if mine
        else None
    )


def _costs(known: ValidTrials, arm: str) -> dict[int, float]:
    """From trials with other arms, averaged if a block has several; else from single trials."""
    trials = next(
        (
            t
            for kind in (*PAIRED_KINDS.values(), TrialKind.FIXED_RATE)
            if (t := known.with_arm(kind, arm))
        ),
        [],
    )
    blocks: dict[int, list[float]] = {}
    for trial in trials:
        cost = log_cost(trial, arm)
        if cost is not None:
            blocks.setdefault(trial.block, []).append(cost)
    return {block: sum(costs) / len(costs) for block, costs in blocks.items()}


def _each(
    trials: Iterable[Trial], arm: str, value: Callable[[ArmMeasurement], float]
) -> dict[int, float]:
    found = {}
    for trial in trials:
        measurement = measurement_of(trial, arm)
        if measurement is not None and measurement.requests and value(measurement) > 0:
            found[trial.block] = math.log(value(measurement))
    return found


def _latency(measurement: ArmMeasurement, fraction: float) -> float:
    """A percentile; 0, which is not a value, if too few answers lie above it."""
    if not latency.is_supported(fraction, measurement.requests):
        return 0.0
    return float(latency.percentile_ns(measurement, fraction))
