"""A whole run in one sentence."""

from collections.abc import Iterator, Sequence

from jissoku.model import Comparison, Run, Standing, Status, Verdict
from jissoku.stats.sentence import times


def headline(run: Run, standings: Sequence[Standing], comparisons: Sequence[Comparison]) -> str:
    """What a person would be told who asks how the race ended.

    `standings` come cheapest first. With two contestants there is one comparison, and it is the
    answer; with more, the ends of the ranking are.
    """
    has_figures = any(known.status is Status.MEASURED for known in standings)
    if len(comparisons) == 1 and has_figures and comparisons[0].verdict is not Verdict.INVALID:
        return f"{comparisons[0].sentence}."
    ranked = [known for known in standings if known.rank is not None]
    if not ranked:
        return _nothing(run, standings, comparisons)
    return "; ".join((*_ends(ranked, comparisons), *_left_out(standings))) + "."


def _ends(ranked: Sequence[Standing], comparisons: Sequence[Comparison]) -> Iterator[str]:
    """Who leads, who comes next, who is last."""
    leaders = [known.arm.name for known in ranked if known.rank == 1]
    rest = ranked[len(leaders) :]
    if not rest:
        yield f"{_list(leaders)} cannot be told apart by their CPU per request"
        return
    if len(leaders) > 1:
        yield f"{_list(leaders)} use the least CPU per request and cannot be told apart"
    else:
        yield f"{leaders[0]} uses the least CPU per request of {len(ranked)} targets, proven"
    yield f"next is {_distance(rest[0], comparisons, leaders[0])}"
    if len(rest) > 1:
        yield f"last is {_distance(rest[-1], comparisons, leaders[0])}"


def _left_out(standings: Sequence[Standing]) -> Iterator[str]:
    broken = [s.arm.name for s in standings if s.status is not Status.MEASURED]
    if broken:
        yield f"{_list(broken)} gave no number"


def _distance(known: Standing, comparisons: Sequence[Comparison], leader: str) -> str:
    name = known.arm.name
    for found in comparisons:
        if found.ratio is None or {found.arm, found.against} != {name, leader}:
            continue
        ratio = found.ratio if found.arm == name else found.ratio.inverse
        return f"{name} with {times(ratio)} the CPU of {leader}"
    return name


def _nothing(run: Run, standings: Sequence[Standing], comparisons: Sequence[Comparison]) -> str:
    broken = [s.arm.name for s in standings if s.status in (Status.FAILED, Status.INVALID)]
    if broken and len(broken) == len(run.arms):
        return "No target gave a number that counts: every one failed."
    if broken:
        return f"No ranking: {_list(broken)} gave no number that counts."
    reasons = {c.remarks[:1] for c in comparisons if c.verdict is Verdict.INVALID}
    if len(reasons) == 1:
        (reason,) = reasons.pop() or ("the trials are invalid",)
        return f"No verdict: {reason}."
    return "No ranking: too few trials counted."


def _list(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
