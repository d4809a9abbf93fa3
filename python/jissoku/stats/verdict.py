"""From an interval to a word."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from jissoku.model import Verdict
from jissoku.stats import estimate
from jissoku.stats.estimate import Interval

# Exact tests need six blocks for p < 0.05 (2 / 2^6 = 0.031); with fewer there is no verdict.
BLOCKS_MIN = 6

# Solo trials on a machine that others share are an order of magnitude noisier than duets.
MINIMUM_EFFECT_SOLO = 0.02

# A forecast beyond this says only "more than".
BLOCKS_NEEDED_MAX = 1000


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict, and for an inconclusive one why and what would decide it."""

    verdict: Verdict
    blocks_needed: int | None = None
    remark: str = ""


def word(wide: Interval, narrow: Interval, minimum_effect: float) -> Verdict:
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
        return Verdict.FASTER
    if wide.low > band:
        return Verdict.SLOWER
    if -band <= narrow.low and narrow.high <= band:
        return Verdict.EQUAL
    if wide.high < 0:
        return Verdict.SLIGHTLY_FASTER
    if wide.low > 0:
        return Verdict.SLIGHTLY_SLOWER
    return Verdict.INCONCLUSIVE


def judge(logs: Sequence[float], minimum_effect: float, *, allowance: float = 0.0) -> Judgement:
    """The verdict on one log ratio per block.

    Student's t decides, Hodges-Lehmann may object: where both see the same direction the weaker
    word stands, any other disagreement is inconclusive. `allowance` is the logarithm by which
    intervals are widened each way.
    """
    if len(logs) < BLOCKS_MIN:
        return Judgement(
            Verdict.INCONCLUSIVE,
            BLOCKS_MIN - len(logs),
            f"{len(logs)} blocks are too few for a verdict: at least {BLOCKS_MIN} are needed",
        )
    ours = _t_word(logs, minimum_effect, allowance)
    theirs = _robust_word(logs, minimum_effect, allowance)
    if ours is theirs:
        if ours is Verdict.INCONCLUSIVE:
            return Judgement(ours, blocks_needed(logs, minimum_effect, allowance=allowance))
        return Judgement(ours)
    weaker = _WEAKER.get(frozenset((ours, theirs)))
    if weaker:
        return Judgement(weaker)
    return Judgement(
        Verdict.INCONCLUSIVE,
        blocks_needed(logs, minimum_effect, allowance=allowance),
        f"the two methods disagree: Student's t says {ours}, Hodges-Lehmann says {theirs}",
    )


_WEAKER = {
    frozenset((Verdict.FASTER, Verdict.SLIGHTLY_FASTER)): Verdict.SLIGHTLY_FASTER,
    frozenset((Verdict.SLOWER, Verdict.SLIGHTLY_SLOWER)): Verdict.SLIGHTLY_SLOWER,
}


def blocks_needed(
    logs: Sequence[float], minimum_effect: float, *, allowance: float = 0.0
) -> int | None:
    """How many more blocks would decide if mean and spread stayed as they are; None: over 1000."""
    mean, spread = estimate.mean_and_spread(logs)
    for blocks in range(max(BLOCKS_MIN, len(logs) + 1), BLOCKS_NEEDED_MAX + 1):
        wide, narrow = (
            estimate.t_interval_from(mean, spread, blocks, confidence).widened(allowance)
            for confidence in (0.95, 0.90)
        )
        if word(wide, narrow, minimum_effect) is not Verdict.INCONCLUSIVE:
            return blocks - len(logs)
    return None


def _t_word(logs: Sequence[float], minimum_effect: float, allowance: float) -> Verdict:
    wide = estimate.t_interval(logs, 0.95).widened(allowance)
    narrow = estimate.t_interval(logs, 0.90).widened(allowance)
    return word(wide, narrow, minimum_effect)


def _robust_word(logs: Sequence[float], minimum_effect: float, allowance: float) -> Verdict:
    wide = estimate.hodges_lehmann(logs, 0.95)
    narrow = estimate.hodges_lehmann(logs, 0.90)
    assert wide is not None, "six blocks give an exact interval at 95 %"
    assert narrow is not None, "and at 90 %"
    return word(wide.widened(allowance), narrow.widened(allowance), minimum_effect)
