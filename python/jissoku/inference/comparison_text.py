"""Comparisons in sentences, the same in every kind of report."""

from jissoku.model import Comparison, Condition, Estimate, Metric
from jissoku.model.verdict_text import outlook, verdict_text

METRIC_NAMES = {
    Metric.COST: "the CPU time per request",
    Metric.P50: "the median latency",
    Metric.P99: "the p99 latency",
    Metric.CAPACITY: "the capacity",
    Metric.TIME: "the time per answer",
}


def format_ratio(estimate: Estimate) -> str:
    """The factor with its interval, for readers."""
    value, interval = estimate.text.split(" ", 1)
    return f"{value} \N{MULTIPLICATION SIGN} {interval}"


def comparison_text(comparison: Comparison) -> str:
    """The sentence of a comparison: the ratio and the verdict."""
    arm, against, verdict = comparison.arm, comparison.against, comparison.verdict
    at = f" at {comparison.load.text}" if comparison.metric is not Metric.CAPACITY else ""
    if comparison.ratio is None:
        reason = f" ({comparison.remarks[0]})" if comparison.remarks else ""
        return f"{arm} compared with {against}{at}: {verdict}{reason}"
    verb = "uses" if comparison.metric is Metric.COST else "has"
    ratio, metric = format_ratio(comparison.ratio), METRIC_NAMES[comparison.metric]
    has = f"{arm} {verb} {ratio} {metric} of {against}{at}"
    return (
        f"{has}: {verdict_text(comparison.metric, verdict)}{_certainty(comparison)}"
        f"{beside(comparison)}"
    )


def _certainty(comparison: Comparison) -> str:
    """In brackets: proven, or what would prove it with all comparisons counted."""
    if comparison.is_decided:
        return " (proven)"
    more = outlook(comparison) if comparison.p_value is not None else ""
    return f" ({more})" if more else ""


def beside(comparison: Comparison) -> str:
    """The condition of a verdict, as the end of its sentence; empty on quiet cores."""
    if comparison.condition is Condition.QUIET:
        return ""
    if comparison.is_calm:
        return ", in time slices in which no other program delayed it"
    share = f"{100 * comparison.other_programs:.0f} %"
    return f", beside other programs that used {share} of the cores"
