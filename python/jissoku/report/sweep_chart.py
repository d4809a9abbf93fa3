"""A sweep's charts: the results per level, and the fitted model."""

from collections.abc import Callable, Sequence

from jissoku.model import Axis, Estimate, LevelResult, SweepSummary, TargetSweep
from jissoku.model.updated import updated
from jissoku.report import format as fmt, line_plots, svg, sweep_tables as tables
from jissoku.report.line_plots import Axes, Line, Point
from jissoku.report.svg import Chart, scale
from jissoku.report.tables import Table

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
        drawing=line_plots.draw(name, lines, axes),
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
        text=f"{value} [{low}, {high}] at {tables.level_text(summary, result.level)}",
        is_open=not result.is_fitted,
    )


def _numbers(
    summary: SweepSummary,
    drawn: Sequence[tuple[TargetSweep, Sequence[tuple[LevelResult, Estimate]]]],
) -> Table:
    found = [(target, tables.target_table(summary, target)) for target, _ in drawn]
    rows = tuple((target.arm.name, *row) for target, one in found for row in one.rows)
    return Table(header=("target", *found[0][1].header), rows=rows)
