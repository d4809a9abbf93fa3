"""Pure functions from a run and its trials to estimates and verdicts."""

from jissoku.stats.compare import pairs
from jissoku.stats.neighbours import neighbours
from jissoku.stats.run_checks import is_rejected
from jissoku.stats.sequential import compute_looks
from jissoku.stats.stopping import cost_verdicts, half_widths, is_enough, lacks_calm
from jissoku.stats.summary import contradicted, of_unfinished, summarise
from jissoku.stats.sweep import summarise as summarise_sweep
from jissoku.stats.trial_checks import busy_arms, trial_checks
from jissoku.stats.verdict import minimum_effect_of

__all__ = [
    "busy_arms",
    "compute_looks",
    "contradicted",
    "cost_verdicts",
    "half_widths",
    "is_enough",
    "is_rejected",
    "lacks_calm",
    "minimum_effect_of",
    "neighbours",
    "of_unfinished",
    "pairs",
    "summarise",
    "summarise_sweep",
    "trial_checks",
]
