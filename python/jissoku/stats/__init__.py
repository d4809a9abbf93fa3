"""What the records say: pure functions from a run and its trials to estimates and verdicts."""

from jissoku.stats.gate import gates
from jissoku.stats.precision import is_enough, widest_half_width
from jissoku.stats.summary import summarise
from jissoku.stats.sweep import summarise as summarise_sweep

__all__ = ["gates", "is_enough", "summarise", "summarise_sweep", "widest_half_width"]
