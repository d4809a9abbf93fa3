"""Reports for a terminal: the whole one and the short one."""

import io
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from jissoku.model import Load, SweepSummary, summary as model, wording
from jissoku.report import format as fmt, method, tables
from jissoku.report.format import Table, sanitized

# Above this a width says only that nothing is known, in per cent.
WIDTH_MAX = 1000

# In place of a value whose interval says nothing, where there is no room for words.
VAGUE = "?"


def brief_rate(found: model.Estimate) -> str:
    """As in `90k±8%`, so that names of targets stay on one line in 80 columns."""
    if found.is_vague:
        return VAGUE
    return f"{fmt.rate_mark(float(f'{found.value:.2g}'))}{width(found)}"


def with_width(ratio: model.Estimate) -> str:
    """The value, with the half-width of its interval in per cent: `1.31±4%`."""
    if ratio.is_vague:
        return ratio.vague_ratio(VAGUE, ">", "<")
    digits = 2 if ratio.value < 9.995 else 1
    return f"{ratio.value:.{digits}f}{width(ratio)}"


def width(found: model.Estimate) -> str:
    """The half-width of an interval in per cent of its value; empty where nothing is known."""
    part = 100 * (found.high - found.low) / 2 / found.value
    return f"\N{PLUS-MINUS SIGN}{part:.0f}%" if part < WIDTH_MAX else ""


STYLES = {
    model.Severity.PROBLEM: "bold red",
    model.Severity.WARNING: "yellow",
    model.Severity.NOTE: "dim",
}
DETAIL_LINES_MAX = 8
BRIEF_LINES_MAX = 3

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


def to_text(summary: model.Summary, *, width: int = 100) -> str:
    return plain(renderable(summary), width=width)


def plain(report: RenderableType, *, width: int) -> str:
    """The output of a console without colours, the same at this width on every machine."""
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


def renderable(summary: model.Summary) -> RenderableType:
    """For a rich console, which chooses width and colours."""
    return Report(partial(_parts, sanitized(summary)))


@dataclass(frozen=True, slots=True)
class Report:
    """A report whose parts depend on the width in characters."""

    parts: Callable[[int], Iterable[RenderableType]]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from self.parts(options.max_width)


def _parts(summary: model.Summary, width: int) -> Iterator[RenderableType]:
    yield Text(summary.headline, style="bold")
    for sentence in summary.advice:
        yield Text(sentence)
    yield Text("")
    yield from _warnings(summary, model.Severity.PROBLEM, model.Severity.WARNING)
    yield from _loads(summary, width)
    yield Text("Every target", style="bold")
    yield _drawn(tables.facts(summary), width, FACTS_FIRST)
    yield from _verdicts(summary)
    if control := summary.aa_control:
        text = ", ".join(f"{fmt.ratio(c.ratio)} at {fmt.offered(c.load)}" for c in control)
        yield Text(f"A/A control, {summary.run.baseline} against itself: {text}.")
        yield Text("")
    yield Text(f"{method.describe_load(summary.run)}; {method.trials(summary)}.", style="dim")
    yield Text("")
    yield from _warnings(summary, model.Severity.NOTE)


def _warnings(summary: model.Summary, *weights: model.Severity) -> list[RenderableType]:
    found: list[RenderableType] = []
    for warning in summary.warnings:
        if warning.severity not in weights:
            continue
        title = f"{warning.severity}: {warning.title}"
        found.append(Text.assemble((title, STYLES[warning.severity])))
        found += [indented(Text(text)) for text in (warning.text, warning.remedy) if text]
        if warning.detail:
            found.append(_output(warning.detail, DETAIL_LINES_MAX))
    if model.Severity.WARNING in weights:
        found += _next_commands(summary)
    return [*found, Text("")] if found else []


def _output(detail: str, lines_max: int) -> RenderableType:
    lines = detail.rstrip("\n").split("\n")[-lines_max:]
    return indented(Text("\n".join(f"| {line}" for line in lines), style="dim"))


def _next_commands(summary: model.Summary) -> list[RenderableType]:
    commands = dict.fromkeys(one.next_command for one in summary.warnings if one.next_command)
    return [Text(f"next: {command}", no_wrap=True, overflow="ignore") for command in commands]


def indented(text: Text) -> RenderableType:
    return Padding(text, (0, 0, 0, 2))


def shown_loads(summary: model.Summary) -> tuple[Load, ...]:
    if len(summary.loads) <= LOADS_MAX:
        return summary.loads
    kept = {summary.loads[0], summary.main_load, summary.loads[-1]}
    return tuple(load for load in summary.loads if load in kept)


def _loads(summary: model.Summary, width: int) -> list[RenderableType]:
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
        text = f"Measured at {wording.join_names(others)}, too: see the HTML report."
        found += [Text(text, style="dim"), Text("")]
    return found


def _drawn(numbers: Table, width: int, first: int) -> RenderableType:
    """A table; of a narrow one only the first columns."""
    if width < WIDTH_FOR_ALL:
        numbers = numbers.without(range(first, len(numbers.header)))
    return drawn_table(numbers, left=LEFT, folded=FOLDED)


def drawn_table(numbers: Table, *, left: Container[str], folded: Container[str]) -> RenderableType:
    """A table, some of whose columns are aligned to the left, or may be broken."""
    drawn = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for name in numbers.header:
        drawn.add_column(
            Text(name),
            justify="left" if name in left else "right",
            overflow="fold",
            no_wrap=name not in folded,
        )
    for row in numbers.rows:
        drawn.add_row(*map(Text, row))
    return drawn


def _verdicts(summary: model.Summary) -> list[RenderableType]:
    """Relative to the baseline: cost at the loads shown, latency at the main one, capacity."""
    found: list[RenderableType] = []
    shown = {
        model.Metric.COST: shown_loads(summary),
        model.Metric.P50: (summary.main_load,),
        model.Metric.P99: (summary.main_load,),
    }
    for metric, title in tables.METRIC_NAMES.items():
        text = [
            comparison
            for comparison in tables.against(summary, metric)
            if metric not in shown or not summary.loads or comparison.load in shown[metric]
        ]
        if text:
            found.append(Text(f"{title}, against {summary.run.baseline}", style="bold"))
            found += [_verdict_rows(text), *_remarks(text), Text("")]
    return found


def _verdict_rows(text: Sequence[model.Comparison]) -> RenderableType:
    """One line per pair that has a ratio; the sentences are in the other reports."""
    drawn = RichTable.grid(padding=(0, 2, 0, 0), pad_edge=True)
    longest = max(len(found.arm) for found in text) + len(INDENT)
    drawn.add_column(overflow="fold", min_width=min(longest, NAME_WIDTH))
    for justify in ("right", "right", "left"):
        drawn.add_column(justify=justify, no_wrap=True)
    drawn.add_column()
    for found in text:
        if found.ratio is not None:
            load = "" if found.metric in tables.OVERALL else fmt.offered(found.load)
            cells = (f"{INDENT}{found.arm}", load, fmt.ratio(found.ratio))
            said = Text(wording.verdict_text(found.metric, found.verdict), style=_colour(found))
            drawn.add_row(*map(Text, cells), said, Text(_certainty(found)))
    return drawn


def _certainty(found: model.Comparison) -> str:
    text = "proven" if found.is_decided else wording.outlook(found)
    return f"{text} {tables.WARNING}".lstrip() if tables.disagreements(found) else text


def _remarks(comparisons: Sequence[model.Comparison]) -> list[RenderableType]:
    """The reason of a missing ratio; else remarks and checks that disagree."""
    found: list[RenderableType] = []
    shared: dict[tuple[str, str], list[str]] = {}
    for one in comparisons:
        if one.ratio is None:
            text = Text(f"{one.sentence}.")
            text.highlight_words([f": {one.verdict}"], _colour(one))
            found.append(indented(text))
            continue
        at = "" if one.metric in tables.OVERALL else f" at {fmt.offered(one.load)}"
        for remark in (*one.remarks, *tables.disagreements(one)):
            shared.setdefault((at, remark), []).append(one.arm)
    for (at, remark), arms in shared.items():
        style = "yellow" if remark.startswith(tables.WARNING) else "dim"
        found.append(indented(Text(f"{wording.join_names(arms)}{at}: {remark}", style=style)))
    return found


def _colour(comparison: model.Comparison) -> str:
    if comparison.verdict is model.Verdict.DISPUTED:
        return "yellow"
    tone = tables.tone(comparison.metric, comparison.verdict)
    return {"better": "green", "worse": "magenta", "broken": "bold red"}.get(tone, "")


def without_figure(comparison: model.Comparison) -> str:
    return "" if comparison.ratio or comparison.blocks_needed else f"({comparison.verdict})"


# Pairs and warnings beyond these are in the report.
UNDECIDED_MAX = 4
WARNINGS_MAX = 5

# What is written of undecided pairs, each under its title.
UNDECIDED = (
    ("Undecided, with what would decide:", wording.more_text),
    ("Not decided, for the run is too short for so small a difference:", wording.distance_text),
    ("Without a figure:", without_figure),
)


def verdict(summary: model.Summary | SweepSummary) -> RenderableType:
    """What a command says last, where it is seen without scrolling."""
    summary = sanitized(summary)
    if isinstance(summary, model.Summary):
        return Text(summary.headline, style="bold")
    return Text("\n".join(f"{one.sentence}." for one in summary.targets), style="bold")


def brief(summary: model.Summary) -> RenderableType:
    """One screen, with the answer at its end, where a terminal shows it."""
    summary = sanitized(summary)
    figures: list[RenderableType] = []
    if any(known.points for known in summary.arm_summaries if known.arm.name != summary.run.floor):
        figures = [_brief_table(summary), Text(_legend(summary), style="dim")]
        figures += _undecided(summary)
    return Group(
        *figures,
        *_warning_titles(summary),
        Text(""),
        Text(summary.headline, style="bold"),
    )


def _brief_table(summary: model.Summary) -> RenderableType:
    main = summary.main_load
    drawn = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    drawn.add_column("target", overflow="fold")
    measured = {point.load for known in summary.arm_summaries for point in known.points}
    loads = [load for load in shown_loads(summary) if load in measured]
    has_p99, has_capacity = _has_p99(summary), _has_capacity(summary)
    further = ["p99"] * has_p99 + ["capacity"] * has_capacity
    for name in (*map(fmt.offered, loads), "\N{MICRO SIGN}s", *further):
        drawn.add_column(name, justify="right", no_wrap=True)
    for known in summary.arm_summaries:
        point = known.at(main)
        cells = [known.arm.name, *(_brief_cost(summary, known, load) for load in loads)]
        cost_ns = tables.cost_beside_ratio(summary, known, main)
        cells.append(fmt.NOTHING if cost_ns is None else _brief_time(cost_ns))
        if has_p99:
            cells.append(brief_p99(point))
        if has_capacity:
            cells.append(_capacity(known))
        drawn.add_row(*map(Text, cells))
    return drawn


def brief_p99(point: model.LoadPoint | None) -> str:
    return tables.percentile(point, "p99") if point else fmt.NOTHING


def _has_p99(summary: model.Summary) -> bool:
    points = (known.at(summary.main_load) for known in summary.arm_summaries)
    return any(brief_p99(point) != fmt.NOTHING for point in points)


def _has_capacity(summary: model.Summary) -> bool:
    return any(_capacity(known) != fmt.NOTHING for known in summary.arm_summaries)


def _brief_time(ns: float) -> str:
    """In microseconds, which are the column's unit, or in seconds with theirs."""
    return fmt.significant(ns / 1e3) if ns < wording.SECOND_NS else fmt.duration(ns)


def _brief_cost(summary: model.Summary, known: model.ArmSummary, load: Load) -> str:
    """Rank, and ratio to the baseline with its interval."""
    point, name = known.at(load), known.arm.name
    if point is None or point.cost_ns is None:
        return fmt.NOTHING
    rank = "" if point.rank is None else f"{point.rank} "
    if name == summary.run.baseline:
        return f"{rank}1"
    found = tables.against_baseline(summary, name, model.Metric.COST, load)
    ratio = found.ratio if found else None
    if ratio is None and name == summary.run.floor:
        return tables.multiple_of_baseline(summary, point) or fmt.NOTHING
    return f"{rank}{with_width(ratio)}" if ratio else fmt.NOTHING


def _legend(summary: model.Summary) -> str:
    at = "" if summary.main_load is None else f" at {fmt.offered(summary.main_load)}"
    text = (
        f"CPU per request at each rate: rank, and multiple of {summary.run.baseline} with its"
        f" 95 % interval; \N{MICRO SIGN}s{' and p99' if _has_p99(summary) else ''}{at}"
        f"{_p99_requests(summary)}."
    )
    if not _has_p99(summary):
        text += " No p99: too few responses."
    shown = [one.ratio for one in tables.against(summary, model.Metric.COST)]
    shown += [known.capacity_rps for known in summary.arm_summaries]
    if any(one is not None and one.is_vague for one in shown):
        text += f" {VAGUE} not known yet: from the least to the most is more than a factor of 10."
    if _has_capacity(summary):
        text += f" Capacity: rank, and requests/s with {summary.run.objective}."
    elif summary.run.objective:
        text += " No capacity: no search of it counts."
    return text


def _p99_requests(summary: model.Summary) -> str:
    """On how many answers the values of p99 rest."""
    counts = [
        one.requests
        for known in summary.arm_summaries
        if (point := known.at(summary.main_load)) is not None
        for one in point.percentiles
        if one.label == "p99" and one.requests
    ]
    if not counts:
        return ""
    least, most = min(counts), max(counts)
    return f", of {least:,} requests" if least == most else f", of {least:,} to {most:,} requests"


def _undecided(summary: model.Summary) -> Iterator[RenderableType]:
    """Pairs without an answer by cost or capacity: what would decide, or how close they are."""
    searched = [one for one in summary.by(model.Metric.CAPACITY) if one.ratio is not None]
    every = [one for one in (*summary.by(model.Metric.COST), *searched) if not one.is_decided]
    lost: set[str] = set()
    for title, text in UNDECIDED:
        pairs: dict[str, list[str]] = {}
        for one in every:
            if said := text(one):
                place = "capacity" if one.metric is model.Metric.CAPACITY else fmt.offered(one.load)
                pairs.setdefault(f"{one.arm} / {one.against}", []).append(f"{place} {said}")
        if pairs:
            yield Text("")
            yield Text(title, style="bold")
            shown = list(pairs.items())[:UNDECIDED_MAX]
            yield Text("; ".join(f"{pair} at {', '.join(at)}" for pair, at in shown))
            lost |= set(list(pairs)[UNDECIDED_MAX:])
    if lost:
        yield Text(f"And {len(lost)} more {wording.plural(len(lost), 'pair')}: see the report.")


def _warning_titles(summary: model.Summary) -> Iterator[RenderableType]:
    """Titles of problems and warnings; their texts are in the report, and with --verbose."""
    found = [one for one in summary.warnings if one.severity is not model.Severity.NOTE]
    if not found:
        return
    yield Text("")
    for one in found[:WARNINGS_MAX]:
        yield Text(f"{one.severity}: {one.title}", style=STYLES[one.severity])
        if one.severity is model.Severity.PROBLEM:
            yield indented(Text(one.text))
        if one.remedy:
            yield indented(Text(one.remedy))
        if one.detail:
            yield _output(one.detail, BRIEF_LINES_MAX)
    if (more := len(found) - WARNINGS_MAX) > 0:
        yield Text(f"and {more} more {wording.plural(more, 'warning')}: see the report.")
    yield from _next_commands(summary)


def _capacity(known: model.ArmSummary) -> str:
    found = known.capacity_rps
    if found is None:
        return fmt.NOTHING
    rank = "" if known.capacity_rank is None else f"{known.capacity_rank} "
    return f"{rank}{brief_rate(found)}"


def why_text(summary: model.Summary, arm: str, other: str) -> str:
    """Why each comparison of the two is decided or not, in paragraphs; empty if there is none."""
    pair = {arm, other}
    return fmt.filled(
        "why.txt.j2",
        found=[one for one in summary.comparisons if {one.arm, one.against} == pair],
        alpha=model.ALPHA,
        beyond=wording.beyond_text,
        more=model.more_blocks,
        time=wording.time_text,
    )
