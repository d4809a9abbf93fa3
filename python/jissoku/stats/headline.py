"""A whole run in one sentence."""

from collections.abc import Sequence

from jissoku.model import Comparison, Run, Standing, Status
from jissoku.stats.sentence import times


def headline(run: Run, standings: Sequence[Standing], comparisons: Sequence[Comparison]) -> str:
    """What a person would be told who asks how the race ended.

    `standings` come cheapest first. With two contestants there is one comparison, and it is the
    answer; with more, the ends of the ranking are.
    """
    has_figures = any(known.status is Status.MEASURED for known in standings)
    if len(comparisons) == 1 and has_figures:
        return f"{comparisons[0].sentence}."
    ranked = [known for known in standings if known.rank is not None]
    if not ranked:
        return _nothing(run, standings)
    leaders = [known.arm.name for known in ranked if known.rank == 1]
    if len(leaders) == len(ranked):
        return f"{_list(leaders)} cannot be told apart by their CPU per request."
    if len(leaders) > 1:
        start = f"{_list(leaders)} use the least CPU per request and cannot be told apart"
        return f"{start}; next is {_distance(ranked[len(leaders)], comparisons, leaders[0])}."
    first, rest = leaders[0], ranked[1:]
    parts = [f"{first} uses the least CPU per request of {len(ranked)} targets, proven"]
    parts.append(f"next is {_distance(rest[0], comparisons, first)}")
    if len(rest) > 1:
        parts.append(f"last is {_distance(rest[-1], comparisons, first)}")
    broken = [s.arm.name for s in standings if s.status is not Status.MEASURED]
    if broken:
        parts.append(f"{_list(broken)} gave no number")
    return "; ".join(parts) + "."


def _distance(known: Standing, comparisons: Sequence[Comparison], leader: str) -> str:
    name = known.arm.name
    for found in comparisons:
        if found.ratio is None or {found.arm, found.against} != {name, leader}:
            continue
        ratio = found.ratio if found.arm == name else found.ratio.inverse
        return f"{name} with {times(ratio)} the CPU of {leader}"
    return name


def _nothing(run: Run, standings: Sequence[Standing]) -> str:
    broken = [s.arm.name for s in standings if s.status in (Status.FAILED, Status.INVALID)]
    if broken and len(broken) == len(run.arms):
        return "No target gave a number that counts: every one failed."
    if broken:
        return f"No ranking: {_list(broken)} gave no number that counts."
    return "No ranking: too few trials counted."


def _list(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
