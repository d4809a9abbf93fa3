"""Which target to choose for which load, and what is not known: a few sentences."""

from collections.abc import Iterator, Sequence

from jissoku.model import ArmSummary, Comparison, Load, MeasurementStatus, Metric, Run, Verdict
from jissoku.stats.compare import ranked_arms
from jissoku.stats.headline import join_names

BETTER = {
    Metric.COST: "Least CPU time per request",
    Metric.P99: "Shortest p99 latency",
    Metric.CAPACITY: "Highest capacity",
}

# Pairs that are named where nothing was decided; the rest is counted.
UNDECIDED_NAMED = 4


def advice(
    run: Run,
    arm_summaries: Sequence[ArmSummary],
    comparisons: Sequence[Comparison],
    loads: Sequence[Load],
) -> tuple[str, ...]:
    """Names the best of each metric at each load; nothing where fewer than two were measured."""
    field = [
        s.arm.name
        for s in arm_summaries
        if s.arm.name in ranked_arms(run) and s.status is MeasurementStatus.MEASURED
    ]
    if len(field) < 2:
        return ()
    return (
        *_at_loads(Metric.COST, loads, field, comparisons),
        *_at_loads(Metric.P99, loads, field, comparisons),
        *_overall(Metric.CAPACITY, field, comparisons),
        *_unreached(arm_summaries, field),
        *_undecided(comparisons),
    )


def _at_loads(
    metric: Metric, loads: Sequence[Load], field: Sequence[str], comparisons: Sequence[Comparison]
) -> Iterator[str]:
    """One sentence for all loads; those with the same answer are named together."""
    found: dict[str, list[str]] = {}
    for load in loads:
        here = [c for c in comparisons if c.metric is metric and c.load == load]
        best = _best(here, field)
        if best:
            found.setdefault(best, []).append(load.text)
    if found:
        text = "; ".join(f"{best} at {join_names(at)}" for best, at in found.items())
        yield f"{BETTER[metric]}: {text}."


def _overall(
    metric: Metric, field: Sequence[str], comparisons: Sequence[Comparison]
) -> Iterator[str]:
    best = _best([c for c in comparisons if c.metric is metric], field)
    if best:
        yield f"{BETTER[metric]}: {best}."


def _best(comparisons: Sequence[Comparison], field: Sequence[str]) -> str:
    """The arms not proven worse than another; empty where no difference is proven."""
    mine = [c for c in comparisons if c.ratio]
    known = [name for name in field if any(name in {c.arm, c.against} for c in mine)]
    worse = {_worse(c) for c in mine if c.proven}
    best = [name for name in known if name not in worse]
    if not best or len(best) == len(known):
        return ""
    return join_names(best) + (" (no difference shown)" if len(best) > 1 else "")


def _worse(found: Comparison) -> str:
    assert found.ratio is not None, "a proven comparison has a ratio"
    is_arm = (found.ratio.value > 1) == found.metric.less_is_better
    return found.arm if is_arm else found.against


def _unreached(arm_summaries: Sequence[ArmSummary], field: Sequence[str]) -> Iterator[str]:
    for known in arm_summaries:
        if known.arm.name in field and known.unreached:
            yield f"{known.arm.name} does not reach {known.unreached[0].text}."


def _undecided(comparisons: Sequence[Comparison]) -> Iterator[str]:
    found = [
        f"{c.arm} / {c.against} at {c.load.text}"
        for c in comparisons
        if c.metric is Metric.COST and c.verdict in {Verdict.INCONCLUSIVE, Verdict.DISPUTED}
    ]
    if found:
        more = len(found) - UNDECIDED_NAMED
        text = ", ".join(found[:UNDECIDED_NAMED]) + (f" and {more} more" if more > 0 else "")
        yield f"Not decided by CPU time per request: {text}."
