"""Verdicts in words, per metric: CPU is used, answers come sooner or later, requests are taken."""

from collections.abc import Sequence

from jissoku.model import Comparison, CrossCheckName, Metric, Verdict
from jissoku.report import format as fmt

METRIC_NAMES = {
    Metric.COST: "CPU per request",
    Metric.P50: "p50 latency",
    Metric.P99: "p99 latency",
    Metric.CAPACITY: "Capacity",
    Metric.TIME: "Time per answer",
}
AT_LOADS = (Metric.COST, Metric.P50, Metric.P99)
OVERALL = (Metric.CAPACITY, Metric.TIME)

# A lower figure, and a higher one; `stats.sentence` says the same, and a test holds them together.
VERDICT_TEXTS = {
    Metric.COST: ("uses less CPU", "uses more CPU"),
    Metric.P50: ("answers sooner", "answers later"),
    Metric.P99: ("answers sooner", "answers later"),
    Metric.CAPACITY: ("takes fewer requests", "takes more requests"),
    Metric.TIME: ("needs less time", "needs more time"),
}
LOW = {Verdict.LOWER, Verdict.SLIGHTLY_LOWER}
SLIGHTLY = {Verdict.SLIGHTLY_LOWER, Verdict.SLIGHTLY_HIGHER}
TONES = {
    Verdict.EQUAL: "same",
    Verdict.INCONCLUSIVE: "open",
    Verdict.DISPUTED: "open",
    Verdict.INVALID: "broken",
    Verdict.FAILED: "broken",
}
WARNING = "\N{WARNING SIGN}"


def verdict_text(metric: Metric, answer: Verdict) -> str:
    """As in `uses less CPU`; verdicts other than differences are the same for every metric."""
    if not answer.is_difference:
        return str(answer)
    lower, higher = VERDICT_TEXTS[metric]
    return (lower if answer in LOW else higher) + (", slightly" if answer in SLIGHTLY else "")


def tone(metric: Metric, answer: Verdict) -> str:
    """Better, worse, same, open or broken: the class for the style sheet's colours."""
    if not answer.is_difference:
        return TONES[answer]
    return "better" if (answer in LOW) is metric.less_is_better else "worse"


def disagreements(comparison: Comparison) -> tuple[str, ...]:
    """One sentence per check that contradicts the ratio, with both values."""
    return tuple(
        f"{WARNING} {comparison.source} {fmt.ratio(comparison.ratio)},"
        f" but {check.name} {fmt.ratio(check.ratio)}"
        for check in comparison.cross_checks
        if not check.agrees
    )


def cross_check_text(comparison: Comparison, name: CrossCheckName) -> str:
    """The ratio of a check, marked if it disagrees; a dash without the check."""
    for found in comparison.cross_checks:
        if found.name is name:
            mark = "" if found.agrees else f"{WARNING} "
            return mark + fmt.ratio(found.ratio)
    return fmt.NOTHING


def join_names(names: Sequence[str]) -> str:
    """As in `a, b and c`."""
    return " and ".join(part for part in (", ".join(names[:-1]), *names[-1:]) if part)
