"""The data of every comparison: one logarithm per block, by metric."""

import math
from collections.abc import Iterator, Mapping, Sequence

from jissoku.inference import latency
from jissoku.inference.comparison_input import ComparisonInput, loads_of
from jissoku.inference.valid_trials import (
    ValidTrials,
    log_cost,
    log_differences,
    measurement_of,
    valid_trials,
)
from jissoku.model import ArmMeasurement, Load, Method, Metric, Run, Trial, TrialKind

Logs = Mapping[int, float]

FRACTIONS = {Metric.P50: 0.50, Metric.P99: 0.99}

# The largest factor between the two rates at which a search ends, where a record does not say.
SEARCH_STEP = 1.05


# The trials with latencies at one load. Paired trials have none: each request of one arm waits for
# the other's.
LATENCY_KINDS = (TrialKind.TIME_SLICED, TrialKind.FIXED_RATE)


def latency_measurements(known: ValidTrials, arm: str) -> dict[int, ArmMeasurement]:
    """An arm's trials with latencies at one load, by block: time-sliced, or else single-target."""
    return next(filter(None, (_measurements(known, kind, arm) for kind in LATENCY_KINDS)), {})


def _measurements(known: ValidTrials, kind: TrialKind, arm: str) -> dict[int, ArmMeasurement]:
    return {
        trial.block: measurement
        for trial in known.with_arm(kind, arm)
        if (measurement := measurement_of(trial, arm)) is not None and measurement.requests
    }


def _both(
    known: ValidTrials, kind: TrialKind, arm: str, against: str
) -> tuple[dict[int, ArmMeasurement], dict[int, ArmMeasurement]]:
    ours, theirs = _measurements(known, kind, arm), _measurements(known, kind, against)
    shared = sorted(ours.keys() & theirs.keys())
    return {block: ours[block] for block in shared}, {block: theirs[block] for block in shared}


def log_latency_ratios(known: ValidTrials, metric: Metric, arm: str, against: str) -> Logs:
    """ln(percentile of `arm` / percentile of `against`), by block; empty without enough answers.

    Both arms' percentiles are from trials of one kind, and taken in the same way: block by block
    where each supports them, else over all answers (`latency.log_pooled`).
    """
    fraction = FRACTIONS[metric]
    sides = next(
        filter(all, (_both(known, kind, arm, against) for kind in LATENCY_KINDS)), ({}, {})
    )
    measurements = [measurement for side in sides for measurement in side.values()]
    is_whole = all(
        latency.is_supported(fraction, measurement.requests) for measurement in measurements
    )
    read = latency.log_per_block if is_whole else latency.log_pooled
    return log_differences(*(read(side, fraction) for side in sides))


def log_capacities(trials: Sequence[Trial], arm: str) -> Logs:
    """ln(highest rate that met the objective), by block; without searches that never met it."""
    return {trial.block: math.log(rate) for trial, rate in _searches(trials, arm)}


def _searches(trials: Sequence[Trial], arm: str) -> Iterator[tuple[Trial, int]]:
    for trial in trials:
        if trial.kind is TrialKind.CAPACITY and trial.arms == (arm,) and trial.is_valid:
            rate = trial.capacity.rate_rps if trial.capacity is not None else None
            if rate:
                yield trial, rate


def log_capacity_ratios(trials: Sequence[Trial], arm: str, against: str) -> Logs:
    """ln(capacity of `arm` / capacity of `against`), by block."""
    return log_differences(log_capacities(trials, arm), log_capacities(trials, against))


KINDS = {
    Method.TIME_SLICED: TrialKind.TIME_SLICED,
    Method.PAIRED: TrialKind.PAIRED,
    Method.SINGLE: TrialKind.CLOSED_LOOP,
}


def block_costs(run: Run, trials: Sequence[Trial]) -> dict[tuple[Load, str], list[float]]:
    """CPU nanoseconds per request, block by block, by load and arm.

    A paired trial of the reference is one of several in its block: all of them count.
    """
    evidence = ComparisonInput(run, valid_trials(trials), {}, loads_of(run, tuple(trials)))
    return {
        (load, arm.name): values
        for load in evidence.loads
        for arm in run.arms
        if (
            values := [
                math.exp(log)
                for trial in evidence.at(load).with_arm(KINDS[run.method], arm.name)
                if (log := log_cost(trial, arm.name)) is not None
            ]
        )
    }


def search_resolution(trials: Sequence[Trial], arm: str, against: str) -> float:
    """By how much ln(capacity ratio) may be off because searches move in steps.

    A search ends between a rate that met the objective and a higher one that did not, and says the
    lower one: it is off by half of their distance on either side of what it says on average. It
    starts at a random place within a step, so that errors of blocks are independent and are a part
    of their spread as well.
    """
    return max(search_step(trials, name) for name in (arm, against)) / 2


def search_step(trials: Sequence[Trial], arm: str) -> float:
    """The mean ln(distance) between the two rates at which each search of an arm ended."""
    gaps = [math.log(_next_rate(trial, rate) / rate) for trial, rate in _searches(trials, arm)]
    return sum(gaps) / len(gaps) if gaps else math.log(SEARCH_STEP)


def _next_rate(trial: Trial, rate: int) -> float:
    """The lowest rate above a search's result that did not meet the objective."""
    steps = trial.capacity.steps if trial.capacity is not None else ()
    above = [step.rate_rps for step in steps if not step.is_met and step.rate_rps > rate]
    return min(above, default=SEARCH_STEP * rate)
