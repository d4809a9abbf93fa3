"""The verdicts of all cases, counted by the part of the standard that they are about."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from jissoku.conformance.case import Case
from jissoku.conformance.judge import Judgement, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What became of one case."""

    case: Case
    judgement: Judgement


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The cases of one file, counted."""

    title: str
    counts: Counter[Verdict]


def groups(results: Sequence[Result]) -> list[Group]:
    """Counts by group, in the order in which the groups come."""
    titles = dict.fromkeys(result.case.group for result in results)
    return [
        Group(title=title, counts=totals([r for r in results if r.case.group == title]))
        for title in titles
    ]


def totals(results: Sequence[Result]) -> Counter[Verdict]:
    """Counts all."""
    return Counter(result.judgement.verdict for result in results)
