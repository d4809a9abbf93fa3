"""Cross-checks of a ratio: another slice length, single-target trials, slices for paired ones."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise

from jissoku.inference import decision, estimate
from jissoku.inference.comparison_input import ComparisonInput
from jissoku.inference.neighbours import is_quiet
from jissoku.inference.ratio_samples import PAIRED_KINDS, RatioSamples, fixed_rate_ratios
from jissoku.inference.valid_trials import ValidTrials, log_cost, log_ratios
from jissoku.model import Comparison, CrossCheck, CrossCheckName, EvidenceSource, Trial, TrialKind


def cross_checks(
    evidence: ComparisonInput, found: Comparison, pair: RatioSamples, comparisons: int
) -> tuple[CrossCheck, ...]:
    """Every check that the run's records allow; none for arms that were measured alone.

    A check beside other programs is a missing one: short, and of few blocks, it would show what the
    machine did in other moments.

    Args:
        comparisons: Of the run; a check is as strict as they ask.
    """
    if pair.source is EvidenceSource.SINGLE:
        return ()
    alone = _spread_alone(evidence, found, pair.source)
    return tuple(
        CrossCheck(
            name=name,
            ratio=estimate.geometric_mean(list(logs.values())),
            agrees=decision.agrees(
                list(pair.logs.values()),
                list(logs.values()),
                comparisons,
                alone if name is CrossCheckName.ALONE else None,
            ),
        )
        for name, logs in _other_methods(evidence, found, pair.source)
        if logs
    )


def _other_methods(
    evidence: ComparisonInput, found: Comparison, source: EvidenceSource
) -> Iterator[tuple[CrossCheckName, Mapping[int, float]]]:
    run, readings = evidence.run, evidence.valid_trials.at(found.load).only(is_quiet)
    other = _sliced(readings.with_slice_length(run.check_slice_ns), found)
    if source is EvidenceSource.TIME_SLICED:
        yield CrossCheckName.OTHER_SLICE, other
    else:
        yield CrossCheckName.TIME_SLICED, _sliced(readings.with_slice_length(run.slice_ns), found)
    yield CrossCheckName.ALONE, fixed_rate_ratios(readings, found.arm, found.against).logs


def _sliced(readings: ValidTrials, found: Comparison) -> Mapping[int, float]:
    trials = readings.paired(TrialKind.TIME_SLICED, found.arm, found.against)
    return log_ratios(trials, found.arm, found.against)


def _spread_alone(
    evidence: ComparisonInput, found: Comparison, source: EvidenceSource
) -> estimate.Spread | None:
    """The least spread of ln(ratio) between blocks with each arm alone; None if it is not known.

    There each arm meets another start and other moments of the machine than the other one. What
    that changes is known where an arm has two trials in a block, as the baseline has with an A/A
    control: in 36 runs of one program 9 % from block to block, where the ratios of arms
    alone varied by 8 %, and those of paired trials by 0.9 %.
    """
    kind = PAIRED_KINDS.get(source, TrialKind.PAIRED)
    readings = evidence.at(found.load)
    changes = [
        change
        for arm in (found.arm, found.against)
        for change in _changes(arm, readings.with_arm(kind, arm))
    ]
    if len(changes) < 2:
        return None
    return estimate.Spread(estimate.mean_and_sd(changes)[1], len(changes) - 1)


def _changes(arm: str, trials: Iterable[Trial]) -> Iterator[float]:
    """ln(cost / cost in the trial before) of an arm, where both trials are of one block."""
    for before, after in pairwise(trials):
        first, second = log_cost(before, arm), log_cost(after, arm)
        if before.block == after.block and first is not None and second is not None:
            yield second - first
