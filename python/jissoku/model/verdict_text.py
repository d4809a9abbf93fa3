"""Verdicts in words, per metric: CPU is used, answers come sooner or later, requests are taken."""

from jissoku.model.summary import Metric, Verdict

# A lower figure, and a higher one.
DIFFERENCES = {
    Metric.COST: ("uses less CPU", "uses more CPU"),
    Metric.P50: ("answers sooner", "answers later"),
    Metric.P99: ("answers sooner", "answers later"),
    Metric.CAPACITY: ("takes fewer requests", "takes more requests"),
    Metric.TIME: ("needs less time", "needs more time"),
}


def verdict_text(metric: Metric, verdict: Verdict) -> str:
    """As in `uses less CPU`; verdicts other than differences are the same for every metric."""
    if not verdict.is_difference:
        return str(verdict)
    lower, higher = DIFFERENCES[metric]
    return (lower if verdict.is_lower else higher) + (", slightly" if verdict.is_slight else "")
