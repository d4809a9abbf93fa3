"""A sweep's report for a terminal and as JSON."""

import msgspec
from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from jissoku.model import Severity, SweepSummary
from jissoku.model.wording import plural, trials_count
from jissoku.report import sweep_tables as tables
from jissoku.report.json import rounded
from jissoku.report.sanitize import sanitized
from jissoku.report.tables import Table
from jissoku.report.text import STYLES, plain

LEFT = {"bound", "fitted", "target", "at", "requests per second"}


def sweep_to_text(summary: SweepSummary, *, width: int = 100) -> str:
    """The report without colours, the same at the same width on every machine."""
    return plain(sweep_renderable(summary), width=width)


def sweep_renderable(summary: SweepSummary) -> RenderableType:
    """The same for a rich console, which chooses width and colours."""
    summary = sanitized(summary)
    parts: list[RenderableType] = []
    for warning in summary.warnings:
        if warning.severity is not Severity.NOTE:
            parts.append(
                Text.assemble((f"{warning.severity}: {warning.title}", STYLES[warning.severity]))
            )
            parts.append(Padding(Text(warning.text), (0, 0, 0, 2)))
    for found in summary.targets:
        parts.append(Text(f"{found.sentence}.", style="bold"))
        if found.results:
            parts.append(_drawn(tables.target_table(summary, found)))
        parts += [Padding(Text(text, style="dim"), (0, 0, 0, 2)) for text in tables.remarks(found)]
        parts.append(Text(""))
    for title, numbers in (
        ("Fitted scalability model", tables.models(summary)),
        ("Forecasts", tables.predictions(summary)),
    ):
        if numbers.rows:
            parts += [Text(title, style="bold"), _drawn(numbers)]
    parts.append(Text(f"{describe_sweep(summary)}.", style="dim"))
    for warning in summary.warnings:
        if warning.severity is Severity.NOTE:
            parts.append(Text(f"{warning.severity}: {warning.title}. {warning.text}", style="dim"))
    return Group(*parts)


def describe_sweep(summary: SweepSummary) -> str:
    """The sweep in one line."""
    work, sweep = summary.run.workload, summary.sweep
    levels = sorted({result.level for found in summary.targets for result in found.results})
    over = f"{sweep.axis} over {', '.join(f'{level:,}' for level in levels)}"
    load = (
        ""
        if sweep.axis == "connections"
        else f", {work.connections} {plural(work.connections, 'connection')}"
    )
    return (
        f"{work.method} {work.path}, {over}{load},"
        f" {sweep.blocks} {plural(sweep.blocks, 'block')} in random order;"
        f" {trials_count(summary.trials_valid, summary.trials_total)}"
        + (f", {summary.trials_rejected} rejected"
           if summary.trials_rejected else "")
    )  # fmt: skip


def _drawn(numbers: Table) -> RenderableType:
    drawn = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for index, name in enumerate(numbers.header):
        left = name in LEFT
        folds = index == len(numbers.header) - 1 and left
        drawn.add_column(
            Text(name),
            justify="left" if left else "right",
            overflow="fold",
            no_wrap=not folds,
        )
    for row in numbers.rows:
        drawn.add_row(*map(Text, row))
    return drawn


def sweep_to_json(summary: SweepSummary) -> str:
    """One object of schema `jissoku.sweep-summary/1`, indented, with a line end."""
    plain = rounded(msgspec.to_builtins(sanitized(summary)))
    text = msgspec.json.format(msgspec.json.encode(plain, order="deterministic"), indent=2)
    return text.decode() + "\n"
