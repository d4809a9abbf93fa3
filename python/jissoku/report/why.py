"""Why the comparisons of two arms are decided or not, from the summary of a run."""

from collections.abc import Iterator

from jissoku.model import Summary
from jissoku.model.summary import Comparison, Verdict, more_blocks
from jissoku.model.trial import Condition
from jissoku.model.wording import beyond_text, time_text

ALPHA = 0.05


def why_text(summary: Summary, arm: str, other: str) -> str:
    """A paragraph for each comparison of the two; empty if there is none."""
    pair = {arm, other}
    found = [one for one in summary.comparisons if {one.arm, one.against} == pair]
    return "\n".join("\n  ".join((f"{one.sentence}.", *_reasons(one))) + "\n" for one in found)


def _reasons(found: Comparison) -> Iterator[str]:
    ratio, effect = found.ratio, found.minimum_effect
    if ratio is None:
        yield from found.remarks or ("There is no valid value of both in the same block.",)
        return
    low, high = 1 / (1 + effect), 1 + effect
    yield f"Interval: {ratio.low:.3f} to {ratio.high:.3f}, from {ratio.blocks} blocks."
    yield (
        f"Threshold: {100 * effect:.3g} %; a ratio from {low:.3f} to {high:.3f} is practically"
        " equal."
    )
    yield _reading(ratio.low, ratio.high, (low, high), found.verdict)
    if found.p_holm is not None and not found.p_holm <= ALPHA:
        yield (
            f"p = {found.p_holm:.2g} with all comparisons of the run counted; a difference is"
            f" proven at {ALPHA} or less."
        )
    for check in found.cross_checks:
        says = "agrees" if check.agrees else "contradicts it"
        value = f"{check.ratio.value:.3f}" if check.ratio else "no value"
        yield f"Cross-check, {check.name}: {value}, which {says}."
    if found.condition is not Condition.QUIET:
        yield (
            f"Conditions: other programs used {100 * found.other_programs:.0f} % of the cores"
            + ("; only calm time slices count." if found.is_calm else ".")
        )
    yield from found.remarks
    yield _outlook(found)


def _reading(low: float, high: float, band: tuple[float, float], verdict: Verdict) -> str:
    """What the place of the interval means."""
    if verdict is Verdict.DISPUTED:
        return "Two ways of measuring put the ratio on different sides of 1."
    if band[0] <= low and high <= band[1]:
        return "The interval is within the threshold: no difference that matters is left."
    if low > 1 or high < 1:
        return "The interval does not contain 1."
    return "The interval contains 1 and goes beyond the threshold: it excludes neither."


def _outlook(found: Comparison) -> str:
    if found.is_decided:
        return "It is decided: more blocks would only narrow the interval."
    if found.is_out_of_reach:
        return f"Out of reach: {beyond_text(found)}."
    if found.blocks_needed is None:
        return "How many blocks would decide it is unknown."
    time = ""
    if found.seconds_needed:
        time = f", in about {time_text(found.seconds_needed)}: --for gives a run more time"
    return f"At this spread {more_blocks(found.blocks_needed)} would decide it{time}."
