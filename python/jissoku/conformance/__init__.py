"""Protocol cases for any server: sending, observing, evaluating."""

from jissoku.conformance.case import Case, Level, read_all
from jissoku.conformance.exchange import ObservedExchange, run_case
from jissoku.conformance.judge import CaseVerdict, Judgement, judge, worst
from jissoku.conformance.split_points import SplitMode, split_points
from jissoku.conformance.totals import CaseResult, GroupTotals, group_totals, totals

__all__ = [
    "Case",
    "CaseResult",
    "CaseVerdict",
    "GroupTotals",
    "Judgement",
    "Level",
    "ObservedExchange",
    "SplitMode",
    "group_totals",
    "judge",
    "read_all",
    "run_case",
    "split_points",
    "totals",
    "worst",
]
