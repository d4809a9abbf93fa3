"""The data of every comparison: one logarithm per block, by metric."""

import math
from collections.abc import Mapping, Sequence

from jissoku.model import ArmMeasurement, Metric, Trial, TrialKind
from jissoku.stats import latency
from jissoku.stats.valid_trials import ValidTrials, log_differences, measurement_of

Logs = Mapping[int, float]

FRACTIONS = {Metric.P50: 0.50, Metric.P99: 0.99}


def latency_measurements(known: ValidTrials, arm: str) -> dict[int, ArmMeasurement]:
    """The trials with an arm's latency at one load, by block: time-sliced, or else single-target.

    Paired trials have none: each request of one arm waits for the other's.
    """
    for kind in (TrialKind.TIME_SLICED, TrialKind.FIXED_RATE):
        found = {
            trial.block: measurement
            for trial in known.with_arm(kind, arm)
            if (measurement := measurement_of(trial, arm)) is not None and measurement.requests
        }
        if found:
            return found
    return {}


def log_latency_ratios(known: ValidTrials, metric: Metric, arm: str, against: str) -> Logs:
    """ln(percentile of `arm` / percentile of `against`), by block; empty without enough answers.

    Both arms' percentiles are taken in the same way: block by block where each supports them, else
    over all answers (`latency.log_pooled`).
    """
    fraction = FRACTIONS[metric]
    ours, theirs = latency_measurements(known, arm), latency_measurements(known, against)
    shared = ours.keys() & theirs.keys()
    sides = [{block: side[block] for block in shared} for side in (ours, theirs)]
    measurements = [measurement for side in sides for measurement in side.values()]
    is_whole = all(
        latency.is_supported(fraction, measurement.requests) for measurement in measurements
    )
    read = latency.log_per_block if is_whole else latency.log_pooled
    return log_differences(*(read(side, fraction) for side in sides))


def log_capacities(trials: Sequence[Trial], arm: str) -> Logs:
    """ln(highest rate that met the objective), by block; without searches that never met it."""
    return {
        trial.block: math.log(trial.capacity.rate_rps)
        for trial in trials
        if trial.kind is TrialKind.CAPACITY
        and trial.arms == (arm,)
        and trial.is_valid
        and trial.capacity is not None
        and trial.capacity.rate_rps
    }


def log_capacity_ratios(trials: Sequence[Trial], arm: str, against: str) -> Logs:
    """ln(capacity of `arm` / capacity of `against`), by block."""
    return log_differences(log_capacities(trials, arm), log_capacities(trials, against))
