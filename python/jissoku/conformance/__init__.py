"""Protocol cases for any server: sending, observing, evaluating."""

from jissoku.conformance.case import Case, Level, read_all
from jissoku.conformance.exchange import ObservedExchange, run_case
from jissoku.conformance.judge import CaseVerdict, Judgement, judge, worst
from jissoku.conformance.split_points import SplitMode, split_points

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
