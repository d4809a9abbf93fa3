"""Pure functions from a run and its trials to estimates and verdicts."""

from jissoku.inference.blocks import neighbours
from jissoku.inference.checks import busy_arms, is_rejected, trial_checks
from jissoku.inference.compare import (
    contradicted,
    cost_verdicts,
    half_widths,
    lacks_calm,
    pairs,
    ranked_arms,
)
from jissoku.inference.decision import minimum_effect_of
from jissoku.inference.estimate import compute_looks
from jissoku.inference.reach import unreached
from jissoku.inference.summary import of_unfinished, summarise
from jissoku.inference.sweep import of_unfinished_sweep, summarise as summarise_sweep

__all__ = [
    "busy_arms",
    "compute_looks",
    "contradicted",
    "cost_verdicts",
    "half_widths",
    "is_rejected",
    "lacks_calm",
    "minimum_effect_of",
    "neighbours",
    "of_unfinished",
    "of_unfinished_sweep",
    "pairs",
    "ranked_arms",
    "summarise",
    "summarise_sweep",
    "trial_checks",
    "unreached",
]
