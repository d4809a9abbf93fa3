"""Is the run as a whole to be believed?"""

from collections.abc import Mapping, Sequence

from scipy import stats  # type: ignore[import-untyped]

from jissoku.model import Consequence, Kind, Trial

REJECTED_MAX = 0.20
ALPHA = 0.05


def is_rejected(trial: Trial) -> bool:
    """Whether the machine spoilt the trial."""
    return trial.failure is None and any(
        gate.consequence is Consequence.REJECT for gate in trial.gates
    )


def too_noisy(trials: Sequence[Trial]) -> str:
    """Why no verdict can be had from the duets of this run; empty when it can."""
    ended = [trial for trial in trials if trial.kind is Kind.DUET and trial.failure is None]
    rejected = sum(map(is_rejected, ended))
    if rejected <= REJECTED_MAX * len(ended):
        return ""
    return (
        f"the machine disturbed {rejected} of {len(ended)} duets, and above"
        f" {100 * REJECTED_MAX:.0f} % a run decides nothing"
    )


def unevenly_rejected(trials: Sequence[Trial], arms: Sequence[str]) -> Mapping[str, str]:
    """Arms whose duets were rejected more or less often than the others', each with the counts.

    Rejection must be blind: an arm that provokes it would be measured in its best moments only.
    Each arm is held against the rest by Fisher's exact test, with their number taken into account.
    Arms that take part in every duet have no rest.
    """
    ended = [trial for trial in trials if trial.kind is Kind.DUET and trial.failure is None]
    found = {}
    for arm in arms:
        ours = [is_rejected(trial) for trial in ended if arm in trial.arms]
        rest = [is_rejected(trial) for trial in ended if arm not in trial.arms]
        if not ours or not rest:
            continue
        table = [[sum(ours), len(ours) - sum(ours)], [sum(rest), len(rest) - sum(rest)]]
        if float(stats.fisher_exact(table).pvalue) < ALPHA / len(arms):
            found[arm] = (
                f"{sum(ours)} of {len(ours)} of its duets were rejected, of the others'"
                f" {sum(rest)} of {len(rest)}: rejection is not blind here"
            )
    return found
