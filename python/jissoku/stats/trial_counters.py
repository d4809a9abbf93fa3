"""Counters that trials provide themselves; system calls are counted on separate starts."""

import statistics
from collections.abc import Sequence

from jissoku.model import ArmMeasurement, Trial, TrialKind
from jissoku.stats.valid_trials import measurement_of, valid_trials

# Cores that the target's processes kept busy.
CORES = "cores"

# How often a second its threads changed cores.
MIGRATIONS = "migrations"

# Microseconds of its CPU time outside the kernel, per request.
USER_US = "user_us"

ALL = frozenset({CORES, MIGRATIONS, USER_US})


def of(trials: Sequence[Trial], kind: TrialKind, arm: str) -> dict[str, float]:
    """Medians over the valid trials of one kind; unavailable counters are omitted."""
    found: dict[str, list[float]] = {name: [] for name in ALL}
    for trial in valid_trials(trials).with_arm(kind, arm):
        measurement = measurement_of(trial, arm)
        if measurement is not None:
            for name, value in _of(measurement).items():
                found[name].append(value)
    return {name: statistics.median(values) for name, values in found.items() if values}


def _of(measurement: ArmMeasurement) -> dict[str, float]:
    found = {}
    if measurement.cpu_ns is not None:
        found[CORES] = measurement.cpu_ns / measurement.duration_ns
        if measurement.cpu_user_fraction is not None and measurement.requests:
            found[USER_US] = (
                measurement.cpu_ns * measurement.cpu_user_fraction / measurement.requests / 1e3
            )
    if measurement.migrations_per_second is not None:
        found[MIGRATIONS] = measurement.migrations_per_second
    return found
