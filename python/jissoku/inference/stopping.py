"""When a run has measured enough: by the width of its intervals, or by what is decided."""

import math
from collections.abc import Mapping, Sequence

from jissoku.inference.compare import compare_costs
from jissoku.inference.run_checks import is_rejected
from jissoku.inference.summary import comparison_input
from jissoku.model import (
    Comparison,
    Condition,
    EvidenceSource,
    Load,
    LoadLevel,
    Method,
    Metric,
    Run,
    Trial,
)

# Sources with both arms in one trial; a pair from two paired trials is as precise as these two.
JOINT_SOURCES = {EvidenceSource.TIME_SLICED, EvidenceSource.PAIRED}

# One pair at one load: (candidate, the arm that it is compared with, load).
Question = tuple[str, str, Load]


def half_widths(run: Run, trials: Sequence[Trial]) -> dict[Question, float]:
    """The 95 % half-width of each pair's cost ratio at each load, as a natural logarithm.

    Without arms that have no verdict, pairs that have fewer valid blocks than an interval needs,
    and in a paired run pairs that have no common trial.
    """
    return {
        pair: math.log(one.ratio.high / one.ratio.low) / 2
        for pair, one in cost_verdicts(run, trials).items()
        if one.ratio and (one.source in JOINT_SOURCES or run.method is Method.SINGLE)
    }


def is_enough(run: Run, trials: Sequence[Trial], half_width_max: float) -> bool:
    """Whether every pair has the required precision, or more blocks would give none an interval.

    Without any interval nothing is known of the precision. If that is because trials with both arms
    were rejected, further blocks may give one, and it is not enough.

    The light load is ignored if there are others: most of the cost of a request there is waking up,
    which varies by a tenth from block to block.

    In a run that is looked at once, check only at the numbers of blocks of the mode (10, 15, 20,
    ...): a check after every block reduces the coverage of the interval (0.916 instead of
    0.93-0.95, simulated).
    """
    found = half_widths(run, trials)
    if not found:
        return not any(trial.kind.is_paired and is_rejected(trial) for trial in trials)
    asked = {key: width for key, width in found.items() if key[2].level is not LoadLevel.LIGHT}
    return max((asked or found).values()) <= half_width_max


def lacks_calm(found: Comparison) -> bool:
    """Whether a ratio is one beside other programs, and more blocks may have enough calm rotations.

    It asks for the waiting alone, like the choice between the two.
    """
    beside = found.condition is not Condition.QUIET
    return beside and not found.is_calm and bool(found.calm_fraction)


def cost_verdicts(run: Run, trials: Sequence[Trial]) -> Mapping[Question, Comparison]:
    """The comparisons by cost of a run so far, of those pairs and loads that have any."""
    settled = compare_costs(comparison_input(run, trials))
    return {(one.arm, one.against, one.load): one for one in settled if one.metric is Metric.COST}
