"""Pure functions from a run and its trials to estimates and verdicts."""

from jissoku.inference.blocks import neighbours as neighbours
from jissoku.inference.checks import (
    busy_arms as busy_arms,
    is_rejected as is_rejected,
    trial_checks as trial_checks,
)
from jissoku.inference.compare import (
    contradicted as contradicted,
    cost_verdicts as cost_verdicts,
    half_widths as half_widths,
    lacks_calm as lacks_calm,
    pairs as pairs,
    ranked_arms as ranked_arms,
)
from jissoku.inference.decision import minimum_effect_of as minimum_effect_of
from jissoku.inference.estimate import compute_looks as compute_looks
from jissoku.inference.path import mostly_path as mostly_path
from jissoku.inference.reach import unreached as unreached
from jissoku.inference.summary import summarise as summarise
from jissoku.inference.sweep import summarise_sweep as summarise_sweep
