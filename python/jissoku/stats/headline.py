"""A run in one sentence: the target with the lowest cost, and whether that depends on the load."""

from collections.abc import Iterator, Sequence

from jissoku.model import ArmSummary, Comparison, Load, MeasurementStatus, Metric, Run, Verdict
from jissoku.stats.comparison_text import format_ratio


def headline(
    run: Run,
    arm_summaries: Sequence[ArmSummary],
    comparisons: Sequence[Comparison],
    main: Load | None,
) -> str:
    """The result of the comparison in one sentence.

    `standings` come cheapest first at the main load. With two arms there is one comparison a
    load, and the main load's is the answer; with more, the ends of the ranking are.
    """
    costs = [one for one in comparisons if one.metric is Metric.COST]
    here = [one for one in costs if one.load == main]
    has_figures = any(known.status is MeasurementStatus.MEASURED for known in arm_summaries)
    if len(here) == 1 and has_figures and here[0].verdict is not Verdict.INVALID:
        return "; ".join((here[0].sentence, *_changes(costs, main))) + "."
    ranked = [
        s for s in arm_summaries if (point := s.at(main)) is not None and point.rank is not None
    ]
    if not ranked or main is None:
        return _nothing(run, arm_summaries, costs)
    parts = (
        *_first_and_last(ranked, here, main),
        *_changes(costs, main),
        *_without_result(arm_summaries),
    )
    return "; ".join(parts) + "."


def _first_and_last(
    ranked: Sequence[ArmSummary], costs: Sequence[Comparison], main: Load
) -> Iterator[str]:
    """The first, the second and the last target."""
    leaders = [s.arm.name for s in ranked if (p := s.at(main)) is not None and p.rank == 1]
    rest = [s for s in ranked if s.arm.name not in leaders]
    at = f"At {main.text}"
    if not rest:
        yield f"{at} {join_names(leaders)} are not separated by CPU time per request"
        return
    first, second = leaders[0], rest[0].arm.name
    found = _between(costs, first, second)
    if len(leaders) > 1:
        yield (
            f"{at} none is proven to use less CPU time per request than {join_names(leaders)},"
            " which are not separated"
        )
    elif found is not None and found.verdict.is_slight:
        # No more is proven than the verdict between the first two says.
        yield (
            f"{at} {first} uses slightly less CPU time per request than {second}, the next of"
            f" {len(ranked)} (proven)"
        )
    else:
        yield f"{at} {first} uses the least CPU time per request of {len(ranked)} (proven)"
    yield f"next is {_ratio_text(second, found, first)}"
    if len(rest) > 1:
        last = rest[-1].arm.name
        yield f"last is {_ratio_text(last, _between(costs, first, last), first)}"


def _changes(costs: Sequence[Comparison], main: Load | None) -> Iterator[str]:
    """Pairs whose order is proven the other way round at another load."""
    at_main = {(c.arm, c.against): c for c in costs if c.load == main}
    found: dict[str, list[str]] = {}
    for other in costs:
        mine = at_main.get((other.arm, other.against))
        if mine is None or other.load == main or not (mine.proven and other.proven):
            continue
        assert mine.ratio is not None, "a proven comparison has a ratio"
        assert other.ratio is not None, "a proven comparison has a ratio"
        if (mine.ratio.value > 1) != (other.ratio.value > 1):
            less = other.arm if other.ratio.value < 1 else other.against
            more = other.against if less == other.arm else other.arm
            found.setdefault(other.load.text, []).append(f"{less} uses less than {more}")
    for load, orders in found.items():
        yield f"the order changes with the load: at {load} {', '.join(orders)}"


def _without_result(arm_summaries: Sequence[ArmSummary]) -> Iterator[str]:
    broken = [s.arm.name for s in arm_summaries if s.status is not MeasurementStatus.MEASURED]
    if broken:
        yield f"{join_names(broken)} has no result"


def _between(costs: Sequence[Comparison], one: str, other: str) -> Comparison | None:
    return next((c for c in costs if {c.arm, c.against} == {one, other}), None)


def _ratio_text(name: str, found: Comparison | None, leader: str) -> str:
    if found is None or found.ratio is None:
        return name
    ratio = found.ratio if found.arm == name else found.ratio.inverse
    return f"{name} with {format_ratio(ratio)} the CPU time of {leader}"


def _nothing(run: Run, arm_summaries: Sequence[ArmSummary], costs: Sequence[Comparison]) -> str:
    broken = [
        s.arm.name
        for s in arm_summaries
        if s.status in (MeasurementStatus.FAILED, MeasurementStatus.INVALID)
    ]
    if broken and len(broken) == len(run.arms):
        return "No target has a valid result: all failed."
    if broken:
        return f"No ranking: {join_names(broken)} has no valid result."
    reasons = {c.remarks[:1] for c in costs if c.verdict is Verdict.INVALID}
    if len(reasons) == 1:
        (reason,) = reasons.pop() or ("the trials are invalid",)
        return f"No verdict: {reason}."
    return "No ranking: too few trials are valid."


def join_names(found: Sequence[str]) -> str:
    """As in `a, b and c`."""
    return found[0] if len(found) == 1 else f"{', '.join(found[:-1])} and {found[-1]}"
