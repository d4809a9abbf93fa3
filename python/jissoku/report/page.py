"""Self-contained HTML pages: no network, no second file, no clock."""

import re
from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from markupsafe import Markup

from jissoku.model.calibration import CalibrationCheck, Score, Scorecard
from jissoku.model.summary import ReportWarning, Severity, Summary
from jissoku.model.wording import outlook
from jissoku.report import charts, method, svg, tables
from jissoku.report.format import filled, sanitized
from jissoku.report.svg import Chart

CSS_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
# Not before a colon, where a space is a combinator, and not around operators of calc().
CSS_SPACE = re.compile(r"\s*([{};,])\s*|(?<=:)\s+|\s+(?=\s)|\n")


def render(
    template: str,
    *,
    figures: Sequence[Chart],
    extra_policy: str = "",
    record: str = "",
    sheets: Sequence[str] = ("report.css",),
    **values: object,
) -> str:
    """Renders a page: the same values give the same bytes.

    Its policy allows this style sheet and this script, by their hashes, and nothing else: no
    attribute with code or styles, no request. `extra_policy` allows more, such as images inside the
    page. `record` is printed on every sheet of paper.
    """
    style = style_sheet(record, sheets)
    code = script() if figures else ""
    policy = f"default-src 'none'; style-src {_hash(style)}{extra_policy}"
    return filled(
        template,
        figures=figures,
        policy=Markup(policy + (f"; script-src {_hash(code)}" if code else "")),  # noqa: S704
        style=Markup(style),  # noqa: S704 - ours
        script=Markup(code),  # noqa: S704 - ours
        shapes=svg.shapes() if figures else "",
        **values,
    )


def style_sheet(record: str = "", sheets: Sequence[str] = ("report.css",)) -> str:
    """The style sheets of a page, without the spaces and line ends that only people need.

    `record` is the hash of the records behind the page, in hexadecimal digits.
    """
    text = "\n".join(filled(one, room_max=svg.ROOM_MAX, record=record) for one in sheets)
    return CSS_SPACE.sub(r"\1", CSS_COMMENT.sub("", text)).strip()


def script() -> str:
    return filled("report.js")


def content(whole: str) -> Markup:
    """The body of a page made by `render`, to be included in another page."""
    _, _, rest = whole.partition("<body>\n")
    body, _, _ = rest.partition("</main>")
    shapes, _, main = body.partition("<main>")
    return Markup(shapes + main)  # noqa: S704 - ours, and escaped by `render`


def with_footer(whole: str, text: str, command: str, links: Sequence[tuple[str, str]]) -> str:
    """A page made by `render` with a last line: text, a command, and (name, file) of each link."""
    joined = Markup(", ").join(Markup('<a href="{}">{}</a>').format(to, name) for name, to in links)
    footer = Markup('<footer><p class="fine">{} <code>{}</code>. {}</p></footer>\n</main>')
    return whole.replace("</main>", footer.format(text, command, joined))


def _hash(text: str) -> str:
    """The hash of a source in a content security policy (CSP level 3, section 2.3.1)."""
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def to_html(summary: Summary, trials_sha256: str = "") -> str:
    """The same summary gives the same bytes; on paper they name the trials' file by its hash."""
    summary = sanitized(summary)
    names = [arm.name for arm in summary.run.arms]
    pairs = [(title, tables.pairs(summary.by(m))) for m, title in tables.METRIC_NAMES.items()]
    return render(
        "report.html.j2",
        figures=charts.charts(summary),
        record=trials_sha256,
        summary=summary,
        run=summary.run,
        names=", ".join([name for name in names if name != summary.run.floor] or names),
        loads=tables.at_loads(summary),
        facts=tables.facts(summary),
        against=_against(summary),
        grids=tables.grids(summary),
        pairs=[(title, table) for title, table in pairs if table.rows],
        matrix_names=tables.matrix_names(summary),
        matrix=tables.pair_matrix(summary),
        controls=tables.controls(summary),
        measured=method.describe_method(summary),
        machine=method.machine(summary.run),
        asked=method.describe_load(summary.run),
        trials=method.trials(summary),
        **warnings(summary.warnings),
    )


def warnings(found: Sequence[ReportWarning]) -> dict[str, Any]:
    return {
        "alarms": [one for one in found if one.severity is not Severity.NOTE],
        "notes": [one for one in found if one.severity is Severity.NOTE],
    }


def _against(summary: Summary) -> list[tuple[str, tuple[str, ...], tuple[str, ...], bool]]:
    """(sentence, remarks, checks that disagree, says no more than its cell), for the baseline."""
    return [
        (
            c.sentence,
            c.remarks if c.ratio else (),
            tables.disagreements(c),
            bool(c.ratio) and not c.remarks and not outlook(c),
        )
        for metric in tables.METRIC_NAMES
        for c in tables.against(summary, metric)
    ]


def scorecard_html(checks: Sequence[CalibrationCheck], cards: Sequence[Scorecard]) -> str:
    by_tool = {card.tool: {score.check: score for score in card.scores} for card in cards}
    return filled("scorecard.html.j2", checks=checks, cards=cards, scores=by_tool, totals=totals)


def totals(card: Scorecard) -> str:
    graded = [score.grade for score in card.scores]
    words = [f"{graded.count(grade)} {grade}" for grade in ("A", "B", "F", "void")]
    return ", ".join(word for word in words if not word.startswith("0 ")) or "nothing graded"


def evidence(score: Score) -> str:
    for grade in ("F", "B"):
        for found in score.evidence:
            if found.grade == grade:
                return f"{found.what}: {found.got}, expected {found.expected} ({found.setup})"
    return score.sentence
