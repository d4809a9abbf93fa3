"""Checks of a run as a whole."""

from collections.abc import Mapping, Sequence

import numpy as np
from scipy import stats  # type: ignore[import-untyped]

from jissoku.model import CheckOutcome, Trial
from jissoku.model.wording import plural

ALPHA = 0.05


def is_rejected(trial: Trial) -> bool:
    """Whether the trial was spoilt by something other than its targets."""
    return trial.failure is None and any(
        check.outcome is CheckOutcome.REJECT for check in trial.failed_checks
    )


def uneven_rejection(trials: Sequence[Trial], arms: Sequence[str]) -> Mapping[str, str]:
    """Arms whose trials were rejected more or less often than the others', each with the counts.

    Rejection must be blind: an arm that provokes it would be measured in its best moments only.
    Each arm is held against the rest, with their number taken into account, and only within trials
    of one kind and load: long windows are disturbed more often, and not every arm reaches every
    load. Arms that take part in every trial have no rest.
    """
    ended = [trial for trial in trials if trial.kind.is_cost and trial.failure is None]
    strata: dict[object, list[Trial]] = {}
    for trial in ended:
        strata.setdefault((trial.kind, trial.load_rps, trial.window_ns), []).append(trial)
    found = {}
    for arm in arms:
        tables = [table for one in strata.values() if (table := _table(one, arm))]
        if tables and _p_value(tables) < ALPHA / len(arms):
            ours, of_ours, rest, of_rest = np.sum(tables, axis=0)
            found[arm] = (
                f"{ours} of {of_ours} of its trials of cost {plural(ours, 'was', 'were')}"
                " rejected, of the"
                " others'"
                f" {rest} of {of_rest}: rejection depends on the target"
            )
    return found


def _table(trials: Sequence[Trial], arm: str) -> tuple[int, int, int, int] | None:
    """(rejected, all) with the arm, and the same without it; None where that says nothing."""
    ours = [is_rejected(trial) for trial in trials if arm in trial.arms]
    rest = [is_rejected(trial) for trial in trials if arm not in trial.arms]
    rejected = sum(ours) + sum(rest)
    return (sum(ours), len(ours), sum(rest), len(rest)) if ours and rest and rejected else None


def _p_value(tables: Sequence[tuple[int, int, int, int]]) -> float:
    """Fisher's exact test over several tables: all margins are given, rejections are counted."""
    chances = np.ones(1)
    for ours, of_ours, rest, of_rest in tables:
        counts = np.arange(of_ours + 1)
        given = of_ours + of_rest, ours + rest, of_ours
        chances = np.convolve(chances, stats.hypergeom.pmf(counts, *given))
    seen = chances[sum(ours for ours, *_ in tables)]
    return float(chances[chances <= seen * (1 + 1e-7)].sum())
