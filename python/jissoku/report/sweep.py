"""A sweep's report: tables and charts, for a terminal, as JSON and as one HTML file."""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import accumulate

from rich.cells import cell_len
from rich.console import RenderableType
from rich.text import Text

from jissoku.model.experiment import (
    Axis,
    IntervalEstimate,
    LevelResult,
    SweepSummary,
    TargetSweep,
    UslModel,
)
from jissoku.model.summary import Estimate, Severity
from jissoku.model.wording import plural
from jissoku.report import format as fmt, method, page, plots, svg, terminal
from jissoku.report.format import Table, sanitized
from jissoku.report.plots import Axes, Heading, Line, Point
from jissoku.report.svg import Chart, scale
from jissoku.report.tables import percentile, percentile_estimate, short_bottleneck

# Columns of a terminal's tables that are aligned to the left.
TEXT = "requests per second"
LEFT = {"bound", "fitted", "target", "at", TEXT}

# A table with more columns than this may be turned.
FEW = 3


def target_table(summary: SweepSummary, found: TargetSweep) -> Table:
    """One row per level; what depends on the axis is said of its levels only."""
    table = Table(
        header=(
            str(summary.sweep.axis), "rate", "CPU/req", "p50", "p99", "answered", "bound", "blocks",
            "fitted",
        ),
        rows=tuple(map(_level_row, found.results)),
    )  # fmt: skip
    return table.without({6, 8} if summary.sweep.axis is Axis.RATE else {5})


def _level_row(result: LevelResult) -> tuple[str, ...]:
    answered = result.achieved_fraction
    return (
        f"{result.level:,}",
        fmt.interval(result.rate_rps, fmt.rate),
        fmt.interval(result.cost_ns, fmt.duration),
        percentile(result, "p50"),
        percentile(result, "p99"),
        fmt.NOTHING if answered is None else f"{100 * answered:.1f} %",
        short_bottleneck(result.bottleneck),
        str(result.blocks),
        "yes" if result.is_fitted else "no",
    )


def models(summary: SweepSummary) -> Table:
    header = (
        "target", "rate of one", "contention", "coherency, per million", "peak at", "misfit",
        "levels", "blocks",
    )  # fmt: skip
    rows = tuple(_model_row(c.arm.name, c.model) for c in summary.targets if c.model is not None)
    return Table(header=header, rows=rows)


def _model_row(name: str, model: UslModel) -> tuple[str, ...]:
    return (
        name,
        _scaled(model.single_rps, unit="/s"),
        _scaled(model.contention, 100, " %"),
        _scaled(model.coherency, 1e6),
        fmt.NOTHING if model.peak is None else _scaled(model.peak),
        f"{100 * model.max_residual:.1f} %",
        str(len(model.levels)),
        str(model.blocks),
    )


def predictions(summary: SweepSummary) -> Table:
    rows = tuple(
        (
            found.arm.name,
            level_text(summary, one.level),
            one.reason if one.rate_rps is None else _scaled(one.rate_rps, unit="/s"),
        )
        for found in summary.targets
        if found.model is not None
        for one in found.model.predictions
    )
    return Table(header=("target", "at", TEXT), rows=rows)


def level_text(summary: SweepSummary, level: int) -> str:
    """A level in words: one core per worker."""
    unit = {Axis.CONNECTIONS: "connection", Axis.WORKERS: "core", Axis.RATE: "request"}
    return f"{level:,} {plural(level, unit[summary.sweep.axis])}"


def _scaled(found: IntervalEstimate, scale: float = 1.0, unit: str = "") -> str:
    value, low, high = (fmt.significant(v * scale) for v in (found.value, found.low, found.high))
    return f"{value}{unit} [{low}, {high}]"


def remarks(found: TargetSweep) -> tuple[str, ...]:
    return tuple(
        f"{result.level:,}: {remark}" for result in found.results for remark in result.remarks
    )


def sweep_figures(summary: SweepSummary) -> tuple[Chart, ...]:
    over = summary.sweep.axis
    how = (
        "counted from the moment at which a request was due"
        if over is Axis.RATE
        else "in the closed loop, which waits with a slow server and so shows its best side"
    )
    dots = "Open dots say nothing about the server's capacity, and no model was fitted."
    if any(target.model is not None for target in summary.targets):
        dots = (
            "The line is the Universal Scalability Law, fitted to the filled dots; an open dot says"
            " nothing about the server, and was left out."
        )
    readings: dict[str, Callable[[LevelResult], Estimate | None]] = {
        "rates": lambda result: result.rate_rps,
        "costs": lambda result: result.cost_ns,
        "latencies": lambda result: percentile_estimate(result, "p99"),
    }
    if over is Axis.RATE:
        del readings["rates"]
    figures = []
    for name, reading in readings.items():
        heading = plots.heading(f"swept-{name}", axis=over, how=how, dots=dots)
        figures.append(_figure(summary, heading._replace(name=name), reading))
    return tuple(figure for figure in figures if figure is not None)


def _figure(
    summary: SweepSummary, heading: Heading, reading: Callable[[LevelResult], Estimate | None]
) -> Chart | None:
    """A line for each target that has values: of rates the fitted model, if there is one."""
    is_rate = heading.name == "rates"
    unit, mark = (fmt.rate, fmt.whole) if is_rate else (fmt.duration, fmt.duration_mark)
    lines: list[Line] = []
    rows: list[tuple[str, ...]] = []
    header: tuple[str, ...] = ()
    for index, target in enumerate(summary.targets):
        points = tuple(
            Point(
                x=float(result.level),
                y=found.value,
                low=found.low,
                high=found.high,
                text=f"{fmt.interval(found, unit)} at {level_text(summary, result.level)}",
                is_open=is_rate and not result.is_fitted,
            )
            for result in target.results
            if (found := reading(result)) is not None
        )
        if not points:
            continue
        table = target_table(summary, target)
        header = table.header
        rows += [(target.arm.name, *row) for row in table.rows]
        path = tuple((p.x, p.y) for p in points)
        lines.append(
            Line(
                name=target.arm.name,
                look=svg.look(index),
                path=target.model.curve if is_rate and target.model else path,
                points=points,
            )
        )
    if not lines:
        return None
    heights = [y for line in lines for _, y in line.path]
    heights += [end for line in lines for p in line.points for end in (p.low, p.high) if end]
    axes = Axes(
        x=scale([p.x for line in lines for p in line.points], fmt.whole),
        y=scale([height for height in heights if height > 0], mark),
        title=str(summary.sweep.axis),
    )
    numbers = Table(header=("target", *header), rows=tuple(rows))
    return plots.line_chart(heading, lines, axes, numbers)


def sweep_to_text(summary: SweepSummary, *, width: int = 100) -> str:
    return terminal.plain(sweep_renderable(summary), width=width)


def sweep_renderable(summary: SweepSummary) -> RenderableType:
    """For a rich console, which chooses width and colours."""
    return terminal.Report(partial(_parts, sanitized(summary)))


def _parts(summary: SweepSummary, width: int) -> Iterator[RenderableType]:
    for warning in summary.warnings:
        if warning.severity is not Severity.NOTE:
            title = f"{warning.severity}: {warning.title}"
            yield Text.assemble((title, terminal.STYLES[warning.severity]))
            yield terminal.indented(Text(warning.text))
    for found in summary.targets:
        yield Text(f"{found.sentence}.", style="bold")
        if found.results:
            yield _drawn(_level_table(summary, found, width), width)
        yield from (terminal.indented(Text(text, style="dim")) for text in remarks(found))
        yield Text("")
    for title, numbers in (
        ("Fitted scalability model", models(summary)),
        ("Forecasts", predictions(summary)),
    ):
        if numbers.rows:
            yield from (Text(title, style="bold"), _drawn(numbers, width))
    yield Text(f"{describe_sweep(summary)}.", style="dim")
    for warning in summary.warnings:
        if warning.severity is Severity.NOTE:
            yield Text(f"{warning.severity}: {warning.title}. {warning.text}", style="dim")


def _level_table(summary: SweepSummary, found: TargetSweep, width: int) -> Table:
    """Where intervals do not fit, half their width in per cent; `sweep --json` has both ends."""
    whole = target_table(summary, found)
    if _ends(whole)[-1] <= width:
        return whole
    short = [
        (row[0], _short(one.rate_rps, fmt.rate), _short(one.cost_ns, fmt.duration), *row[3:])
        for row, one in zip(whole.rows, found.results, strict=True)
    ]
    return Table(header=whole.header, rows=tuple(short))


def _short(found: Estimate | None, show: Callable[[float], str]) -> str:
    if found is None or found.is_vague:
        return fmt.NOTHING
    return f"{show(found.value)} {terminal.width(found)}".rstrip()


def _turned(numbers: Table) -> Table:
    first, *others = zip(numbers.header, *numbers.rows, strict=True)
    return Table(header=first, rows=tuple(others))


def _drawn(numbers: Table, width: int) -> RenderableType:
    """Text is broken; columns that do not fit, either way round, are left out."""
    ends = _ends(numbers)
    if ends[-1] > width and _ends(_turned(numbers))[-1] <= width and len(ends) > FEW:
        numbers, ends = _turned(numbers), _ends(_turned(numbers))
    lost = {index for index, end in enumerate(ends) if end > width and index}
    return terminal.drawn_table(numbers.without(lost), left=LEFT, folded={TEXT})


def _ends(numbers: Table) -> list[int]:
    """For each column, the width of the table up to its end; two spaces separate columns."""
    columns = zip(numbers.header, *numbers.rows, strict=True)
    widths = [cell_len(TEXT) if one[0] == TEXT else max(map(cell_len, one)) for one in columns]
    return list(accumulate(width + 2 for width in widths))


def describe_sweep(summary: SweepSummary) -> str:
    work, sweep = summary.run.workload, summary.sweep
    levels = sorted({result.level for found in summary.targets for result in found.results})
    measured = ", ".join(f"{level:,}" for level in levels)
    over = f"{sweep.axis} over {measured or 'no level yet'}"
    load = f", {work.connections} {plural(work.connections, 'connection')}"
    return (
        f"{work.method} {work.path}, {over}{'' if sweep.axis is Axis.CONNECTIONS else load},"
        f" {sweep.blocks} {plural(sweep.blocks, 'block')} in random order;"
        f" {method.counted_trials(summary)}"
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
        laws=models(summary),
        forecasts=predictions(summary),
        remarks=[(target, remarks(target)) for target in summary.targets],
        machine=method.machine(summary.run),
        asked=describe_sweep(summary),
        **page.warnings(summary.warnings),
    )
