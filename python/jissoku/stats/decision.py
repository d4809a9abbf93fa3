"""Decides every comparison: from one logarithm per block to a verdict.

`compare`, `run`, `tune` and `explain --verify` all use this module: the same interval, the same
agreement of two methods, the same correction for multiple comparisons, the same checks.
"""

import math
from collections.abc import Iterator, Mapping, Sequence

from jissoku.model import Comparison, CrossCheck, Estimate, Verdict
from jissoku.model.updated import updated
from jissoku.stats import estimate, multiplicity
from jissoku.stats.comparison_text import comparison_text
from jissoku.stats.verdict import judge

# Significance level of cross-checks.
CHECK_ALPHA = 0.01

# A block of a check varies at least this many times as much as one of what it checks, because its
# trials are shorter: 3.5 times in 36 runs of 10 to 30 paired trials with two blocks of time slices.
# If two blocks really vary 1, 2.7 and 5.3 times as much, Welch's test alone objects to equal ratios
# in 5, 7 and 6 % of runs instead of 1 %, and this one in 0.0, 0.0 and 2 % (simulated).
CHECK_SPREAD = 4.0

# From here on a change in percent is hard to read: a p99 of an overloaded target can be thousands.
LARGE_FACTOR = 10


def decide(blank: Comparison, logs: Mapping[int, float]) -> Comparison:
    """Computes the values of one pair that do not depend on other pairs.

    Args:
        blank: The arms, the metric, the load and the minimum effect.
        logs: ln(ratio) by block.
    """
    values = [logs[block] for block in sorted(logs)]
    judgement = judge(values, blank.minimum_effect)
    known = updated(
        blank,
        verdict=judgement.verdict,
        blocks_needed=judgement.blocks_needed,
        remarks=(*blank.remarks, *([judgement.remark] if judgement.remark else ())),
    )
    if len(values) < 2:
        return known
    return updated(
        known,
        ratio=estimate.as_ratio(estimate.t_interval(values), values),
        robust=_robust(values),
        p_value=estimate.t_test(values),
        p_sign_flip=estimate.sign_flip(values),
        remarks=(*known.remarks, *_outliers(values)),
    )


def settle(found: Sequence[Comparison]) -> tuple[Comparison, ...]:
    """Corrects for the number of comparisons, and writes the sentences.

    `found` is a family: all comparisons by one metric. A pair without a p-value is part of it.
    """
    adjusted = multiplicity.holm([one.p_value for one in found])
    return tuple(_settled(one, p_holm) for one, p_holm in zip(found, adjusted, strict=True))


def _settled(found: Comparison, p_holm: float | None) -> Comparison:
    is_sure = p_holm is not None and p_holm <= multiplicity.ALPHA
    known = updated(found, p_holm=p_holm, proven=found.verdict.is_difference and is_sure)
    return updated(known, sentence=comparison_text(known))


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


def with_checks(found: Comparison, checks: Sequence[CrossCheck]) -> Comparison:
    """Compares a ratio with measurements by other methods.

    If a check contradicts only the size, the verdict stands and the check is reported as not
    agreeing. If it contradicts the direction, the verdict is inconclusive.
    """
    known = updated(found, cross_checks=tuple(checks))
    return updated(known, verdict=Verdict.DISPUTED) if _is_disputed(known) else known


def _is_disputed(found: Comparison) -> bool:
    """Whether a check that does not agree is on the other side of 1 than the difference."""
    if found.ratio is None or not found.verdict.is_difference:
        return False
    ratios = [check.ratio for check in found.cross_checks if not check.agrees and check.ratio]
    return any((ratio.value > 1) != (found.ratio.value > 1) for ratio in ratios)


def _robust(values: list[float]) -> Estimate | None:
    interval = estimate.hodges_lehmann(values)
    return None if interval is None else estimate.as_ratio(interval, values)


def _outliers(values: list[float]) -> Iterator[str]:
    far = estimate.outliers(values)
    if far:
        spot = ", ".join(_change(values[i]) for i in far)
        yield f"far from the other blocks, and kept: {spot}"


def _change(log: float) -> str:
    """The ratio of a block, as a change in percent, and if it is large as a factor."""
    ratio = math.exp(log)
    return f"{ratio:,.0f} x" if ratio >= LARGE_FACTOR else f"{100 * math.expm1(log):+.1f} %"
