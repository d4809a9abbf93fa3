"""Headings of metrics, and the marks of verdicts and checks in reports."""

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

TONES = {
    Verdict.EQUAL: "same",
    Verdict.INCONCLUSIVE: "open",
    Verdict.DISPUTED: "open",
    Verdict.INVALID: "broken",
    Verdict.FAILED: "broken",
}
WARNING = "\N{WARNING SIGN}"


def tone(metric: Metric, answer: Verdict) -> str:
    """Better, worse, same, open or broken: the class for the style sheet's colours."""
    if not answer.is_difference:
        return TONES[answer]
    return "better" if answer.is_lower is metric.less_is_better else "worse"


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
