"""A sweep's report: tables and charts, for a terminal, as JSON and as one HTML file."""

from collections.abc import Callable, Sequence

import msgspec
from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from jissoku.model import (
    Axis,
    Bottleneck,
    Estimate,
    IntervalEstimate,
    LevelResult,
    Severity,
    SweepSummary,
    TargetSweep,
    UslModel,
)
from jissoku.model.updated import updated
from jissoku.model.wording import plural, trials_count
from jissoku.report import format as fmt, method, page, plots, svg
from jissoku.report.format import Table, rounded, sanitized
from jissoku.report.plots import Axes, Line, Point
from jissoku.report.svg import Chart, scale
from jissoku.report.terminal import STYLES, plain

MILLION = 1e6


def target_table(summary: SweepSummary, found: TargetSweep) -> Table:
    """One row per level."""
    is_rate = summary.sweep.axis is Axis.RATE
    header = (
        str(summary.sweep.axis), "rate", "CPU/req", "p50", "p99",
        "answered" if is_rate else "bound", "blocks", "" if is_rate else "fitted",
    )  # fmt: skip
    rows = tuple(_row(result, is_rate=is_rate) for result in found.results)
    if is_rate:
        return Table(header=header[:-1], rows=tuple(row[:-1] for row in rows))
    return Table(header=header, rows=rows)


def _row(result: LevelResult, *, is_rate: bool) -> tuple[str, ...]:
    answered = (
        fmt.NOTHING
        if result.achieved_fraction is None
        else f"{100 * result.achieved_fraction:.1f} %"
    )
    return (
        f"{result.level:,}",
        fmt.interval(result.rate_rps, "rate"),
        fmt.interval(result.cost_ns, "duration"),
        percentile(result, "p50"),
        percentile(result, "p99"),
        answered if is_rate else short_bottleneck(result),
        str(result.blocks),
        "yes" if result.is_fitted else "no",
    )


def short_bottleneck(result: LevelResult) -> str:
    """The bottleneck of a closed-loop rate, in one word."""
    return {
        Bottleneck.SERVER: "server",
        Bottleneck.GENERATOR: "generator",
        Bottleneck.NEITHER: "neither",
        Bottleneck.UNKNOWN: "unknown",
    }[result.bottleneck]


def percentile(result: LevelResult, label: str) -> str:
    """One latency percentile; a dash if too few answers lie above it."""
    for found in result.percentiles:
        if found.label == label:
            return fmt.duration(found.estimate_ns.value if found.estimate_ns else found.median_ns)
    return fmt.NOTHING


def models(summary: SweepSummary) -> Table:
    """One row per target: the model's parameters, and the predicted peak."""
    header = (
        "target", "rate of one", "contention", "coherency, per million", "peak at", "misfit",
        "levels", "blocks",
    )  # fmt: skip
    rows = tuple(_model_row(c.arm.name, c.model) for c in summary.targets if c.model is not None)
    return Table(header=header, rows=rows)


def _model_row(name: str, model: UslModel) -> tuple[str, ...]:
    return (
        name,
        format_interval(model.single_rps, unit="/s"),
        format_interval(model.contention, scale=100, unit=" %"),
        format_interval(model.coherency, scale=MILLION),
        fmt.NOTHING if model.peak is None else format_interval(model.peak),
        f"{100 * model.max_residual:.1f} %",
        str(len(model.levels)),
        str(model.blocks),
    )


def predictions(summary: SweepSummary) -> Table:
    """One row per target and requested level."""
    rows = []
    for found in summary.targets:
        for one in found.model.predictions if found.model is not None else ():
            text = one.reason if one.rate_rps is None else format_interval(one.rate_rps, unit="/s")
            rows.append((found.arm.name, level_text(summary, one.level), text))
    return Table(header=("target", "at", "requests per second"), rows=tuple(rows))


def level_text(summary: SweepSummary, level: int) -> str:
    """A level in words: one core per worker."""
    unit = {Axis.CONNECTIONS: "connection", Axis.WORKERS: "core", Axis.RATE: "request"}
    return f"{level:,} {unit[summary.sweep.axis]}{'' if level == 1 else 's'}"


def format_interval(found: IntervalEstimate, *, scale: float = 1.0, unit: str = "") -> str:
    """A value with its interval."""
    value, low, high = (
        fmt.significant(end * scale) for end in (found.value, found.low, found.high)
    )
    return f"{value}{unit} [{low}, {high}]"


def remarks(found: TargetSweep) -> tuple[str, ...]:
    """Remarks on single levels, each with its level."""
    return tuple(
        f"{result.level:,}: {remark}" for result in found.results for remark in result.remarks
    )


Reading = Callable[[LevelResult], Estimate | None]


def sweep_figures(summary: SweepSummary) -> tuple[Chart, ...]:
    """All charts that have values, in reading order."""
    found = (rates(summary), costs(summary), latencies(summary))
    return tuple(figure for figure in found if figure is not None)


def rates(summary: SweepSummary) -> Chart | None:
    """The rate at each level, with the model as a line; filled dots were fitted."""
    over = summary.sweep.axis
    if over is Axis.RATE:
        return None
    fitted = any(target.model is not None for target in summary.targets)
    caption = (
        f"Requests per second in the closed loop at each number of {over}: mean over blocks with"
        " 95 % interval."
    )
    if fitted:
        caption += (
            " The line is the Universal Scalability Law, fitted to the filled dots; an open dot"
            " says nothing about the server, and was left out."
        )
    else:
        caption += " Open dots say nothing about the server's capacity, and no model was fitted."
    return _figure(
        summary,
        ("rates", "Rate", caption),
        lambda result: result.rate_rps,
        lambda value: f"{value:,.0f}",
    )


def costs(summary: SweepSummary) -> Chart | None:
    """CPU per request at each level."""
    caption = (
        f"CPU time of all of a target's processes per answer, at each level of {summary.sweep.axis}"
        ": mean over blocks with 95 % interval. A cost belongs to its level."
    )
    return _figure(
        summary,
        ("costs", "CPU per request", caption),
        lambda result: result.cost_ns,
        fmt.duration_mark,
    )


def latencies(summary: SweepSummary) -> Chart | None:
    """The 99th percentile at each level."""
    how = (
        "counted from the moment at which a request was due"
        if summary.sweep.axis is Axis.RATE
        else "in the closed loop, which waits with a slow server and so shows its best side"
    )
    return _figure(
        summary,
        (
            "latencies",
            "Latency, p99",
            f"One answer in a hundred took longer than this, {how}.",
        ),
        _p99,
        fmt.duration_mark,
    )


def _p99(result: LevelResult) -> Estimate | None:
    return next((one.estimate_ns for one in result.percentiles if one.label == "p99"), None)


def _figure(
    summary: SweepSummary,
    words: tuple[str, str, str],
    reading: Reading,
    mark: Callable[[float], str],
) -> Chart | None:
    name, title, caption = words
    drawn = [
        (index, target, points)
        for index, target in enumerate(summary.targets)
        if (points := [(r, e) for r in target.results if (e := reading(r)) is not None])
    ]
    if not drawn:
        return None
    is_rate = name == "rates"
    unit = fmt.rate if is_rate else fmt.duration
    lines = [
        _line(index, target, [_point(summary, r, e, unit) for r, e in points], with_law=is_rate)
        for index, target, points in drawn
    ]
    heights = [y for line in lines for _, y in line.path]
    heights += [end for _, _, points in drawn for _, e in points for end in (e.low, e.high)]
    levels = [float(r.level) for _, _, points in drawn for r, _ in points]
    axes = Axes(
        x=scale(levels, lambda value: f"{value:,.0f}"),
        y=scale([h for h in heights if h > 0], mark),
        title=str(summary.sweep.axis),
    )
    return Chart(
        name=name,
        title=title,
        caption=caption,
        drawing=plots.draw_lines(name, lines, axes),
        numbers=_numbers(summary, [(target, points) for _, target, points in drawn]),
    )


def _line(index: int, target: TargetSweep, points: Sequence[Point], *, with_law: bool) -> Line:
    """The fitted model if there is one; else a line through all points, all of them filled."""
    model = target.model if with_law else None
    found = points if with_law else [updated(point, is_open=False) for point in points]
    return Line(
        name=target.arm.name,
        style=svg.style(index),
        shape=svg.shape(index),
        path=tuple((p.x, p.y) for p in points) if model is None else model.curve,
        points=tuple(found),
    )


def _point(
    summary: SweepSummary, result: LevelResult, found: Estimate, unit: Callable[[float], str]
) -> Point:
    value, low, high = map(unit, (found.value, found.low, found.high))
    return Point(
        x=float(result.level),
        y=found.value,
        low=found.low,
        high=found.high,
        text=f"{value} [{low}, {high}] at {level_text(summary, result.level)}",
        is_open=not result.is_fitted,
    )


def _numbers(
    summary: SweepSummary,
    drawn: Sequence[tuple[TargetSweep, Sequence[tuple[LevelResult, Estimate]]]],
) -> Table:
    found = [(target, target_table(summary, target)) for target, _ in drawn]
    rows = tuple((target.arm.name, *row) for target, one in found for row in one.rows)
    return Table(header=("target", *found[0][1].header), rows=rows)


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
            parts.append(_drawn(target_table(summary, found)))
        parts += [Padding(Text(text, style="dim"), (0, 0, 0, 2)) for text in remarks(found)]
        parts.append(Text(""))
    for title, numbers in (
        ("Fitted scalability model", models(summary)),
        ("Forecasts", predictions(summary)),
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
        laws=models(summary),
        forecasts=predictions(summary),
        remarks=[(target, remarks(target)) for target in summary.targets],
        measured=(DESIGN, LAW, LIMITS),
        machine=method.machine(summary.run),
        asked=describe_sweep(summary),
    )
