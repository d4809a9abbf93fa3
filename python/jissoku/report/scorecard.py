"""The scorecard as one HTML file: all tools side by side, each grade with its evidence."""

from collections.abc import Sequence

from jinja2 import Environment, PackageLoader, StrictUndefined

from jissoku.model.calibration import CalibrationCheck, Score, Scorecard

# Marks of the grades, which do not depend on colour alone.
MARKS = {
    "A": ("a", "A"),
    "B": ("b", "B"),
    "F": ("f", "F"),
    "void": ("void", "void"),
    "not offered": ("none", "\N{EN DASH}"),
    "not testable here": ("none", "n/t"),
    "info": ("info", "info"),
}


def to_html(checks: Sequence[CalibrationCheck], cards: Sequence[Scorecard]) -> str:
    """The whole page; the same cards give the same bytes."""
    environment = Environment(
        loader=PackageLoader("jissoku.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    page = environment.get_template("scorecard.html.j2")
    by_tool = {card.tool: {score.check: score for score in card.scores} for card in cards}
    return page.render(checks=checks, cards=cards, scores=by_tool, marks=MARKS, totals=totals)


def totals(card: Scorecard) -> str:
    """The number of checks of each grade."""
    graded = [score.grade for score in card.scores]
    words = [f"{graded.count(grade)} {grade}" for grade in ("A", "B", "F", "void")]
    return ", ".join(word for word in words if not word.startswith("0 ")) or "nothing graded"


def evidence(score: Score) -> str:
    for grade in ("F", "B"):
        for found in score.evidence:
            if found.grade == grade:
                return f"{found.what}: {found.got}, expected {found.expected} ({found.setup})"
    return score.sentence
