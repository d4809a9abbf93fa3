"""Pure functions from a run and its trials to estimates and verdicts."""

from jissoku.inference.compare import pairs
from jissoku.inference.neighbours import neighbours
from jissoku.inference.run_checks import is_rejected
from jissoku.inference.sequential import compute_looks
from jissoku.inference.stopping import cost_verdicts, half_widths, is_enough, lacks_calm
from jissoku.inference.summary import contradicted, of_unfinished, summarise
from jissoku.inference.sweep import summarise as summarise_sweep
from jissoku.inference.trial_checks import busy_arms, trial_checks
from jissoku.inference.verdict import minimum_effect_of

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
