"""The trials a pair's ratio comes from at one load: time-sliced, paired, single-target."""

from collections.abc import Mapping
from dataclasses import dataclass

from jissoku.model import EvidenceSource, Trial, TrialKind
from jissoku.stats.valid_trials import ValidTrials, log_cost, log_differences, log_ratios

# Trials of these kinds have both arms in them: machine drift falls on both.
PAIRED_KINDS = {
    EvidenceSource.TIME_SLICED: TrialKind.TIME_SLICED,
    EvidenceSource.PAIRED: TrialKind.PAIRED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RatioSamples:
    """Log ratios of one pair at one load, by block, and where they were taken from."""

    logs: Mapping[int, float]
    source: EvidenceSource
    connections: int = 0


def select_ratio_source(readings: ValidTrials, arm: str, against: str) -> RatioSamples:
    """The first source that has any blocks: time-sliced, paired, two paired, single-target.

    A run has one method, so there is no choice between sources; nothing is mixed within a pair.

    Args:
        readings: Of one load only.
    """
    for source, kind in PAIRED_KINDS.items():
        trials = readings.paired(kind, arm, against)
        logs = log_ratios(trials, arm, against)
        if logs:
            return _ratio_samples(logs, source, trials)
    return _two_paired(readings, arm, against) or fixed_rate_ratios(readings, arm, against)


def _two_paired(readings: ValidTrials, arm: str, against: str) -> RatioSamples | None:
    """Each arm against the same third one, in two paired trials of a block; their errors add up.

    Paired trials are of like arms only, so that their effect on an arm cancels here, too. The third
    arm is the one with most blocks; of several the first by name.
    """
    found: list[RatioSamples] = []
    for third in sorted({one for trial in readings.trials for one in trial.arms}):
        ours = readings.of(TrialKind.PAIRED, arm, third)
        theirs = readings.of(TrialKind.PAIRED, against, third)
        logs = log_differences(log_ratios(ours, arm, third), log_ratios(theirs, against, third))
        if logs:
            found.append(_ratio_samples(logs, EvidenceSource.TWO_PAIRED, ours))
    return max(found, key=lambda one: len(one.logs)) if found else None


def fixed_rate_ratios(readings: ValidTrials, arm: str, against: str) -> RatioSamples:
    """Each arm alone at this load, paired by block; at full load in the closed loop."""
    kind = TrialKind.FIXED_RATE if readings.of(TrialKind.FIXED_RATE, arm) else TrialKind.CLOSED_LOOP
    ours, theirs = readings.of(kind, arm), readings.of(kind, against)
    logs = log_differences(
        {block: log_cost(trial, arm) for block, trial in ours.items()},
        {block: log_cost(trial, against) for block, trial in theirs.items()},
    )
    return _ratio_samples(logs, EvidenceSource.SINGLE, ours)


def _ratio_samples(
    logs: Mapping[int, float], source: EvidenceSource, trials: Mapping[int, Trial]
) -> RatioSamples:
    first = next((trials[block] for block in logs), None)
    return RatioSamples(
        logs=logs, source=source, connections=first.workload.connections if first else 0
    )
