"""A comparison's report as one HTML file."""

from jissoku.model import Severity, Summary
from jissoku.model.verdict_text import outlook
from jissoku.report import charts, method, metric_words, page, tables, verdicts
from jissoku.report.sanitize import sanitized


def to_html(summary: Summary, trials_sha256: str = "") -> str:
    """The whole page; the same summary always gives the same bytes.

    Args:
        summary: What is reported.
        trials_sha256: Of the trials' file, for paper; empty: it is not named.
    """
    summary = sanitized(summary)
    return page.render(
        "report.html.j2",
        figures=charts.charts(summary),
        record=trials_sha256,
        summary=summary,
        run=summary.run,
        names=_ranked_arms(summary),
        alarms=[warning for warning in summary.warnings if warning.severity is not Severity.NOTE],
        notes=[warning for warning in summary.warnings if warning.severity is Severity.NOTE],
        loads=tables.at_loads(summary),
        facts=tables.facts(summary),
        against=_against(summary),
        grids=verdicts.grids(summary),
        pairs=_pairs(summary),
        matrix_names=verdicts.matrix_names(summary),
        matrix=verdicts.pair_matrix(summary),
        controls=verdicts.controls(summary),
        measured=method.describe_method(summary),
        machine=method.machine(summary.run),
        asked=method.describe_load(summary.run),
        trials=method.trials(summary),
    )


def _against(summary: Summary) -> list[tuple[str, list[str], list[str], bool]]:
    """(sentence, remarks, checks that disagree, says no more than its cell), for the baseline."""
    return [
        (
            c.sentence,
            list(c.remarks if c.ratio else ()),
            list(metric_words.disagreements(c)),
            bool(c.ratio) and not c.remarks and not outlook(c),
        )
        for metric in metric_words.METRIC_NAMES
        for c in verdicts.against(summary, metric)
    ]


def _pairs(summary: Summary) -> list[tuple[str, tables.Table]]:
    found = [
        (title, verdicts.pairs(summary.by(m))) for m, title in metric_words.METRIC_NAMES.items()
    ]
    return [(title, table) for title, table in found if table.rows]


def _ranked_arms(summary: Summary) -> str:
    names = [arm.name for arm in summary.run.arms if arm.name != summary.run.floor]
    return ", ".join(names or [arm.name for arm in summary.run.arms])
