"""The valid trials of a run, by kind, load and arm: the input of every estimate."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from jissoku.inference.calm import calm_part
from jissoku.model import ArmMeasurement, Load, Trial, TrialKind


@dataclass(frozen=True, slots=True)
class ValidTrials:
    """Trials in which at least one arm counts, in the order in which they ran.

    A block has one counted trial of each kind, arms, load and turn; where a record holds more, the
    first one is used.
    """

    trials: tuple[Trial, ...]

    def only(self, wanted: Callable[[Trial], bool]) -> "ValidTrials":
        """The trials for which `wanted` is true."""
        return ValidTrials(tuple(trial for trial in self.trials if wanted(trial)))

    def at(self, load: Load) -> "ValidTrials":
        return self.only(lambda trial: trial.load_rps == load.rate_rps)

    def calm(self) -> "ValidTrials":
        """The calm rotations of those time-sliced trials that have enough of them."""
        sliced = [trial for trial in self.trials if trial.kind is TrialKind.TIME_SLICED]
        return ValidTrials(tuple(part for trial in sliced if (part := calm_part(trial))))

    def with_slice_length(self, turn_ns: int | None) -> "ValidTrials":
        """Without time-sliced trials of another slice length."""
        return self.only(
            lambda trial: trial.kind is not TrialKind.TIME_SLICED or trial.slice_ns == turn_ns
        )

    def of(self, kind: TrialKind, *arms: str) -> Mapping[int, Trial]:
        """Valid trials of exactly these arms, by block."""
        return self._by_block(kind, lambda trial: set(trial.arms) == set(arms), arms)

    def paired(self, kind: TrialKind, *arms: str) -> Mapping[int, Trial]:
        """Valid trials that include all of these arms, by block."""
        return self._by_block(kind, lambda trial: set(arms) <= set(trial.arms), arms)

    def with_arm(self, kind: TrialKind, arm: str) -> list[Trial]:
        """All valid trials that include `arm`, in the order of their blocks."""
        found = [t for t in self.trials if t.kind is kind and arm in t.arms and t.is_valid_for(arm)]
        return sorted(found, key=lambda trial: (trial.block, trial.index))

    def _by_block(
        self, kind: TrialKind, wanted: Callable[[Trial], bool], arms: Iterable[str]
    ) -> Mapping[int, Trial]:
        found: dict[int, Trial] = {}
        for trial in self.trials:
            if trial.kind is kind and wanted(trial) and all(map(trial.is_valid_for, arms)):
                found.setdefault(trial.block, trial)
        return found


def valid_trials(trials: Iterable[Trial]) -> ValidTrials:
    """The valid trials; failed and rejected trials give no values."""
    ordered = sorted(trials, key=lambda trial: trial.index)
    return ValidTrials(tuple(t for t in ordered if any(map(t.is_valid_for, t.arms))))


def measurement_of(trial: Trial, arm: str) -> ArmMeasurement | None:
    return next((measurement for measurement in trial.measurements if measurement.arm == arm), None)


def log_cost(trial: Trial, arm: str) -> float | None:
    """ln(CPU nanoseconds per request); None if the CPU time is unknown.

    In a time-sliced trial the target's total CPU time counts, with that used while other arms were
    under load, except CPU time that depends on time and not on requests
    (ArmMeasurement.housekeeping_cpu_ns): alone it would have had that time for requests.
    """
    measurement = measurement_of(trial, arm)
    if measurement is None or not measurement.cpu_ns or measurement.requests == 0:
        return None
    return math.log((measurement.cpu_ns - measurement.housekeeping_cpu_ns) / measurement.requests)


def log_total_cpu(trial: Trial, arm: str) -> float | None:
    """ln(CPU nanoseconds per request of target, load generator and kernel threads).

    None in a trial of two arms, because kernel threads cannot be attributed to one, if the load
    generator busy-polls, and if one of the three is unavailable.
    """
    measurement, seen = measurement_of(trial, arm), trial.conditions
    if (
        measurement is None
        or seen is None
        or len(trial.measurements) > 1
        or seen.generator_busy_polls
        or not measurement.requests
    ):
        return None
    if measurement.cpu_ns is None or seen.generator_cpu_cores is None or seen.kernel_cpu_ns is None:
        return None
    together_ns = (
        measurement.cpu_ns + seen.generator_cpu_cores * measurement.duration_ns + seen.kernel_cpu_ns
    )
    return math.log(together_ns / measurement.requests) if together_ns else None


def log_ratios(trials: Mapping[int, Trial], arm: str, against: str) -> dict[int, float]:
    """ln(cost of `arm` / cost of `against`) of each trial with both costs, by block."""
    return log_differences(
        {block: log_cost(trial, arm) for block, trial in trials.items()},
        {block: log_cost(trial, against) for block, trial in trials.items()},
    )


def log_differences(
    ours: Mapping[int, float | None], theirs: Mapping[int, float | None]
) -> dict[int, float]:
    """Differences block by block; blocks that are missing on either side are skipped."""
    found = {}
    for block in sorted(ours):
        mine, other = ours[block], theirs.get(block)
        if mine is not None and other is not None:
            found[block] = mine - other
    return found
