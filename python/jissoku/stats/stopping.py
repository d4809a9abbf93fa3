"""The stopping rule: it depends on the width of intervals, never on significance."""

from collections.abc import Sequence

from jissoku.model import EvidenceSource, Load, LoadLevel, Method, Run, Trial
from jissoku.stats import estimate
from jissoku.stats.compare import pairs
from jissoku.stats.comparison_input import ComparisonInput, loads_of
from jissoku.stats.ratio_samples import select_ratio_source
from jissoku.stats.run_checks import is_rejected
from jissoku.stats.valid_trials import valid_trials

# Sources with both arms in one trial; a pair from two paired trials is as precise as these two.
MET = {EvidenceSource.TIME_SLICED, EvidenceSource.PAIRED}


def half_widths(run: Run, trials: Sequence[Trial]) -> dict[tuple[str, str, Load], float]:
    """The 95 % half-width of each pair's cost ratio at each load, as a natural logarithm.

    Without pairs that have fewer than two valid blocks, and in a paired run without pairs that have
    no common trial.
    """
    loads = loads_of(run, tuple(trials))
    evidence = ComparisonInput(run, valid_trials(trials), {}, loads)
    found = {}
    for load in loads:
        known = evidence.at(load)
        for arm, against in pairs(run):
            pair = select_ratio_source(known, arm, against)
            has_met = pair.source in MET or run.method is Method.SINGLE
            if len(pair.logs) >= 2 and has_met:
                interval = estimate.t_interval(list(pair.logs.values()))
                found[arm, against, load] = (interval.high - interval.low) / 2
    return found


def is_enough(run: Run, trials: Sequence[Trial], half_width_max: float) -> bool:
    """Whether every pair has the required precision, or more blocks would give none an interval.

    Without any interval nothing is known of the precision. If that is because the machine disturbed
    the trials with both arms, further blocks may give one, and it is not enough; whether so much is
    disturbed that the run has to end is decided by `run_checks.too_noisy`.

    The light load is ignored if there are others: most of the cost of a request there is waking up,
    which varies by a tenth from block to block.

    Check only at the numbers of blocks of the mode (10, 15, 20, ...): a check after every block
    reduces the coverage of the interval (0.916 instead of 0.93-0.95, simulated).
    """
    found = half_widths(run, trials)
    if not found:
        return not any(trial.kind.is_paired and is_rejected(trial) for trial in trials)
    asked = {key: width for key, width in found.items() if key[2].level is not LoadLevel.LIGHT}
    return max((asked or found).values()) <= half_width_max
