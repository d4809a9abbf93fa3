"""Renders a summary: terminal, JSON, HTML. Nothing is computed or read here."""

from jissoku.report.format import to_json
from jissoku.report.live import LiveState, LiveTable, live_table
from jissoku.report.page import to_html
from jissoku.report.sweep import sweep_renderable, sweep_to_html, sweep_to_json, sweep_to_text
from jissoku.report.terminal import brief, renderable, to_text
from jissoku.report.tuning import tuning_to_json, tuning_to_text

__all__ = [
    "LiveState",
    "LiveTable",
    "brief",
    "live_table",
    "renderable",
    "sweep_renderable",
    "sweep_to_html",
    "sweep_to_json",
    "sweep_to_text",
    "to_html",
    "to_json",
    "to_text",
    "tuning_to_json",
    "tuning_to_text",
]
