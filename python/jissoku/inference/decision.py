"""Decides every comparison: from one logarithm per block to a verdict and its sentence.

`compare`, `run`, `tune` and `explain --verify` all use this module: the same interval, the same
agreement of two methods, the same correction for multiple comparisons, the same checks.
"""

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import combinations
from typing import NamedTuple

from jissoku.inference import estimate
from jissoku.inference.estimate import VERDICT_BLOCKS_MIN, Company, Interval, Looks, Spread
from jissoku.inference.late import np
from jissoku.model import Condition, Mode, updated, wording
from jissoku.model.summary import (
    ALPHA,
    Comparison,
    CrossCheck,
    Estimate,
    EvidenceSource,
    Metric,
    Verdict,
)

# A pair at one load; a comparison of anything else stands for itself.
Edge = tuple[str, str]

# Among more arms than this the pairs that can be equal together are not counted one by one.
COUNTED_ARMS_MAX = 8


@lru_cache(maxsize=4096)
def most_equal(pairs: frozenset[Edge], different: frozenset[Edge]) -> int:
    """How many of these pairs can be equal together, if some of them are different.

    Equal arms form groups: if a and b are equal, and b and c are not, a and c are not. Of many arms
    an upper limit: all that are not different themselves.
    """
    left = pairs - different
    return sum(_most_equal(group, left, different) for group in _connected(left))


def _connected(pairs: Iterable[Edge]) -> list[frozenset[str]]:
    """The arms that these pairs connect, directly or through others."""
    groups: list[frozenset[str]] = []
    for pair in pairs:
        apart = [group for group in groups if group.isdisjoint(pair)]
        joined = [group for group in groups if not group.isdisjoint(pair)]
        groups = [*apart, frozenset(pair).union(*joined)]
    return groups


def _most_equal(arms: frozenset[str], pairs: frozenset[Edge], different: frozenset[Edge]) -> int:
    inside = [pair for pair in pairs if arms.issuperset(pair)]
    if len(arms) > COUNTED_ARMS_MAX or not any(arms.issuperset(pair) for pair in different):
        return len(inside)
    first = min(arms)
    apart = {other for pair in different if first in pair for other in pair}
    others = sorted(arms - apart - {first})
    found = 0
    for size in range(len(others) + 1):
        for chosen in combinations(others, size):
            group = frozenset((first, *chosen))
            if not any(group.issuperset(pair) for pair in different):
                equal = sum(group.issuperset(pair) for pair in inside)
                rest = frozenset(pair for pair in inside if group.isdisjoint(pair))
                found = max(found, equal + most_equal(rest, different))
    return found


def corrected(family: Sequence[Comparison]) -> tuple[tuple[float | None, ...], int]:
    """P-values of differences, such that the chance of any false one stays at 5 %.

    Holm's correction with logical constraints (Shaffer, 1986): a p-value is multiplied by the
    number of pairs that can be equal together if those with smaller ones differ. Where a and b
    differ, c differs from one of them. Also the number for the next one to be proven.
    """
    places: list[tuple[object, Edge]] = []
    pairs: dict[object, frozenset[Edge]] = defaultdict(frozenset)
    for index, one in enumerate(family):
        pair = one.arm, one.against
        # Pairs at one load depend on each other; what has no arms or is repeated is alone.
        where: object = index if not one.arm or pair in pairs[one.load] else one.load
        places.append((where, pair))
        pairs[where] |= {pair}
    different: dict[object, frozenset[Edge]] = defaultdict(frozenset)

    def most() -> int:
        return max(1, sum(most_equal(known, different[where]) for where, known in pairs.items()))

    known = [(one.p_value, index) for index, one in enumerate(family)]
    found: list[float | None] = [None] * len(family)
    highest, unproven = 0.0, most()
    for p_value, index in sorted((p, index) for p, index in known if p is not None):
        if highest < 1.0:
            highest = min(1.0, max(highest, most() * p_value))
            where, pair = places[index]
            different[where] |= {pair}
        found[index] = highest
        if highest <= ALPHA:
            unproven = most()
    return tuple(found), unproven


def holm(p_values: Sequence[float | None]) -> tuple[float | None, ...]:
    """Adjusts p-values so that the chance of any false rejection stays at 5 % (Holm, 1979).

    Pairs without a p-value keep None. They belong to the question all the same and count in its
    size, as if nothing had spoken against their being equal.
    """
    if not p_values:
        return ()
    # Written out: that of statsmodels collects garbage at every call, 60 ms each.
    counted = np.array([1.0 if p is None else p for p in p_values])
    order = np.argsort(counted)
    adjusted = np.empty(len(counted))
    steps = np.arange(len(counted), 0, -1)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(steps * counted[order]))
    return tuple(
        None if p is None else float(corrected)
        for p, corrected in zip(p_values, adjusted, strict=True)
    )


METRIC_NAMES = {
    Metric.COST: "the CPU time per request",
    Metric.P50: "the median latency",
    Metric.P99: "the p99 latency",
    Metric.CAPACITY: "the capacity",
    Metric.TIME: "the time per answer",
}


def format_ratio(found: Estimate) -> str:
    return wording.factor_text(found, "an unknown multiple of")


def comparison_text(comparison: Comparison) -> str:
    arm, against, verdict = comparison.arm, comparison.against, comparison.verdict
    at = f" at {comparison.load.text}" if comparison.metric is not Metric.CAPACITY else ""
    if comparison.verdict is Verdict.UNREACHED:
        return f"{comparison.remarks[0]}, so {arm} and {against} are not compared there"
    if comparison.ratio is None:
        reason = f" ({comparison.remarks[0]})" if comparison.remarks else ""
        return f"{arm} compared with {against}{at}: {verdict}{reason}"
    verb = "uses" if comparison.metric is Metric.COST else "has"
    ratio, metric = format_ratio(comparison.ratio), METRIC_NAMES[comparison.metric]
    says = wording.verdict_text(comparison.metric, verdict) + _certainty(comparison)
    return f"{arm} {verb} {ratio} {metric} of {against}{at}: {says}{beside(comparison)}"


def _certainty(comparison: Comparison) -> str:
    """In brackets: proven, or what would prove it with all comparisons counted."""
    if comparison.is_decided:
        return " (proven)"
    more = wording.outlook(comparison) if comparison.p_value is not None else ""
    return f" ({more})" if more else ""


def beside(comparison: Comparison) -> str:
    """The condition of a verdict, as the end of its sentence; empty on quiet cores."""
    if comparison.condition is Condition.QUIET:
        return ""
    if comparison.is_calm:
        return ", in time slices in which no other program delayed it"
    share = f"{100 * comparison.other_programs:.0f} %"
    return f", beside other programs that used {share} of the cores"


MINIMUM_EFFECT_OF_METRIC = {
    Metric.P50: 0.05,
    Metric.P99: 0.05,
    Metric.CAPACITY: 0.05,
    Metric.TIME: 0.02,
}


def minimum_effect_of(source: EvidenceSource, mode: Mode) -> float:
    """Smallest ratio of CPU time per request, minus one, that matters in trials of this kind.

    METHODOLOGY, "From trials to verdicts". Standard mode measures pairs of like arms so precisely
    that an effect of 1 % is beyond doubt, and would be called practically equal if 1 % did not
    matter.
    """
    if source in {EvidenceSource.TIME_SLICED, EvidenceSource.SINGLE}:
        return 0.02
    return 0.005 if mode is Mode.STANDARD else 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What a verdict is judged by.

    Attributes:
        minimum_effect: Ratio minus one, the same distance both ways on the log scale.
        resolution: By how much the logarithms may be off in the same direction in every block, as
            those of a search that moves in steps.
    """

    minimum_effect: float
    looks: Looks = field(default_factory=Looks)
    resolution: float = 0.0

    @property
    def band(self) -> float:
        return math.log1p(self.minimum_effect)

    def interval(self, mean: float, spread: Spread, blocks: int, confidence: float) -> Interval:
        """By Student's t, with the resolution as a part of the error."""
        return self.widened(self.looks.interval(mean, spread, blocks, confidence))

    def widened(self, found: Interval) -> Interval:
        return Interval(found.centre, found.low - self.resolution, found.high + self.resolution)


class Judgement(NamedTuple):
    verdict: Verdict
    remark: str = ""


def classify(wide: Interval, narrow: Interval, minimum_effect: float) -> Verdict:
    """The verdict of intervals of the log ratio at 95 % (wide) and 90 % (narrow).

    The narrow one inside the minimum effect on both sides means equal, which is the pair of
    one-sided tests at 0.05 (Schuirmann, 1987). An effect that is surely too small to matter is
    called so even where it is surely not zero: that is what a minimum effect is for.
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


def judge_logs(logs: Sequence[float], rule: Rule, spread: Spread | None = None) -> Judgement:
    """The verdict on one log ratio per block, with their own spread if no other is given.

    Student's t decides. From six blocks on Hodges-Lehmann may object: where both see the same
    direction the weaker word stands, any other disagreement is inconclusive.
    """
    first = rule.looks.first
    if len(logs) < first:
        return Judgement(
            Verdict.INCONCLUSIVE,
            f"{wording.too_few_blocks(len(logs))} for a verdict: at least {first} are needed",
        )
    mean, _ = estimate.mean_and_sd(logs)
    ours = _t_verdict(mean, spread or estimate.own_spread(logs), len(logs), rule)
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
    logs: Sequence[float],
    rule: Rule,
    alpha: float,
    alpha_equal: float | None = None,
    spread: Spread | None = None,
) -> int | None:
    """How many more blocks would decide if mean and spread stayed as they are; None: over 1000.

    Both methods have to agree then, and the p-value has to be at most `alpha`, of an equality
    `alpha_equal`: 0.05 divided by the number of comparisons that have none yet. Fewer than two
    blocks have no spread: the first look may decide.
    """
    if len(logs) < 2:
        return rule.looks.first - len(logs)
    alphas = alpha, alpha if alpha_equal is None else alpha_equal
    now = spread or estimate.own_spread(logs)
    low, high = max(rule.looks.first, len(logs) + 1), wording.BLOCKS_NEEDED_MAX

    def would_decide(count: int) -> bool:
        freedom = now.freedom * (count - 1) / (len(logs) - 1)
        return _would_decide(logs, rule, alphas, count, Spread(now.sd, freedom))

    if not would_decide(high):
        return None
    place = bisect_left(range(low, high), x=True, key=would_decide)
    return low + place - len(logs)


def _would_decide(
    logs: Sequence[float], rule: Rule, alphas: tuple[float, float], blocks: int, spread: Spread
) -> bool:
    mean, _ = estimate.mean_and_sd(logs)
    ours = _t_verdict(mean, spread, blocks, rule)
    if ours is Verdict.INCONCLUSIVE:
        return False
    robust = None if len(logs) < VERDICT_BLOCKS_MIN else _robust_verdict(logs, rule, blocks)
    if robust is not None and _weaker(ours, robust) is None:
        return False
    error = spread.sd / math.sqrt(blocks)
    away, sides, alpha = abs(mean) - rule.resolution, 1, alphas[0]
    if ours is Verdict.EQUAL:
        # Two one-sided tests.
        away, sides, alpha = rule.band - abs(mean) - rule.resolution, 2, alphas[1]
    return error == 0 or rule.looks.p_of(away / error, blocks, spread.freedom) / sides <= alpha


def _t_verdict(mean: float, spread: Spread, blocks: int, rule: Rule) -> Verdict:
    wide, narrow = (rule.interval(mean, spread, blocks, share) for share in (0.95, 0.90))
    return classify(wide, narrow, rule.minimum_effect)


def _robust_verdict(logs: Sequence[float], rule: Rule, blocks: int = 0) -> Verdict | None:
    """By Hodges-Lehmann, as it would be with `blocks` blocks of the same spread; None from few."""
    shrink = math.sqrt(len(logs) / max(blocks, len(logs)))
    found = [estimate.hodges_lehmann(logs, share) for share in (0.95, 0.90)]
    wide, narrow = (one and rule.widened(one.shrunk(shrink)) for one in found)
    if wide is None or narrow is None:
        return None
    return classify(wide, narrow, rule.minimum_effect)


# A run that is looked at after its last block.
ONE_LOOK = Looks()

# Significance level of cross-checks.
CHECK_ALPHA = 0.01

# A block of a check varies at least this many times as much as one of what it checks, because its
# trials are shorter: 3.5 times in 36 runs of 10 to 30 paired trials with two blocks of time slices.
# If two blocks really vary 1, 2.7 and 5.3 times as much, Welch's test alone objects to equal ratios
# in 5, 7 and 6 % of runs instead of 1 %, and this one in 0.0, 0.0 and 2 % (simulated).
CHECK_SPREAD = 4.0

# No number of blocks decides these.
WITHOUT_FORECAST = {Verdict.DISPUTED, Verdict.FAILED, Verdict.INVALID, Verdict.UNREACHED}

# From here on a change in percent is hard to read: a p99 of an overloaded target can be thousands.
LARGE_FACTOR = 10


@dataclass(frozen=True, slots=True)
class Decided:
    """A comparison before it is corrected for the number of comparisons, and what it rests on.

    Attributes:
        values: ln(ratio) of each block.
        spread: The spread of the values, where more is known of it than the values show.
        block_s: How long one more block takes, in seconds; None if unknown.
    """

    found: Comparison
    values: tuple[float, ...] = ()
    rule: Rule = field(default_factory=lambda: Rule(minimum_effect=0.0))
    block_s: float | None = None
    spread: Spread | None = None


def decide(
    blank: Comparison,
    logs: Mapping[int, float],
    looks: Looks = ONE_LOOK,
    *,
    resolution: float = 0.0,
    block_s: float | None = None,
    company: Company | None = None,
) -> Decided:
    """Computes the values of one pair that do not depend on other pairs, from ln(ratio) by block.

    `blank` has the minimum effect; by the resolution all logarithms may be off in one direction;
    one more block takes `block_s` seconds; `company` says more of the spread.
    """
    values, spreads = looks.used(logs), looks.spreads(logs, company)
    spread = spreads.get(len(values))
    rule = Rule(minimum_effect=blank.minimum_effect, looks=looks, resolution=resolution)
    judgement = judge_logs(values, rule, spread)
    known = updated(
        blank,
        verdict=judgement.verdict,
        remarks=(*blank.remarks, *([judgement.remark] if judgement.remark else ())),
    )
    if len(values) < (looks.first if looks.horizon else 2):
        return Decided(known, values, rule, block_s)
    mean, _ = estimate.mean_and_sd(values)
    used = spread or estimate.own_spread(values)
    interval = rule.interval(mean, used, len(values), 0.95)
    robust = estimate.hodges_lehmann(values)
    whole = updated(
        known,
        ratio=estimate.as_ratio(interval, values),
        robust=None if robust is None else estimate.as_ratio(robust, values),
        p_value=looks.p_value(values, resolution, spreads),
        p_equal=looks.p_equal(values, rule.band - resolution, spreads) if rule.band else None,
        p_sign_flip=estimate.sign_flip(values),
        remarks=(*known.remarks, *_notes(known, values)),
    )
    return Decided(whole, values, rule, block_s, spread)


def decide_bound(
    logs: Mapping[int, float],
    bound: float,
    checks: Sequence[CrossCheck] = (),
    looks: Looks = ONE_LOOK,
    block_s: float | None = None,
) -> Decided:
    """Decides on which side of a bound a ratio is; all its values are relative to the bound.

    Any distance from it counts: there is no minimum effect.
    """
    blank = Comparison(arm="", against="", verdict=Verdict.INCONCLUSIVE, minimum_effect=0.0)
    away = {block: log - math.log(bound) for block, log in logs.items()}
    decided = decide(blank, away, looks, block_s=block_s)
    relative = [
        updated(check, ratio=check.ratio and estimate.scaled(check.ratio, 1 / bound))
        for check in checks
    ]
    return with_checks(decided, relative)


def doubt(found: Comparison, bound: float = 1.0) -> str:
    """Why there is no answer, where neither too few blocks nor a wide interval is the reason."""
    if found.verdict is Verdict.DISPUTED:
        (check, *_) = [one for one in found.cross_checks if not one.agrees and one.ratio]
        ratio = estimate.scaled(check.ratio, bound) if check.ratio else None
        return f"cross-checked ({check.name}) the ratio is {ratio.text if ratio else 'unknown'}"
    return next((text for text in found.remarks if "disagree" in text), "")


def settle(family: Sequence[Decided]) -> tuple[Comparison, ...]:
    """Corrects for the number of comparisons, and writes the sentences.

    A family is all comparisons by one metric. A pair without a p-value is part of it. Differences
    are corrected among themselves, and so are equalities.
    """
    different, unproven = corrected([one.found for one in family])
    equal = holm([one.found.p_equal for one in family])
    unequal = sum(p is None or p > ALPHA for p in equal)
    alphas = ALPHA / unproven, ALPHA / max(1, unequal)
    return tuple(
        _settled(one, p_holm, p_equal, alphas)
        for one, p_holm, p_equal in zip(family, different, equal, strict=True)
    )


def _settled(
    decided: Decided, p_holm: float | None, p_equal: float | None, alphas: tuple[float, float]
) -> Comparison:
    found = decided.found
    is_sure = p_holm is not None and p_holm <= ALPHA
    proven = found.verdict.is_difference and is_sure
    known = updated(found, p_holm=p_holm, p_equal_holm=p_equal, proven=proven)
    if not known.is_decided and known.verdict not in WITHOUT_FORECAST:
        needed = blocks_needed(decided.values, decided.rule, *alphas, decided.spread)
        known = _with_forecast(known, decided, needed)
    return updated(known, sentence=comparison_text(known))


def _with_forecast(found: Comparison, decided: Decided, needed: int | None) -> Comparison:
    """How many blocks would decide, how long they take, and whether the run can have them."""
    horizon, has_figure = decided.rule.looks.horizon, found.p_value is not None
    seconds = None if needed is None or decided.block_s is None else needed * decided.block_s
    is_beyond = needed is None or (seconds or 0.0) > wording.OUTLOOK_S
    if horizon and needed is not None:
        is_beyond |= len(decided.values) + needed > horizon
    return updated(
        found,
        blocks_needed=needed,
        seconds_needed=seconds,
        is_out_of_reach=has_figure and is_beyond,
    )


def agrees(
    logs: Sequence[float],
    other: Sequence[float],
    comparisons: int,
    known: estimate.Spread | None = None,
) -> bool:
    """Whether a check is compatible with the ratio that it checks, both given by their blocks.

    At 1 %, corrected for all comparisons of the run, because a false alarm withdraws a correct
    verdict. Fewer than two blocks on either side are always compatible. `known` is the least
    spread that blocks of the check are known to have.
    """
    if len(logs) < 2 or len(other) < 2:
        return True
    least = [estimate.Spread(CHECK_SPREAD * estimate.mean_and_sd(logs)[1], len(logs) - 1)]
    if known is not None:
        least.append(known)
    p_value = estimate.welch_min_spread(logs, other, least)
    return p_value >= CHECK_ALPHA / max(1, comparisons)


def with_checks(decided: Decided, checks: Sequence[CrossCheck]) -> Decided:
    """Compares a ratio with measurements by other methods.

    If a check contradicts only the size, the verdict stands and the check is reported as not
    agreeing. If it is on the other side of 1 than the difference, the verdict is inconclusive.
    """
    found = decided.found
    against = [check.ratio for check in checks if not check.agrees and check.ratio]
    is_disputed = (
        found.ratio is not None
        and found.verdict.is_difference
        and any((ratio.value > 1) != (found.ratio.value > 1) for ratio in against)
    )
    verdict = Verdict.DISPUTED if is_disputed else found.verdict
    return updated(decided, found=updated(found, cross_checks=tuple(checks), verdict=verdict))


def _notes(found: Comparison, values: Sequence[float]) -> Iterator[str]:
    """Blocks far from the others, and the ratio from the rotations that were not chosen."""
    ratios = [math.exp(values[index]) for index in estimate.outliers(values)]
    if ratios:
        spot = ", ".join(
            f"{ratio:,.0f} x" if ratio >= LARGE_FACTOR else f"{100 * (ratio - 1):+.1f} %"
            for ratio in ratios
        )
        yield f"far from the other blocks, and kept: {spot}"
    if found.other_ratio is not None and found.condition is not Condition.QUIET:
        which = "of all rotations" if found.is_calm else "of the calm rotations alone"
        yield f"{which}: {found.other_ratio.text}"
