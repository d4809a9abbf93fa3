"""Cross-checks of a ratio: another slice length, single-target trials, slices for paired ones."""

from collections.abc import Iterator, Mapping

from jissoku.model import Comparison, CrossCheck, CrossCheckName, EvidenceSource, TrialKind
from jissoku.stats import decision, estimate
from jissoku.stats.comparison_input import ComparisonInput
from jissoku.stats.ratio_samples import RatioSamples, fixed_rate_ratios
from jissoku.stats.valid_trials import ValidTrials, log_ratios


def cross_checks(
    evidence: ComparisonInput, found: Comparison, pair: RatioSamples, comparisons: int
) -> tuple[CrossCheck, ...]:
    """Every check that the run's records allow; none for arms that were measured alone.

    Args:
        comparisons: Of the run; a check is as strict as they ask.
    """
    if pair.source is EvidenceSource.SINGLE:
        return ()
    return tuple(
        CrossCheck(
            name=name,
            ratio=estimate.geometric_mean(list(logs.values())),
            agrees=decision.agrees(list(pair.logs.values()), list(logs.values()), comparisons),
        )
        for name, logs in _other_methods(evidence, found, pair.source)
        if logs
    )


def _other_methods(
    evidence: ComparisonInput, found: Comparison, source: EvidenceSource
) -> Iterator[tuple[CrossCheckName, Mapping[int, float]]]:
    run, readings = evidence.run, evidence.valid_trials.at(found.load)
    other = _sliced(readings.with_slice_length(run.check_slice_ns), found)
    if source is EvidenceSource.TIME_SLICED:
        yield CrossCheckName.OTHER_SLICE, other
    else:
        yield CrossCheckName.TIME_SLICED, _sliced(readings.with_slice_length(run.slice_ns), found)
    yield CrossCheckName.ALONE, fixed_rate_ratios(readings, found.arm, found.against).logs


def _sliced(readings: ValidTrials, found: Comparison) -> Mapping[int, float]:
    trials = readings.paired(TrialKind.TIME_SLICED, found.arm, found.against)
    return log_ratios(trials, found.arm, found.against)
