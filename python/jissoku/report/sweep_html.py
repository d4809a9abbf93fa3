"""A sweep's report as one HTML file."""

from jissoku.model import Severity, SweepSummary
from jissoku.report import method, page, sweep_tables as tables
from jissoku.report.sanitize import sanitized
from jissoku.report.sweep_chart import sweep_figures
from jissoku.report.sweep_text import describe_sweep

DESIGN = (
    "Every trial is a fresh process of the target alone on its cores; each block holds every target"
    " at every level once, in random order. Means and their intervals are of the blocks'"
    " logarithms, by Student's t."
)
LAW = (
    "The model is X(N) = k N / (1 + a (N - 1) + b N (N - 1)), fitted to the logarithms of the rates"
    " with a and b at least zero. Its intervals come from whole blocks drawn again a thousand"
    " times, widened for their small number. Only levels in which at least three blocks count and"
    " the load generator was at most 80 % busy are fitted, and at least six of them."
)
LIMITS = (
    "A peak is given only where b's interval excludes zero. Neither a peak nor a forecast is given"
    " where the model misses a level by more than 5 % and more than noise explains, or beyond twice"
    " the highest level measured; a forecast must also be known within 10 %."
)


def sweep_to_html(summary: SweepSummary) -> str:
    """The whole page; the same summary always gives the same bytes."""
    summary = sanitized(summary)
    return page.render(
        "sweep.html.j2",
        figures=sweep_figures(summary),
        summary=summary,
        run=summary.run,
        names=", ".join(target.arm.name for target in summary.targets),
        alarms=[warning for warning in summary.warnings if warning.severity is not Severity.NOTE],
        notes=[warning for warning in summary.warnings if warning.severity is Severity.NOTE],
        laws=tables.models(summary),
        forecasts=tables.predictions(summary),
        remarks=[(target, tables.remarks(target)) for target in summary.targets],
        measured=(DESIGN, LAW, LIMITS),
        machine=method.machine(summary.run),
        asked=describe_sweep(summary),
    )
