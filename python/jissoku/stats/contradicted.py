"""Which comparisons of CPU time a cross-check contradicts, while a run can still measure more."""

from collections.abc import Sequence

from jissoku.model import Comparison, Run, Trial
from jissoku.stats.compare import compare_cost, pairs
from jissoku.stats.summary import comparison_input


def contradicted(run: Run, trials: Sequence[Trial]) -> tuple[Comparison, ...]:
    """The comparisons of a run with a cross-check that does not agree, by its trials so far."""
    evidence = comparison_input(run, trials)
    asked = [(*pair, load) for load in evidence.loads for pair in pairs(run)]
    decided = (compare_cost(evidence, *one, len(asked)) for one in asked)
    return tuple(
        one.found
        for one in decided
        if one and not all(check.agrees for check in one.found.cross_checks)
    )
