"""From an interval to a verdict."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from jissoku.model import EvidenceSource, Metric, Mode, Verdict
from jissoku.stats import estimate
from jissoku.stats.estimate import Interval

# Exact tests need six blocks for p < 0.05 (2 / 2^6 = 0.031); with fewer there is no verdict.
VERDICT_BLOCKS_MIN = 6

# Smallest ratio minus one that matters, by how arms meet (METHODOLOGY, "From trials to verdicts").
_MINIMUM_EFFECT = {
    EvidenceSource.TWO_PAIRED: 0.01,
    EvidenceSource.PAIRED: 0.01,
    EvidenceSource.TIME_SLICED: 0.02,
    EvidenceSource.SINGLE: 0.02,
}
# Standard mode measures pairs of like arms so precisely that an effect of 1 % is beyond doubt, and
# would be called practically equal if 1 % did not matter.
_OF_PRECISE_PAIRS = 0.005

MINIMUM_EFFECT_OF_METRIC = {
    Metric.P50: 0.05,
    Metric.P99: 0.05,
    Metric.CAPACITY: 0.05,
    Metric.TIME: 0.02,
}

# A forecast beyond this says only "more than".
BLOCKS_NEEDED_MAX = 1000


def minimum_effect_of(source: EvidenceSource, mode: Mode) -> float:
    """Smallest ratio of CPU time per request, minus one, that matters in trials of this kind."""
    if mode is Mode.STANDARD and source in {EvidenceSource.PAIRED, EvidenceSource.TWO_PAIRED}:
        return _OF_PRECISE_PAIRS
    return _MINIMUM_EFFECT[source]


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict, and for an inconclusive one why and what would decide it."""

    verdict: Verdict
    blocks_needed: int | None = None
    remark: str = ""


def classify(wide: Interval, narrow: Interval, minimum_effect: float) -> Verdict:
    """The verdict of one pair of intervals on the log ratio.

    An effect that is surely too small to matter is called practically equal even where it is surely
    not zero: that is what a minimum effect is for.

    Args:
        wide: At 95 %; its place against zero and against the minimum effect gives the direction.
        narrow: At 90 %; inside the minimum effect on both sides means equal, which is the pair of
            one-sided tests at 0.05 (Schuirmann, 1987).
        minimum_effect: Ratio minus one, the same distance both ways on the log scale.
    """
    band = math.log1p(minimum_effect)
    if wide.high < -band:
        return Verdict.LOWER
    if wide.low > band:
        return Verdict.HIGHER
    if -band <= narrow.low and narrow.high <= band:
        return Verdict.EQUAL
    if wide.high < 0:
        return Verdict.SLIGHTLY_LOWER
    if wide.low > 0:
        return Verdict.SLIGHTLY_HIGHER
    return Verdict.INCONCLUSIVE


def judge(logs: Sequence[float], minimum_effect: float) -> Judgement:
    """The verdict on one log ratio per block.

    Student's t decides, Hodges-Lehmann may object: where both see the same direction the weaker
    word stands, any other disagreement is inconclusive.
    """
    if len(logs) < VERDICT_BLOCKS_MIN:
        return Judgement(
            Verdict.INCONCLUSIVE,
            VERDICT_BLOCKS_MIN - len(logs),
            f"{len(logs)} blocks are too few for a verdict: at least {VERDICT_BLOCKS_MIN} are"
            f" needed",
        )
    ours = _t_verdict(logs, minimum_effect)
    theirs = _robust_verdict(logs, minimum_effect)
    if ours is theirs:
        if ours is Verdict.INCONCLUSIVE:
            return Judgement(ours, blocks_needed(logs, minimum_effect))
        return Judgement(ours)
    weaker = _WEAKER.get(frozenset((ours, theirs)))
    if weaker:
        return Judgement(weaker)
    return Judgement(
        Verdict.INCONCLUSIVE,
        blocks_needed(logs, minimum_effect),
        f"the two methods disagree: Student's t says {ours}, Hodges-Lehmann says {theirs}",
    )


_WEAKER = {
    frozenset((Verdict.LOWER, Verdict.SLIGHTLY_LOWER)): Verdict.SLIGHTLY_LOWER,
    frozenset((Verdict.HIGHER, Verdict.SLIGHTLY_HIGHER)): Verdict.SLIGHTLY_HIGHER,
}


def blocks_needed(logs: Sequence[float], minimum_effect: float) -> int | None:
    """How many more blocks would decide if mean and spread stayed as they are; None: over 1000."""
    mean, spread = estimate.mean_and_sd(logs)
    for blocks in range(max(VERDICT_BLOCKS_MIN, len(logs) + 1), BLOCKS_NEEDED_MAX + 1):
        wide, narrow = (
            estimate.t_interval_from(mean, spread, blocks, confidence)
            for confidence in (0.95, 0.90)
        )
        if classify(wide, narrow, minimum_effect) is not Verdict.INCONCLUSIVE:
            return blocks - len(logs)
    return None


def _t_verdict(logs: Sequence[float], minimum_effect: float) -> Verdict:
    wide = estimate.t_interval(logs, 0.95)
    narrow = estimate.t_interval(logs, 0.90)
    return classify(wide, narrow, minimum_effect)


def _robust_verdict(logs: Sequence[float], minimum_effect: float) -> Verdict:
    wide = estimate.hodges_lehmann(logs, 0.95)
    narrow = estimate.hodges_lehmann(logs, 0.90)
    assert wide is not None, "six blocks give an exact interval at 95 %"
    assert narrow is not None, "and at 90 %"
    return classify(wide, narrow, minimum_effect)
