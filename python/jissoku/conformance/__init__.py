"""Protocol cases for any server: sending, observing, evaluating."""

from jissoku.conformance.case import Case, Level, read_all
from jissoku.conformance.exchange import ObservedExchange, SplitMode, run_case, split_points
from jissoku.conformance.judge import CaseVerdict, Judgement, judge, worst

__all__ = [
    "Case",
    "CaseVerdict",
    "Judgement",
    "Level",
    "ObservedExchange",
    "SplitMode",
    "judge",
    "read_all",
    "run_case",
    "split_points",
    "worst",
]
