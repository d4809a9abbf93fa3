"""The verdicts of all cases, counted by section of the standard."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from jissoku.conformance.case import Case
from jissoku.conformance.judge import CaseVerdict, Judgement


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseResult:
    """One case and its judgement."""

    case: Case
    judgement: Judgement


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTotals:
    """The cases of one file, counted."""

    title: str
    counts: Counter[CaseVerdict]


def group_totals(results: Sequence[CaseResult]) -> list[GroupTotals]:
    """Counts by group, in the order in which the groups come."""
    titles = dict.fromkeys(result.case.group for result in results)
    return [
        GroupTotals(title=title, counts=totals([r for r in results if r.case.group == title]))
        for title in titles
    ]


def totals(results: Sequence[CaseResult]) -> Counter[CaseVerdict]:
    """Counts all."""
    return Counter(result.judgement.verdict for result in results)
