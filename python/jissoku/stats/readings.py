"""The trials that count, by what they are for: where every estimate takes its numbers from."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from jissoku.model import Kind, Lane, Trial


@dataclass(frozen=True, slots=True)
class Readings:
    """Counted trials by kind and arms, then by block.

    A block has one counted trial of each sort; where a record holds more, the first one stands, so
    that nobody chooses.
    """

    by_arms: Mapping[tuple[Kind, frozenset[str]], Mapping[int, Trial]]

    def of(self, kind: Kind, *arms: str) -> Mapping[int, Trial]:
        """Counted trials of exactly these arms, by block."""
        return self.by_arms.get((kind, frozenset(arms)), {})

    def with_arm(self, kind: Kind, arm: str) -> list[Trial]:
        """All counted trials in which `arm` took part, in the order of their blocks."""
        found = [
            trial
            for (one, arms), trials in self.by_arms.items()
            if one is kind and arm in arms
            for trial in trials.values()
        ]
        return sorted(found, key=lambda trial: (trial.block, trial.index))


def readings(trials: Iterable[Trial]) -> Readings:
    """Sorts the trials that count; what failed or was gated out gives no number at all."""
    found: dict[tuple[Kind, frozenset[str]], dict[int, Trial]] = {}
    for trial in sorted(trials, key=lambda trial: trial.index):
        if trial.counts:
            found.setdefault((trial.kind, frozenset(trial.arms)), {}).setdefault(trial.block, trial)
    return Readings(found)


def lane_of(trial: Trial, arm: str) -> Lane | None:
    """The arm's part in a trial."""
    return next((lane for lane in trial.lanes if lane.arm == arm), None)


def log_cost(trial: Trial, arm: str) -> float | None:
    """ln(CPU nanoseconds per request); None where the CPU time could not be seen."""
    lane = lane_of(trial, arm)
    if lane is None or not lane.cpu_ns or lane.requests == 0:
        return None
    return math.log(lane.cpu_ns / lane.requests)


def log_together(trial: Trial, arm: str) -> float | None:
    """ln(CPU nanoseconds per request of target, stopwatch and kernel threads).

    None in a trial of two arms, of which nobody knows who kept the kernel's threads busy, where the
    stopwatch spins, and where one of the three could not be seen.
    """
    lane, seen = lane_of(trial, arm), trial.conditions
    if lane is None or seen is None or len(trial.lanes) > 1 or seen.spins or not lane.requests:
        return None
    if lane.cpu_ns is None or seen.generator_cores is None or seen.kernel_cpu_ns is None:
        return None
    together_ns = lane.cpu_ns + seen.generator_cores * lane.duration_ns + seen.kernel_cpu_ns
    return math.log(together_ns / lane.requests) if together_ns else None


def log_ratios(trials: Mapping[int, Trial], arm: str, against: str) -> dict[int, float]:
    """ln(cost of `arm` / cost of `against`) of each duet in which both were seen, by block."""
    return differences(
        {block: log_cost(trial, arm) for block, trial in trials.items()},
        {block: log_cost(trial, against) for block, trial in trials.items()},
    )


def differences(
    ours: Mapping[int, float | None], theirs: Mapping[int, float | None]
) -> dict[int, float]:
    """Block by block; blocks that either side lacks are left out."""
    found = {}
    for block in sorted(ours):
        mine, other = ours[block], theirs.get(block)
        if mine is not None and other is not None:
            found[block] = mine - other
    return found


def rates_of(trials: Iterable[Trial]) -> tuple[int | None, ...]:
    """The different rates at which trials ran, None for the closed loop, most frequent first."""
    counts = Counter(trial.workload.rate_rps for trial in trials)
    return tuple(sorted(counts, key=lambda rate: (-counts[rate], -(rate or 0))))
