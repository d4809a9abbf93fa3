"""The report as one HTML file that needs nothing else: no network, no second file, no clock."""

import json
import re

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from plotly.offline import get_plotlyjs  # type: ignore[import-untyped]

from jissoku.model import Summary, Weight
from jissoku.report import chart, matrix, method, palette, tables
from jissoku.report.scrub import scrubbed

# A factor, or the interval behind it.
INTERVAL = re.compile(r"[0-9.,]+ \N{MULTIPLICATION SIGN}|\[[0-9.,]+ [0-9.,]+\]")


def to_html(summary: Summary, *, library: str | None = None) -> str:
    """The whole page; the same summary always gives the same bytes.

    Args:
        summary: What to show.
        library: The plotting library's source; plotly's own by default. Tests give a stand-in.
    """
    summary = scrubbed(summary)
    figures = chart.figures(summary)
    page = environment().get_template("report.html.j2")
    return page.render(
        summary=summary,
        run=summary.run,
        names=_contestants(summary),
        alarms=[flag for flag in summary.flags if flag.weight is not Weight.NOTE],
        notes=[flag for flag in summary.flags if flag.weight is Weight.NOTE],
        against=[c for c in summary.comparisons if c.against == summary.run.baseline],
        figures=figures,
        ranking=tables.ranking(summary),
        matrix_names=matrix.names(summary),
        matrix=matrix.rows(summary),
        pairs=tables.verdicts(summary.comparisons),
        measured=method.measured(summary),
        machine=method.machine(summary.run),
        asked=method.asked(summary.run),
        trials=method.trials(summary),
        data=script_json({
            "theme": palette.THEME,
            "figures": [{"name": f.name, "plot": f.plot} for f in figures],
        }),
        library=Markup(get_plotlyjs() if library is None else library),  # noqa: S704 - plotly's own
    )  # fmt: skip


def environment() -> Environment:
    """Where the templates are, and how they are filled."""
    found = Environment(
        loader=PackageLoader("jissoku.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    found.filters["together"] = _together
    return found


def script_json(value: object) -> Markup:
    """Makes JSON that cannot end the script element it stands in (HTML, section 4.12.1.3)."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))  # noqa: S704


def _together(text: str) -> str:
    """Keeps the parts of an interval on one line."""
    return INTERVAL.sub(lambda found: found[0].replace(" ", "\N{NO-BREAK SPACE}"), text)


def _contestants(summary: Summary) -> str:
    names = [arm.name for arm in summary.run.arms if arm.name != summary.run.floor]
    return ", ".join(names or [arm.name for arm in summary.run.arms])
