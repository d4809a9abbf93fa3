"""Figures of lines: CPU per request over the rate, and distributions of latency."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from jissoku.model import (
    ArmSummary,
    Load,
    LoadLevel,
    LoadPoint,
    QuantilePoint as CurvePoint,
    Summary,
)
from jissoku.report import format as fmt, line_plots, tables
from jissoku.report.line_plots import Axes, Line, Point
from jissoku.report.svg import Chart, Scale, Tick, arm_shape, arm_style, scale

# Percentiles on the axis of latencies, as one in N responses that took longer.
PERCENTILES = {
    1: "min", 2: "50 %", 4: "75 %", 10: "90 %", 20: "95 %", 100: "99 %", 1e3: "99.9 %",
    1e4: "99.99 %",
}  # fmt: skip
MINOR = {1, 4, 20}


@dataclass(frozen=True, slots=True)
class _Line:
    known: ArmSummary
    points: tuple[LoadPoint, ...]


def costs(summary: Summary) -> Chart | None:
    """CPU per request over the rate, one line per arm; None with a single rate."""
    drawn = [
        _Line(known, points)
        for known in summary.arm_summaries
        if (points := tuple(p for p in known.points if p.cost_ns and p.load.rate_rps))
    ]
    loads = sorted(
        {p.load for line in drawn for p in line.points}, key=lambda load: load.rate_rps or 0
    )
    if len(loads) < 2:
        return None
    lines = [_cost_line(summary, line) for line in drawn]
    ends = [end for line in lines for p in line.points for end in (p.low, p.high) if end]
    axes = Axes(
        x=_rates(loads),
        y=scale(ends, fmt.duration_mark, is_log=True),
        title="requests per second",
    )
    caption = (
        "Server CPU per request at each rate, requests per second on the server's cores, both axes"
        " logarithmic; bars are 95 % intervals. A line ends at the highest load that its target"
        " reached. Lower is better; lines that cross mean that the order depends on the load."
    )
    return Chart(
        name="costs",
        title="CPU per request by load",
        caption=caption,
        drawing=line_plots.draw("costs", lines, axes),
        numbers=tables.costs(summary),
    )


def _cost_line(summary: Summary, line: _Line) -> Line:
    name = line.known.arm.name
    points = tuple(
        Point(
            x=p.load.rate_rps,
            y=p.cost_ns.value,
            low=p.cost_ns.low,
            high=p.cost_ns.high,
            text=f"{fmt.interval(p.cost_ns, 'duration')} at {fmt.load_mark(p.load)}",
        )
        for p in line.points
        if p.cost_ns and p.load.rate_rps
    )
    return Line(
        name=name,
        style=arm_style(summary, name),
        shape=arm_shape(summary, name),
        path=tuple((p.x, p.y) for p in points),
        points=points,
    )


def _rates(loads: Sequence[Load]) -> Scale:
    """A logarithmic axis with one tick per load, and the level's name below it."""
    rates = [load.rate_rps or 1 for load in loads]
    air = (rates[-1] / rates[0]) ** 0.05
    return Scale(
        low=rates[0] / air,
        high=rates[-1] * air,
        is_log=True,
        ticks=tuple(
            Tick(value=rate, label=fmt.rate_mark(rate), note=_note(load))
            for rate, load in zip(rates, loads, strict=True)
        ),
    )


def _note(load: Load) -> str:
    return (
        str(load.level)
        if load.level in {LoadLevel.LIGHT, LoadLevel.MEDIUM, LoadLevel.HEAVY}
        else ""
    )


def latencies(summary: Summary) -> Chart | None:
    """Percentile curves at the main load, on log axes."""
    drawn = [
        (s.arm.name, p)
        for s, p in tables.measured_at(summary, summary.main_load)
        if p.latency_curve
    ]
    if not drawn or summary.main_load is None:
        return None
    lines = [_latency_line(summary, name, point) for name, point in drawn]
    heights = [y for line in lines for _, y in line.path]
    reach = 1.02 * max(x for line in lines for x, _ in line.path)
    ticks = tuple(
        Tick(value=at, label=text, is_minor=at in MINOR)
        for at, text in PERCENTILES.items()
        if at <= reach
    )
    axes = Axes(
        x=Scale(low=1, high=reach, is_log=True, ticks=ticks), y=scale(heights, fmt.duration_mark)
    )
    caption = (
        f"Time to the whole answer at {summary.main_load.text}, counted from the time at which the"
        " request was due. Each point is the median over trials; a curve ends where fewer than a"
        " hundred answers lie above it. Lower is better."
    )
    return Chart(
        name="latencies",
        title="Latency",
        caption=caption,
        drawing=line_plots.draw("latencies", lines, axes),
        numbers=tables.latencies(summary),
    )


def _latency_line(summary: Summary, name: str, known: LoadPoint) -> Line:
    """The curve as a line, with marks at the points nearest to the axis's ticks."""
    curve = [p for p in known.latency_curve if p.latency_ns > 0]
    marked = {
        min(range(len(curve)), key=lambda index: abs(math.log(_reach(curve[index]) / at)))
        for at in PERCENTILES
        if at > 1 and curve and at <= 1.02 * _reach(curve[-1])
    }
    return Line(
        name=name,
        style=arm_style(summary, name),
        shape=arm_shape(summary, name),
        path=tuple((_reach(p), p.latency_ns) for p in curve),
        points=tuple(_point(curve[index]) for index in sorted(marked)),
    )


def _reach(point: CurvePoint) -> float:
    """One in N responses took longer."""
    return 1 / (1 - point.fraction)


def _point(found: CurvePoint) -> Point:
    text = f"{100 * found.fraction:.4g} % within {fmt.duration(found.latency_ns)}"
    return Point(x=_reach(found), y=found.latency_ns, text=text)
