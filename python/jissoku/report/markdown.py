"""The report as Markdown (GitHub's tables), for pull requests and job summaries."""

import re
from collections.abc import Iterable, Iterator

from jissoku.model import Metric, ReportWarning, Severity, Summary
from jissoku.report import method, metric_words, tables, verdicts
from jissoku.report.sanitize import sanitized
from jissoku.report.tables import Table

# Characters that could begin markup inside a line; they are escaped by a backslash.
SPECIAL = re.compile(r"([\\`*_{}\[\]<>|#~!&$@])")


def to_markdown(summary: Summary) -> str:
    """The whole report; ends with a line end."""
    return "\n".join(_lines(sanitized(summary))) + "\n"


def _lines(summary: Summary) -> Iterator[str]:
    yield f"**{escape(summary.headline)}**"
    yield ""
    if summary.advice:
        yield from (f"- {escape(sentence)}" for sentence in summary.advice)
        yield ""
    for warning in summary.warnings:
        if warning.severity is not Severity.NOTE:
            yield from _warning(warning)
    yield from _results(summary)
    yield from _verdicts(summary)
    for title, table in _tables(summary):
        if table.rows:
            yield from _folded(title, table_lines(table))
    yield from _folded("How it was measured", _paragraphs(method.describe_method(summary)))
    yield f"{escape(method.describe_load(summary.run))}; {method.trials(summary)}."
    yield ""
    for name, value in method.machine(summary.run):
        yield f"- {name}: {escape(value)}"
    notes = [warning for warning in summary.warnings if warning.severity is Severity.NOTE]
    if notes:
        yield ""
        yield from (f"- {escape(f'{warning.title}. {warning.text}')}" for warning in notes)


def _results(summary: Summary) -> Iterator[str]:
    """A table per load, then values that do not depend on a load."""
    for known in tables.at_loads(summary):
        yield f"**{escape(known.title)}**"
        yield ""
        if known.table.rows:
            yield from table_lines(known.table)
        if known.remarks:
            yield escape(" ".join(known.remarks))
            yield ""
    yield "**Every target**"
    yield ""
    yield from table_lines(tables.facts(summary))


def _tables(summary: Summary) -> tuple[tuple[str, Table], ...]:
    pairs = tuple(
        (f"Every pair: {title}", verdicts.pairs(summary.by(metric)))
        for metric, title in metric_words.METRIC_NAMES.items()
    )
    return (
        *pairs,
        ("CPU per request by load", tables.costs(summary)),
        ("Latency", tables.latencies(summary)),
        ("Capacity", tables.capacities(summary)),
        ("Closed-loop rate", tables.rates(summary)),
        ("CPU split", tables.splits(summary)),
        ("A/A control", verdicts.controls(summary)),
    )


def _folded(title: str, lines: Iterable[str]) -> Iterator[str]:
    yield f"<details><summary>{title}</summary>"
    yield ""
    yield from lines
    yield "</details>"
    yield ""


def _paragraphs(texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        yield escape(text)
        yield ""


def _verdicts(summary: Summary) -> Iterator[str]:
    """Sentences relative to the baseline: cost at every load, latency at the main one, capacity."""
    for metric, title in metric_words.METRIC_NAMES.items():
        against = verdicts.against(summary, metric)
        if metric in {Metric.P50, Metric.P99}:
            against = tuple(c for c in against if c.load == summary.main_load)
        if not against:
            continue
        yield f"{title}, against {escape(summary.run.baseline)}:"
        yield ""
        for found in against:
            yield f"- {escape(found.sentence)}."
            if found.ratio:
                yield from (f"  - {escape(remark)}" for remark in found.remarks)
            yield from (f"  - {escape(doubt)}" for doubt in metric_words.disagreements(found))
        yield ""


def escape(text: str) -> str:
    """The text on one line, with markup escaped."""
    return SPECIAL.sub(r"\\\1", " ".join(text.split()))


def _warning(warning: ReportWarning) -> Iterator[str]:
    text = f" {escape(warning.text)}" if warning.text else ""
    yield f"> **{warning.severity}: {escape(warning.title)}.**{text}"
    if warning.detail:
        lines = warning.detail.strip("\n").split("\n")
        fence = "`" * max(3, 1 + max(map(len, re.findall(r"`+", warning.detail)), default=0))
        yield ">"
        yield f"> {fence}text"
        yield from (f"> {line}" for line in lines)
        yield f"> {fence}"
    yield ""


def table_lines(table: Table) -> Iterator[str]:
    """A table in GitHub's syntax, followed by an empty line."""
    yield _row(table.header)
    yield _row([":--", *["--:"] * (len(table.header) - 1)], plain=True)
    yield from (_row(row) for row in table.rows)
    yield ""


def _row(cells: tuple[str, ...] | list[str], *, plain: bool = False) -> str:
    shown = cells if plain else [escape(cell) for cell in cells]
    return f"| {' | '.join(shown)} |"
