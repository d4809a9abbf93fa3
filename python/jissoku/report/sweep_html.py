"""A sweep's report as one HTML file that needs nothing else."""

from markupsafe import Markup
from plotly.offline import get_plotlyjs  # type: ignore[import-untyped]

from jissoku.model import SweepSummary, Weight
from jissoku.report import method, palette, sweep_tables as tables
from jissoku.report.html import environment, script_json
from jissoku.report.scrub import scrubbed
from jissoku.report.sweep_chart import sweep_figures
from jissoku.report.sweep_text import asked

DESIGN = (
    "Every trial is a fresh process of the target alone on its cores; each block holds every target"
    " at every level once, in random order. Means and their intervals are of the blocks'"
    " logarithms, by Student's t."
)
LAW = (
    "The law is X(N) = k N / (1 + a (N - 1) + b N (N - 1)), fitted to the logarithms of the rates"
    " with a and b at least zero. Its intervals come from whole blocks drawn again a thousand"
    " times, widened for their small number. Only levels in which at least three blocks count and"
    " the stopwatch was at most 80 % busy are fitted, and at least six of them."
)
LIMITS = (
    "A peak is given only where b's interval excludes zero. Neither a peak nor a forecast is given"
    " where the law misses a level by more than 5 % and more than noise explains, or beyond twice"
    " the highest level measured; a forecast must also be known within 10 %."
)


def sweep_to_html(summary: SweepSummary, *, library: str | None = None) -> str:
    """The whole page; the same summary always gives the same bytes.

    Args:
        summary: What to show.
        library: The plotting library's source; plotly's own by default. Tests give a stand-in.
    """
    summary = scrubbed(summary)
    figures = sweep_figures(summary)
    page = environment().get_template("sweep.html.j2")
    return page.render(
        summary=summary,
        run=summary.run,
        names=", ".join(climb.arm.name for climb in summary.climbs),
        alarms=[flag for flag in summary.flags if flag.weight is not Weight.NOTE],
        notes=[flag for flag in summary.flags if flag.weight is Weight.NOTE],
        figures=figures,
        laws=tables.laws(summary),
        forecasts=tables.forecasts(summary),
        remarks=[(climb, tables.remarks(climb)) for climb in summary.climbs],
        measured=(DESIGN, LAW, LIMITS),
        machine=method.machine(summary.run),
        asked=asked(summary),
        data=script_json({
            "theme": palette.THEME,
            "figures": [{"name": f.name, "plot": f.plot} for f in figures],
        }),
        library=Markup(get_plotlyjs() if library is None else library),  # noqa: S704 - plotly's own
    )  # fmt: skip
