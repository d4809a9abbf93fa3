"""Which comparisons of CPU time a cross-check contradicts, while a run can still measure more."""

from collections.abc import Sequence

from jissoku.model import Comparison, Run, Trial
from jissoku.stats.compare import compare_cost, pairs
from jissoku.stats.comparison_input import ComparisonInput, loads_of
from jissoku.stats.valid_trials import valid_trials


def contradicted(run: Run, trials: Sequence[Trial]) -> tuple[Comparison, ...]:
    """The comparisons of a run with a cross-check that does not agree, by its trials so far."""
    loads = loads_of(run, tuple(trials))
    evidence = ComparisonInput(run, valid_trials(trials), {}, loads)
    asked = [(*pair, load) for load in loads for pair in pairs(run)]
    found = (compare_cost(evidence, *one, len(asked)) for one in asked)
    return tuple(
        one for one in found if one and not all(check.agrees for check in one.cross_checks)
    )
