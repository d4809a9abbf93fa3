"""When is it enough? By the interval's width, never by significance."""

from collections.abc import Sequence

from jissoku.model import Run, Trial
from jissoku.stats import estimate
from jissoku.stats.compare import pairs
from jissoku.stats.pairing import pairing
from jissoku.stats.readings import readings


def widest_half_width(run: Run, trials: Sequence[Trial]) -> float | None:
    """The largest 95 % half-width among the run's pairs, as a natural logarithm.

    A campaign ends when this is at most its mode's limit. Pairs without two counted blocks are
    left out: more blocks do not mend an arm that fails. Allowances are left out too, since more
    blocks do not narrow them.

    Returns:
        None when no pair has an interval.
    """
    known = readings(trials)
    widths = []
    for arm, against in pairs(run):
        logs = list(pairing(known, arm, against, run.reference).logs.values())
        if len(logs) >= 2:
            interval = estimate.t_interval(logs)
            widths.append((interval.high - interval.low) / 2)
    return max(widths, default=None)


def is_enough(run: Run, trials: Sequence[Trial], half_width_max: float) -> bool:
    """Whether every pair is as precise as asked, or no pair can become so.

    Ask only at the looks that the mode allows (10, 15, 20, ... blocks): looking after every block
    costs the interval its coverage (0.916 instead of 0.93-0.95, simulated).
    """
    widest = widest_half_width(run, trials)
    return widest is None or widest <= half_width_max
