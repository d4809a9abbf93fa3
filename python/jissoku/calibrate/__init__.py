"""Load generators held against the oracle: checks and tools as data, grades, the scorecard."""

from jissoku.calibrate.check import Check, read_checks
from jissoku.calibrate.page import to_html
from jissoku.calibrate.record import Score, Scorecard, read_cards, write_card
from jissoku.calibrate.run import Bench, Outcome
from jissoku.calibrate.score import Grade, score
from jissoku.calibrate.tool import Tool, find, read_tools

__all__ = [
    "Bench",
    "Check",
    "Grade",
    "Outcome",
    "Score",
    "Scorecard",
    "Tool",
    "find",
    "read_cards",
    "read_checks",
    "read_tools",
    "score",
    "to_html",
    "write_card",
]
