"""The report for a terminal."""

import io
from collections.abc import Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from jissoku.model import (
    Comparison,
    Load,
    Metric,
    Severity,
    Summary,
    Verdict,
)
from jissoku.model.verdict_text import outlook, verdict_text
from jissoku.report import format as fmt, method, metric_words, tables, verdicts
from jissoku.report.metric_words import join_names
from jissoku.report.sanitize import sanitized

STYLES = {Severity.PROBLEM: "bold red", Severity.WARNING: "yellow", Severity.NOTE: "dim"}
DETAIL_LINES_MAX = 8

# Narrower terminals get the first columns of each table; the rest is in the other reports.
WIDTH_FOR_ALL = 100
LOAD_FIRST = 4
FACTS_FIRST = 4

# Verdicts: names up to this width stay on one line, and the last column is broken instead.
INDENT = "  "
NAME_WIDTH = 20

# With more loads than this, the terminal shows the lightest, the main one and the heaviest.
LOADS_MAX = 3

LEFT = {"target", "bound", "version", "measured"}
FOLDED = {"target", "version"}


def to_text(summary: Summary, *, width: int = 100) -> str:
    """The report without colours, the same at the same width on every machine."""
    return plain(renderable(summary), width=width)


def plain(report: RenderableType, *, width: int) -> str:
    """The output of a console without colours, the same on every machine."""
    console = Console(
        file=io.StringIO(),
        width=width,
        height=100,
        color_system=None,
        force_terminal=False,
        legacy_windows=False,
        _environ={},
    )
    with console.capture() as capture:
        console.print(report)
    lines = [line.rstrip() for line in capture.get().splitlines()]
    return "\n".join(lines).rstrip("\n") + "\n"


def renderable(summary: Summary) -> RenderableType:
    """The same for a rich console, which chooses width and colours."""
    return Report(sanitized(summary))


@dataclass(frozen=True, slots=True)
class Report:
    """Lays out the report for the console's width."""

    summary: Summary

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        summary = self.summary
        yield Text(summary.headline, style="bold")
        for sentence in summary.advice:
            yield Text(sentence)
        yield Text("")
        yield from _warnings(summary, Severity.PROBLEM, Severity.WARNING)
        yield from _loads(summary, options.max_width)
        yield Text("Every target", style="bold")
        yield _drawn(tables.facts(summary), options.max_width, FACTS_FIRST)
        yield from _verdicts(summary)
        yield from _controls(summary)
        yield Text(f"{method.describe_load(summary.run)}; {method.trials(summary)}.", style="dim")
        yield Text("")
        yield from _warnings(summary, Severity.NOTE)


def _warnings(summary: Summary, *weights: Severity) -> list[RenderableType]:
    found: list[RenderableType] = []
    for warning in summary.warnings:
        if warning.severity not in weights:
            continue
        style = STYLES[warning.severity]
        found.append(Text.assemble((f"{warning.severity}: {warning.title}", style)))
        if warning.text:
            found.append(Padding(Text(warning.text), (0, 0, 0, 2)))
        if warning.detail:
            lines = warning.detail.rstrip("\n").split("\n")[-DETAIL_LINES_MAX:]
            said = Text("\n".join(f"| {line}" for line in lines), style="dim")
            found.append(Padding(said, (0, 0, 0, 2)))
    return [*found, Text("")] if found else []


def shown_loads(summary: Summary) -> tuple[Load, ...]:
    """All loads if they are few; else the lightest, the main one and the heaviest."""
    if len(summary.loads) <= LOADS_MAX:
        return summary.loads
    kept = {summary.loads[0], summary.main_load, summary.loads[-1]}
    return tuple(load for load in summary.loads if load in kept)


def _loads(summary: Summary, width: int) -> list[RenderableType]:
    found: list[RenderableType] = []
    shown = shown_loads(summary)
    for known in tables.at_loads(summary):
        if known.load not in shown:
            continue
        found.append(Text(known.title, style="bold"))
        if known.table.rows:
            found.append(_drawn(known.table, width, LOAD_FIRST))
        found += [Text(remark, style="dim") for remark in known.remarks]
        found.append(Text(""))
    others = [fmt.offered(load) for load in summary.loads if load not in shown]
    if others:
        text = f"Measured at {join_names(others)}, too: see the HTML report."
        found += [Text(text, style="dim"), Text("")]
    return found


def _drawn(numbers: tables.Table, width: int, first: int) -> RenderableType:
    """A table; of a narrow one only the first columns."""
    shown = range(len(numbers.header)) if width >= WIDTH_FOR_ALL else range(first)
    drawn = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for index in shown:
        name = numbers.header[index]
        drawn.add_column(
            Text(name),
            justify="left" if name in LEFT else "right",
            overflow="fold",
            no_wrap=name not in FOLDED,
        )
    for row in numbers.rows:
        drawn.add_row(*(Text(row[index]) for index in shown))
    return drawn


def _verdicts(summary: Summary) -> list[RenderableType]:
    """Relative to the baseline: cost at the loads shown, latency at the main one, capacity."""
    found: list[RenderableType] = []
    shown = {
        Metric.COST: shown_loads(summary),
        Metric.P50: (summary.main_load,),
        Metric.P99: (summary.main_load,),
    }
    for metric, title in metric_words.METRIC_NAMES.items():
        text = [
            comparison
            for comparison in verdicts.against(summary, metric)
            if metric not in shown or not summary.loads or comparison.load in shown[metric]
        ]
        if text:
            found.append(Text(f"{title}, against {summary.run.baseline}", style="bold"))
            found += [_verdict_rows(text), *_remarks(text), Text("")]
    return found


def _verdict_rows(text: Sequence[Comparison]) -> RenderableType:
    """One line per pair that has a ratio; the sentences are in the other reports."""
    drawn = RichTable.grid(padding=(0, 2, 0, 0), pad_edge=True)
    longest = max(len(found.arm) for found in text) + len(INDENT)
    drawn.add_column(overflow="fold", min_width=min(longest, NAME_WIDTH))
    for justify in ("right", "right", "left"):
        drawn.add_column(justify=justify, no_wrap=True)
    drawn.add_column()
    for found in text:
        if found.ratio is not None:
            said = verdict_text(found.metric, found.verdict)
            load = "" if found.metric in metric_words.OVERALL else fmt.offered(found.load)
            cells = (f"{INDENT}{found.arm}", load, fmt.ratio(found.ratio))
            drawn.add_row(
                *map(Text, cells), Text(said, style=_colour(found)), Text(_certainty(found))
            )
    return drawn


def _certainty(found: Comparison) -> str:
    """Whether a verdict is proven, what would decide, and whether a check disagrees."""
    text = "proven" if found.is_decided else outlook(found)
    return f"{text} {metric_words.WARNING}".lstrip() if metric_words.disagreements(found) else text


def _remarks(comparisons: Sequence[Comparison]) -> list[RenderableType]:
    """The reason of a missing ratio; else remarks and checks that disagree."""
    found: list[RenderableType] = []
    shared: dict[tuple[str, str], list[str]] = {}
    for one in comparisons:
        if one.ratio is None:
            text = Text(f"{one.sentence}.")
            text.highlight_words([f": {one.verdict}"], _colour(one))
            found.append(Padding(text, (0, 0, 0, 2)))
            continue
        at = "" if one.metric in metric_words.OVERALL else f" at {fmt.offered(one.load)}"
        for remark in (*one.remarks, *metric_words.disagreements(one)):
            shared.setdefault((at, remark), []).append(one.arm)
    for (at, remark), arms in shared.items():
        style = "yellow" if remark.startswith(metric_words.WARNING) else "dim"
        found.append(Padding(Text(f"{join_names(arms)}{at}: {remark}", style=style), (0, 0, 0, 2)))
    return found


def _colour(comparison: Comparison) -> str:
    if comparison.verdict is Verdict.DISPUTED:
        return "yellow"
    tone = metric_words.tone(comparison.metric, comparison.verdict)
    return {"better": "green", "worse": "magenta", "broken": "bold red"}.get(tone, "")


def _controls(summary: Summary) -> list[RenderableType]:
    """The difference of two copies of the baseline: the noise of this run."""
    if not summary.aa_control:
        return []
    text = ", ".join(f"{fmt.ratio(c.ratio)} at {fmt.offered(c.load)}" for c in summary.aa_control)
    return [Text(f"A/A control, {summary.run.baseline} against itself: {text}."), Text("")]
