"""CPU time per request of each block, for tools that do statistics of their own."""

import math
from collections.abc import Sequence

from jissoku.model import Load, Method, Run, Trial, TrialKind
from jissoku.stats.comparison_input import ComparisonInput, loads_of
from jissoku.stats.valid_trials import log_cost, valid_trials

KINDS = {
    Method.TIME_SLICED: TrialKind.TIME_SLICED,
    Method.PAIRED: TrialKind.PAIRED,
    Method.SINGLE: TrialKind.CLOSED_LOOP,
}


def block_costs(run: Run, trials: Sequence[Trial]) -> dict[tuple[Load, str], list[float]]:
    """CPU nanoseconds per request, block by block, by load and arm.

    A paired trial of the reference is one of several in its block: all of them count.
    """
    evidence = ComparisonInput(run, valid_trials(trials), {}, loads_of(run, tuple(trials)))
    return {
        (load, arm.name): values
        for load in evidence.loads
        for arm in run.arms
        if (
            values := [
                math.exp(log)
                for trial in evidence.at(load).with_arm(KINDS[run.method], arm.name)
                if (log := log_cost(trial, arm.name)) is not None
            ]
        )
    }
