"""A run in sentences: its headline, ranks and advice."""

from collections.abc import Callable, Iterator, Sequence

from jissoku.inference.compare import ranked_arms
from jissoku.inference.decision import beside, format_ratio
from jissoku.model import Load, Run, join_names, plural
from jissoku.model.summary import ArmSummary, Comparison, MeasurementStatus, Metric, Verdict


def headline(
    run: Run,
    arm_summaries: Sequence[ArmSummary],
    comparisons: Sequence[Comparison],
    main: Load | None,
) -> str:
    """The result of the comparison in one sentence.

    Summaries come cheapest first at the main load. With two arms there is one comparison a load,
    and the main load's is the answer; with more, the ends of the ranking are.
    """
    costs = [one for one in comparisons if one.metric is Metric.COST]
    here = [one for one in costs if one.load == main]
    has_figures = any(known.status is MeasurementStatus.MEASURED for known in arm_summaries)
    ends = [s.end.reason for s in arm_summaries if s.end and s.arm.name in ranked_arms(run)]
    if len(here) == 1 and has_figures and here[0].verdict is not Verdict.INVALID:
        return "; ".join((here[0].sentence, *_changes(costs, main), *ends)) + "."
    ranked = [
        s for s in arm_summaries if (point := s.at(main)) is not None and point.rank is not None
    ]
    if not ranked or main is None:
        return _nothing(run, arm_summaries, costs)
    parts = [*_first_and_last(ranked, here, main), *_changes(costs, main), *_conditions(here)]
    broken = [s.arm.name for s in arm_summaries if s.status is not MeasurementStatus.MEASURED]
    if broken:
        parts.append(f"{join_names(broken)} {plural(len(broken), 'has', 'have')} no result")
    return "; ".join((*parts, *ends)) + "."


def _first_and_last(
    ranked: Sequence[ArmSummary], costs: Sequence[Comparison], main: Load
) -> Iterator[str]:
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
    behind = [("next", second), ("last", rest[-1].arm.name)]
    for place, name in behind[: len(rest)]:
        leader = _proven_leader(costs, leaders, name)
        yield f"{place} is {_ratio_text(name, _between(costs, leader, name), leader)}"


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
            pair = other.arm, other.against
            less, more = pair if other.ratio.value < 1 else pair[::-1]
            found.setdefault(other.load.text, []).append(f"{less} uses less than {more}")
    for load, orders in found.items():
        yield f"the order changes with the load: at {load} {', '.join(orders)}"


def _conditions(costs: Sequence[Comparison]) -> Iterator[str]:
    """What ran beside the measurement, unless all ratios are without its delays."""
    found = {one.is_calm: beside(one) for one in costs}
    if text := found.get(False) or found.get(True):
        yield f"all of it {text.removeprefix(', ')}"


def _between(costs: Sequence[Comparison], one: str, other: str) -> Comparison | None:
    return next((c for c in costs if {c.arm, c.against} == {one, other}), None)


def _proven_leader(costs: Sequence[Comparison], leaders: Sequence[str], name: str) -> str:
    """The first of the leaders that is proven to use less than the arm, else the first of all.

    So the ratio shows why the arm is behind; where none does, a third one lies between.
    """
    pairs = ((leader, _between(costs, leader, name)) for leader in leaders)
    return next((leader for leader, pair in pairs if pair and pair.proven), leaders[0])


def _ratio_text(name: str, found: Comparison | None, leader: str) -> str:
    if found is None or found.ratio is None:
        return name
    ratio = found.ratio if found.arm == name else found.ratio.inverse
    return f"{name} with {format_ratio(ratio)} the CPU time of {leader}"


def _nothing(run: Run, arm_summaries: Sequence[ArmSummary], costs: Sequence[Comparison]) -> str:
    lost = {MeasurementStatus.FAILED, MeasurementStatus.INVALID}
    broken = [s.arm.name for s in arm_summaries if s.status in lost]
    if broken and len(broken) == len(run.arms):
        return "No target has a valid result: all failed."
    if broken:
        verb = plural(len(broken), "has", "have")
        return f"No ranking: {join_names(broken)} {verb} no valid result."
    slow = dict.fromkeys(c.remarks[0] for c in costs if c.verdict is Verdict.UNREACHED)
    if slow:
        return f"No verdict: {'; '.join(slow)}."
    reasons = {c.remarks[:1] for c in costs if c.verdict is Verdict.INVALID}
    if len(reasons) == 1:
        (reason,) = reasons.pop() or ("the trials are invalid",)
        return f"No verdict: {reason}."
    return "No ranking: too few trials are valid."


def ranks(ordered: Sequence[str], is_apart: Callable[[str, str], bool]) -> dict[str, int]:
    """One more than the number of arms that are proven to be better, in the order of names.

    An arm is proven to be better than another if their comparison shows it, or if a third is proven
    to lie between them. So the order of ranks never contradicts a proven comparison, and arms of
    which none is proven to be better share a rank.
    """
    better: dict[str, set[str]] = {}
    for index, name in enumerate(ordered):
        above = [other for other in ordered[:index] if is_apart(other, name)]
        better[name] = set(above).union(*(better[other] for other in above))
    return {name: 1 + len(better[name]) for name in ordered}


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
    found = [
        *_at_loads(Metric.COST, loads, field, comparisons),
        *_at_loads(Metric.P99, loads, field, comparisons),
    ]
    if best := _best([c for c in comparisons if c.metric is Metric.CAPACITY], field):
        found.append(f"{BETTER[Metric.CAPACITY]}: {best}.")
    return (*found, *_slow(run, arm_summaries, field), *_undecided(comparisons))


def _slow(run: Run, arm_summaries: Sequence[ArmSummary], field: Sequence[str]) -> Iterator[str]:
    """The lightest load that arms do not reach, in one sentence for those of the same load."""
    slow: dict[Load, list[str]] = {}
    for known in arm_summaries:
        if known.arm.name in {*field, run.floor} and known.unreached:
            slow.setdefault(known.unreached[0], []).append(known.arm.name)
    for load, names in slow.items():
        if run.floor in names and {*field} <= {*names}:
            yield f"No target reaches {load.text}, nor does the floor: the machine is too slow."
        elif targets := [name for name in names if name in field]:
            verb = plural(len(targets), "does", "do")
            yield f"{join_names(targets)} {verb} not reach {load.text}."


def _at_loads(
    metric: Metric, loads: Sequence[Load], field: Sequence[str], comparisons: Sequence[Comparison]
) -> Iterator[str]:
    """One sentence for all loads; those with the same answer are named together."""
    found: dict[str, list[str]] = {}
    for load in loads:
        here = [c for c in comparisons if c.metric is metric and c.load == load]
        if best := _best(here, field):
            found.setdefault(best, []).append(load.text)
    if found:
        text = "; ".join(f"{best} at {join_names(at)}" for best, at in found.items())
        yield f"{BETTER[metric]}: {text}."


def _best(comparisons: Sequence[Comparison], field: Sequence[str]) -> str:
    """The arms not proven worse than another; empty where no difference is proven."""
    mine = [c for c in comparisons if c.ratio]
    known = [name for name in field if any(name in {c.arm, c.against} for c in mine)]
    worse = {
        c.arm if (c.ratio.value > 1) == c.metric.less_is_better else c.against
        for c in mine
        if c.proven and c.ratio
    }
    best = [name for name in known if name not in worse]
    if not best or len(best) == len(known):
        return ""
    return join_names(best) + (" (no difference shown)" if len(best) > 1 else "")


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
