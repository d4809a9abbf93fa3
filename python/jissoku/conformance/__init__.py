"""Protocol cases against any server: what is sent, what is seen, what it means."""

from jissoku.conformance.case import Case, Level, read_all
from jissoku.conformance.dialogue import Seen, hold
from jissoku.conformance.judge import Judgement, Verdict, judge, worst
from jissoku.conformance.pieces import Sending, cuts
from jissoku.conformance.tally import Group, Result, groups, totals

__all__ = [
    "Case",
    "Group",
    "Judgement",
    "Level",
    "Result",
    "Seen",
    "Sending",
    "Verdict",
    "cuts",
    "groups",
    "hold",
    "judge",
    "read_all",
    "totals",
    "worst",
]
