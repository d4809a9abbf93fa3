"""Decides every comparison: from one logarithm per block to a verdict.

`compare`, `run`, `tune` and `explain --verify` all use this module: the same interval, the same
agreement of two methods, the same correction for multiple comparisons, the same checks.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from jissoku.inference import estimate, multiplicity
from jissoku.inference.comparison_text import comparison_text
from jissoku.inference.looks import Looks
from jissoku.inference.verdict import Rule, blocks_needed, judge
from jissoku.model import Comparison, Condition, CrossCheck, Estimate, Verdict
from jissoku.model.summary import ALPHA
from jissoku.model.updated import updated

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
WITHOUT_FORECAST = {Verdict.DISPUTED, Verdict.FAILED, Verdict.INVALID}

# A forecast beyond this, an hour in seconds, is of no use.
OUTLOOK_S = 3600.0

# From here on a change in percent is hard to read: a p99 of an overloaded target can be thousands.
LARGE_FACTOR = 10


@dataclass(frozen=True, slots=True)
class Decided:
    """A comparison before it is corrected for the number of comparisons, and what it rests on.

    Attributes:
        values: ln(ratio) of each block.
        block_s: How long one more block takes, in seconds; None if unknown.
    """

    found: Comparison
    values: tuple[float, ...] = ()
    rule: Rule = field(default_factory=lambda: Rule(minimum_effect=0.0))
    block_s: float | None = None


def decide(
    blank: Comparison,
    logs: Mapping[int, float],
    looks: Looks = ONE_LOOK,
    *,
    resolution: float = 0.0,
    block_s: float | None = None,
) -> Decided:
    """Computes the values of one pair that do not depend on other pairs.

    Args:
        blank: The arms, the metric, the load and the minimum effect.
        logs: ln(ratio) by block.
        looks: When the run may be looked at.
        resolution: By how much all logarithms may be off in the same direction.
        block_s: How long one more block takes, in seconds; None if unknown.
    """
    values = looks.used(tuple(logs[block] for block in sorted(logs)))
    rule = Rule(minimum_effect=blank.minimum_effect, looks=looks, resolution=resolution)
    judgement = judge(values, rule)
    known = updated(
        blank,
        verdict=judgement.verdict,
        remarks=(*blank.remarks, *([judgement.remark] if judgement.remark else ())),
    )
    if len(values) < (looks.first if looks.horizon else 2):
        return Decided(known, values, rule, block_s)
    interval = rule.interval(*estimate.mean_and_sd(values), len(values), 0.95)
    whole = updated(
        known,
        ratio=estimate.as_ratio(interval, values),
        robust=_robust(values),
        p_value=looks.p_value(values, resolution),
        p_equal=looks.p_equal(values, rule.band - resolution) if rule.band else None,
        p_sign_flip=estimate.sign_flip(values),
        remarks=(*known.remarks, *_outliers(values), *_other_rotations(known)),
    )
    return Decided(whole, values, rule, block_s)


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
    relative = {block: log - math.log(bound) for block, log in logs.items()}
    decided = decide(blank, relative, looks, block_s=block_s)
    return with_checks(
        decided,
        [
            updated(check, ratio=check.ratio and estimate.scaled(check.ratio, 1 / bound))
            for check in checks
        ],
    )


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
    different = multiplicity.holm([one.found.p_value for one in family])
    equal = multiplicity.holm([one.found.p_equal for one in family])
    alphas = _alpha_left(different), _alpha_left(equal)
    return tuple(
        _settled(one, p_holm, p_equal, alphas)
        for one, p_holm, p_equal in zip(family, different, equal, strict=True)
    )


def _alpha_left(corrected: Sequence[float | None]) -> float:
    """The largest p-value that would prove the next comparison of a family."""
    unproven = sum(p is None or p > ALPHA for p in corrected)
    return ALPHA / max(1, unproven)


def _settled(
    decided: Decided, p_holm: float | None, p_equal: float | None, alphas: tuple[float, float]
) -> Comparison:
    found = decided.found
    is_sure = p_holm is not None and p_holm <= ALPHA
    proven = found.verdict.is_difference and is_sure
    known = updated(found, p_holm=p_holm, p_equal_holm=p_equal, proven=proven)
    if not known.is_decided and known.verdict not in WITHOUT_FORECAST:
        known = _with_forecast(known, decided, blocks_needed(decided.values, decided.rule, *alphas))
    return updated(known, sentence=comparison_text(known))


def _with_forecast(found: Comparison, decided: Decided, needed: int | None) -> Comparison:
    """How many blocks would decide, how long they take, and whether the run can have them."""
    horizon, has_figure = decided.rule.looks.horizon, found.p_value is not None
    seconds = None if needed is None or decided.block_s is None else needed * decided.block_s
    is_beyond = needed is None or (seconds or 0.0) > OUTLOOK_S
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

    At 1 %, corrected for all comparisons, because a false alarm withdraws a correct verdict. Fewer
    than two blocks on either side are always compatible.

    Args:
        logs: ln(ratio) of each block of what is checked.
        other: The same of the check.
        comparisons: Of the run.
        known: The least spread that blocks of the check are known to have.
    """
    if len(logs) < 2 or len(other) < 2:
        return True
    least = [estimate.Spread(CHECK_SPREAD * estimate.mean_and_sd(logs)[1], len(logs) - 1)]
    if known is not None:
        least.append(known)
    p_value = estimate.few_against_many(logs, other, least)
    return p_value >= CHECK_ALPHA / max(1, comparisons)


def with_checks(decided: Decided, checks: Sequence[CrossCheck]) -> Decided:
    """Compares a ratio with measurements by other methods.

    If a check contradicts only the size, the verdict stands and the check is reported as not
    agreeing. If it contradicts the direction, the verdict is inconclusive.
    """
    known = updated(decided.found, cross_checks=tuple(checks))
    known = updated(known, verdict=Verdict.DISPUTED) if _is_disputed(known) else known
    return updated(decided, found=known)


def _is_disputed(found: Comparison) -> bool:
    """Whether a check that does not agree is on the other side of 1 than the difference."""
    if found.ratio is None or not found.verdict.is_difference:
        return False
    ratios = [check.ratio for check in found.cross_checks if not check.agrees and check.ratio]
    return any((ratio.value > 1) != (found.ratio.value > 1) for ratio in ratios)


def _robust(values: Sequence[float]) -> Estimate | None:
    interval = estimate.hodges_lehmann(values)
    return None if interval is None else estimate.as_ratio(interval, values)


def _outliers(values: Sequence[float]) -> Iterator[str]:
    far = estimate.outliers(values)
    if far:
        spot = ", ".join(_change(values[i]) for i in far)
        yield f"far from the other blocks, and kept: {spot}"


def _other_rotations(found: Comparison) -> Iterator[str]:
    """The ratio from the rotations that were not chosen, where other programs ran."""
    if found.other_ratio is not None and found.condition is not Condition.QUIET:
        which = "of all rotations" if found.is_calm else "of the calm rotations alone"
        yield f"{which}: {found.other_ratio.text}"


def _change(log: float) -> str:
    """The ratio of a block, as a change in percent, and if it is large as a factor."""
    ratio = math.exp(log)
    return f"{ratio:,.0f} x" if ratio >= LARGE_FACTOR else f"{100 * math.expm1(log):+.1f} %"
