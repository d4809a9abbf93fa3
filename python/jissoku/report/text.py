"""The report for a terminal."""

import io
from dataclasses import dataclass

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from jissoku.model import Comparison, Summary, Verdict, Weight
from jissoku.report import method, tables
from jissoku.report.scrub import scrubbed

STYLES = {Weight.PROBLEM: "bold red", Weight.CAUTION: "yellow", Weight.NOTE: "dim"}
DETAIL_LINES_MAX = 8

# Narrower terminals get the first columns of the ranking; the rest is in the other reports.
WIDTH_FOR_ALL = 100
COLUMNS_FIRST = 6


def to_text(summary: Summary, *, width: int = 100) -> str:
    """The report without colours, the same at the same width on every machine."""
    return plain(renderable(summary), width=width)


def plain(report: RenderableType, *, width: int) -> str:
    """What a console without colours would show, the same on every machine."""
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
    return Report(scrubbed(summary))


@dataclass(frozen=True, slots=True)
class Report:
    """Lays the report out once the console's width is known."""

    summary: Summary

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        summary = self.summary
        yield Text(summary.headline, style="bold")
        yield Text("")
        yield from _flags(summary, Weight.PROBLEM, Weight.CAUTION)
        yield _ranking(summary, options.max_width)
        yield from _verdicts(summary)
        yield Text(f"{method.asked(summary.run)}; {method.trials(summary)}.", style="dim")
        yield Text("")
        yield from _flags(summary, Weight.NOTE)


def _flags(summary: Summary, *weights: Weight) -> list[RenderableType]:
    found: list[RenderableType] = []
    for flag in summary.flags:
        if flag.weight not in weights:
            continue
        style = STYLES[flag.weight]
        found.append(Text.assemble((f"{flag.weight}: {flag.title}", style)))
        if flag.text:
            found.append(Padding(Text(flag.text), (0, 0, 0, 2)))
        if flag.detail:
            lines = flag.detail.rstrip("\n").split("\n")[-DETAIL_LINES_MAX:]
            said = Text("\n".join(f"| {line}" for line in lines), style="dim")
            found.append(Padding(said, (0, 0, 0, 2)))
    return [*found, Text("")] if found else []


def _ranking(summary: Summary, width: int) -> RenderableType:
    numbers = tables.ranking(summary)
    shown = range(len(numbers.header)) if width >= WIDTH_FOR_ALL else range(COLUMNS_FIRST)
    drawn = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for index in shown:
        left = numbers.header[index] in ("target", "bound")
        drawn.add_column(
            Text(numbers.header[index]),
            justify="left" if left else "right",
            overflow="fold",
            no_wrap=numbers.header[index] != "target",
        )
    for row in numbers.rows:
        drawn.add_row(*(Text(row[index]) for index in shown))
    return drawn


def _verdicts(summary: Summary) -> list[RenderableType]:
    """Against the baseline in full; other pairs only where there are few."""
    against = [c for c in summary.comparisons if c.against == summary.run.baseline]
    found: list[RenderableType] = []
    for comparison in against:
        found.append(Padding(_verdict(comparison), (0, 0, 0, 2)))
        # Without a ratio the sentence itself gives the reason.
        remarks = comparison.remarks if comparison.ratio else ()
        found += [Padding(Text(remark, style="dim"), (0, 0, 0, 4)) for remark in remarks]
    if found:
        shared = [c.rates_rps[0] for c in against if len(c.rates_rps) == 1]
        rates = ", ".join(dict.fromkeys(map(tables.at_rate, shared)))
        title = f"Against {summary.run.baseline}, by CPU per request" + (rates and f", at {rates}")
        found = [Text(title, style="bold"), *found, Text("")]
    return found


def _verdict(comparison: Comparison) -> Text:
    colour = {
        Verdict.FASTER: "green",
        Verdict.SLIGHTLY_FASTER: "green",
        Verdict.SLOWER: "magenta",
        Verdict.SLIGHTLY_SLOWER: "magenta",
        Verdict.FAILED: "bold red",
        Verdict.INVALID: "bold red",
        Verdict.INTERFERENCE: "yellow",
    }.get(comparison.verdict, "")
    text = Text(f"{comparison.sentence}.")
    text.highlight_words([f": {comparison.verdict}"], colour)
    return text
