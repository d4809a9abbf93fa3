"""Load generators held against the oracle: checks and tools as data, grades, the scorecard."""

from jissoku.calibrate.check import CalibrationCheck, read_checks
from jissoku.calibrate.record import Score, Scorecard, read_cards, write_card
from jissoku.calibrate.run import ScenarioResult, ScenarioRunner
from jissoku.calibrate.score import Grade, score
from jissoku.calibrate.scorecard_html import to_html
from jissoku.calibrate.tool import Tool, find_tool, read_tools

__all__ = [
    "CalibrationCheck",
    "Grade",
    "ScenarioResult",
    "ScenarioRunner",
    "Score",
    "Scorecard",
    "Tool",
    "find_tool",
    "read_cards",
    "read_checks",
    "read_tools",
    "score",
    "to_html",
    "write_card",
]
