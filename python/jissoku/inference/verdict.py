"""From an interval to a verdict."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from jissoku.inference import estimate
from jissoku.inference.estimate import Interval
from jissoku.inference.looks import VERDICT_BLOCKS_MIN, Looks
from jissoku.model import EvidenceSource, Metric, Mode, Verdict
from jissoku.model.wording import too_few_blocks

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What a verdict is judged by.

    Attributes:
        minimum_effect: Ratio minus one, the same distance both ways on the log scale.
        looks: When the run may be looked at.
        resolution: By how much the logarithms may be off in the same direction in every block, as
            those of a search that moves in steps.
    """

    minimum_effect: float
    looks: Looks = field(default_factory=Looks)
    resolution: float = 0.0

    @property
    def band(self) -> float:
        """The minimum effect as a logarithm."""
        return math.log1p(self.minimum_effect)

    def interval(self, mean: float, spread: float, blocks: int, confidence: float) -> Interval:
        """By Student's t, with the resolution as a part of the error."""
        return self.widened(self.looks.interval(mean, spread, blocks, confidence))

    def widened(self, found: Interval) -> Interval:
        """An interval with the resolution as a part of its error."""
        return Interval(found.centre, found.low - self.resolution, found.high + self.resolution)


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict, and for an inconclusive one why."""

    verdict: Verdict
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


def judge(logs: Sequence[float], rule: Rule) -> Judgement:
    """The verdict on one log ratio per block.

    Student's t decides. From six blocks on Hodges-Lehmann may object: where both see the same
    direction the weaker word stands, any other disagreement is inconclusive.
    """
    first = rule.looks.first
    if len(logs) < first:
        return Judgement(
            Verdict.INCONCLUSIVE,
            f"{too_few_blocks(len(logs))} for a verdict: at least {first} are needed",
        )
    ours = _t_verdict(*estimate.mean_and_sd(logs), len(logs), rule)
    if ours is Verdict.INCONCLUSIVE and rule.looks.horizon:
        return Judgement(ours)  # Of several looks no single one of another method decides.
    theirs = _robust_verdict(logs, rule)
    agreed = ours if theirs is None else _weaker(ours, theirs)
    if agreed is not None:
        return Judgement(agreed)
    return Judgement(
        Verdict.INCONCLUSIVE,
        f"the two methods disagree: Student's t says {ours}, Hodges-Lehmann says {theirs}",
    )


def _weaker(ours: Verdict, theirs: Verdict) -> Verdict | None:
    return ours if ours is theirs else _WEAKER.get(frozenset((ours, theirs)))


_WEAKER = {
    frozenset((Verdict.LOWER, Verdict.SLIGHTLY_LOWER)): Verdict.SLIGHTLY_LOWER,
    frozenset((Verdict.HIGHER, Verdict.SLIGHTLY_HIGHER)): Verdict.SLIGHTLY_HIGHER,
}


def blocks_needed(
    logs: Sequence[float], rule: Rule, alpha: float, alpha_equal: float | None = None
) -> int | None:
    """How many more blocks would decide if mean and spread stayed as they are; None: over 1000.

    Both methods have to agree then, and the p-value has to be small enough. Fewer than two blocks
    have no spread: the first look may decide.

    Args:
        alpha: The largest p-value of a difference: 0.05 divided by the number of comparisons that
            have none yet.
        alpha_equal: The same of an equality; None: as of a difference.
    """
    if len(logs) < 2:
        return rule.looks.first - len(logs)
    alphas = alpha, alpha if alpha_equal is None else alpha_equal
    low, high = max(rule.looks.first, len(logs) + 1), BLOCKS_NEEDED_MAX
    if not _would_decide(logs, rule, alphas, high):
        return None
    while low < high:
        middle = (low + high) // 2
        low, high = (
            (low, middle) if _would_decide(logs, rule, alphas, middle) else (middle + 1, high)
        )
    return low - len(logs)


def _would_decide(
    logs: Sequence[float], rule: Rule, alphas: tuple[float, float], blocks: int
) -> bool:
    mean, spread = estimate.mean_and_sd(logs)
    ours = _t_verdict(mean, spread, blocks, rule)
    if ours is Verdict.INCONCLUSIVE:
        return False
    robust = None if len(logs) < VERDICT_BLOCKS_MIN else _robust_verdict(logs, rule, blocks)
    if robust is not None and _weaker(ours, robust) is None:
        return False
    error = spread / math.sqrt(blocks)
    away, sides, alpha = abs(mean) - rule.resolution, 1, alphas[0]
    if ours is Verdict.EQUAL:
        # Two one-sided tests.
        away, sides, alpha = rule.band - abs(mean) - rule.resolution, 2, alphas[1]
    return error == 0 or rule.looks.p_of(away / error, blocks) / sides <= alpha


def _t_verdict(mean: float, spread: float, blocks: int, rule: Rule) -> Verdict:
    wide, narrow = (rule.interval(mean, spread, blocks, share) for share in (0.95, 0.90))
    return classify(wide, narrow, rule.minimum_effect)


def _robust_verdict(logs: Sequence[float], rule: Rule, blocks: int = 0) -> Verdict | None:
    """By Hodges-Lehmann, as it would be with `blocks` blocks of the same spread; None from few."""
    found = []
    shrink = math.sqrt(len(logs) / max(blocks, len(logs)))
    for share in (0.95, 0.90):
        interval = estimate.hodges_lehmann(logs, share)
        if interval is None:
            return None
        centre = interval.centre
        low, high = (centre + shrink * (end - centre) for end in (interval.low, interval.high))
        found.append(rule.widened(Interval(centre, low, high)))
    wide, narrow = found
    return classify(wide, narrow, rule.minimum_effect)
