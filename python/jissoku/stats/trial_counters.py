"""Counters that trials give by themselves; system calls are counted in starts of their own."""

import statistics
from collections.abc import Sequence

from jissoku.model import Kind, Lane, Trial
from jissoku.stats.readings import lane_of, readings

# Cores that the target's processes kept busy.
CORES = "cores"

# How often a second its threads changed cores.
MIGRATIONS = "migrations"

# Microseconds of its CPU time outside the kernel, per request.
USER_US = "user_us"

ALL = frozenset({CORES, MIGRATIONS, USER_US})


def of(trials: Sequence[Trial], kind: Kind, arm: str) -> dict[str, float]:
    """Medians over the trials of one kind that count; what nobody could see is not among them."""
    found: dict[str, list[float]] = {name: [] for name in ALL}
    for trial in readings(trials).with_arm(kind, arm):
        lane = lane_of(trial, arm)
        if lane is not None:
            for name, value in _of(lane).items():
                found[name].append(value)
    return {name: statistics.median(values) for name, values in found.items() if values}


def _of(lane: Lane) -> dict[str, float]:
    found = {}
    if lane.cpu_ns is not None:
        found[CORES] = lane.cpu_ns / lane.duration_ns
        if lane.cpu_user_fraction is not None and lane.requests:
            found[USER_US] = lane.cpu_ns * lane.cpu_user_fraction / lane.requests / 1e3
    if lane.migrations_per_second is not None:
        found[MIGRATIONS] = lane.migrations_per_second
    return found
