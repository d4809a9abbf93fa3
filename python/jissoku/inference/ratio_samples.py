"""The trials a pair's ratio comes from at one load: time-sliced, paired, single-target."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from jissoku.inference.calm import calm_rotations, has_waits
from jissoku.inference.looks import Looks
from jissoku.inference.valid_trials import ValidTrials, log_cost, log_differences, log_ratios
from jissoku.model import EvidenceSource, Trial, TrialKind
from jissoku.model.updated import updated

# Trials of these kinds have both arms in them: machine drift falls on both.
PAIRED_KINDS = {
    EvidenceSource.TIME_SLICED: TrialKind.TIME_SLICED,
    EvidenceSource.PAIRED: TrialKind.PAIRED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RatioSamples:
    """Log ratios of one pair at one load, by block, and where they were taken from.

    Attributes:
        is_calm: Whether they are of calm rotations alone (`calm.py`).
        others: The log ratios that were not chosen: of all rotations if these are of the calm ones,
            and the other way round.
        calm_fraction: The part of all rotations that was calm; None where that is unknown.
        looks: When they may be looked at.
    """

    logs: Mapping[int, float]
    source: EvidenceSource
    connections: int = 0
    is_calm: bool = False
    others: Mapping[int, float] = field(default_factory=dict)
    calm_fraction: float | None = None
    looks: Looks = field(default_factory=Looks)


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


def choose_rotations(
    readings: ValidTrials, calm: ValidTrials, pair: tuple[str, str], looks: Looks
) -> RatioSamples:
    """A pair's log ratios, from calm rotations alone if enough blocks for a verdict have them.

    The choice is by the waiting, before any ratio is seen, and every verdict is decided by the one
    or by the other. In a run that is looked at after every block, calm rotations may become enough
    after looks at all rotations: unless all first blocks are calm, both may be looked at, and each
    has half of the error.

    Args:
        readings: Of one load only.
        calm: Their calm rotations.
    """
    whole = updated(select_ratio_source(readings, *pair), looks=looks)
    trials = readings.paired(TrialKind.TIME_SLICED, *pair)
    if whole.source is not EvidenceSource.TIME_SLICED or not any(map(has_waits, trials.values())):
        return whole
    kept = log_ratios(calm.paired(TrialKind.TIME_SLICED, *pair), *pair)
    every = [is_calm for trial in trials.values() for is_calm in calm_rotations(trial)]
    found = updated(whole, others=kept, calm_fraction=sum(every) / len(every))
    first = sorted(whole.logs)[: looks.first]
    if looks.horizon and not set(first) <= kept.keys():
        found = updated(found, looks=updated(looks, estimates=2))
    if len(kept) < looks.first:
        return found
    return updated(found, logs=kept, others=whole.logs, is_calm=True)


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
