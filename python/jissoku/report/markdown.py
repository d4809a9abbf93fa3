"""The report as Markdown (GitHub's tables), for pull requests and job summaries."""

import re
from collections.abc import Iterator

from jissoku.model import Flag, Summary, Weight
from jissoku.report import method, tables
from jissoku.report.scrub import scrubbed
from jissoku.report.tables import Table

# Everything that could begin markup inside a line; a backslash before it takes its meaning away.
SPECIAL = re.compile(r"([\\`*_{}\[\]<>|#~!&$@])")


def to_markdown(summary: Summary) -> str:
    """The whole report; ends with a line end."""
    return "\n".join(_lines(scrubbed(summary))) + "\n"


def _lines(summary: Summary) -> Iterator[str]:
    yield f"**{escape(summary.headline)}**"
    yield ""
    for flag in summary.flags:
        if flag.weight is not Weight.NOTE:
            yield from _flag(flag)
    yield from table_lines(tables.ranking(summary))
    against = [c for c in summary.comparisons if c.against == summary.run.baseline]
    if against:
        yield f"Against {escape(summary.run.baseline)}:"
        yield ""
        for found in against:
            yield f"- {escape(found.sentence)}."
            if found.ratio:
                yield from (f"  - {escape(remark)}" for remark in found.remarks)
        yield ""
    for title, table in (
        ("Every pair", tables.verdicts(summary.comparisons)),
        ("CPU per request", tables.costs(summary)),
        ("Latency", tables.latencies(summary)),
        ("CPU split", tables.splits(summary)),
    ):
        if table.rows:
            yield f"<details><summary>{title}</summary>"
            yield ""
            yield from table_lines(table)
            yield "</details>"
            yield ""
    yield f"{escape(method.asked(summary.run))}; {method.trials(summary)}."
    yield ""
    for name, value in method.machine(summary.run):
        yield f"- {name}: {escape(value)}"
    notes = [flag for flag in summary.flags if flag.weight is Weight.NOTE]
    if notes:
        yield ""
        yield from (f"- {escape(f'{flag.title}. {flag.text}')}" for flag in notes)


def escape(text: str) -> str:
    """The text itself on one line, whatever it contains."""
    return SPECIAL.sub(r"\\\1", " ".join(text.split()))


def _flag(flag: Flag) -> Iterator[str]:
    text = f" {escape(flag.text)}" if flag.text else ""
    yield f"> **{flag.weight}: {escape(flag.title)}.**{text}"
    if flag.detail:
        lines = flag.detail.strip("\n").split("\n")
        fence = "`" * max(3, 1 + max(map(len, re.findall(r"`+", flag.detail)), default=0))
        yield ">"
        yield f"> {fence}text"
        yield from (f"> {line}" for line in lines)
        yield f"> {fence}"
    yield ""


def table_lines(table: Table) -> Iterator[str]:
    """A table in GitHub's syntax, with an empty line behind it."""
    yield _row(table.header)
    yield _row([":--", *["--:"] * (len(table.header) - 1)], plain=True)
    yield from (_row(row) for row in table.rows)
    yield ""


def _row(cells: tuple[str, ...] | list[str], *, plain: bool = False) -> str:
    shown = cells if plain else [escape(cell) for cell in cells]
    return f"| {' | '.join(shown)} |"
