"""The charts of a comparison: rows of arms, lines over the rate, distributions of latency."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from jissoku.model import (
    ArmSummary,
    BlockValue,
    Bottleneck,
    Estimate,
    Load,
    LoadPoint,
    QuantilePoint,
    Summary,
)
from jissoku.report import format as fmt, plots, svg, tables
from jissoku.report.format import Table
from jissoku.report.plots import Axes, Heading, Line, Point, Row
from jissoku.report.svg import Chart, Scale, Tick, arm_look, scale

QUARTERS = tuple(Tick(value=v, label=f"{v} %" if v else "0") for v in (0, 25, 50, 75, 100))
SHARES = Scale(low=0, high=100, is_log=False, ticks=QUARTERS)

# Percentiles on the axis of latencies, as one in N responses that took longer.
PERCENTILES = {
    1: "min", 2: "50 %", 4: "75 %", 10: "90 %", 20: "95 %", 100: "99 %", 1e3: "99.9 %",
    1e4: "99.99 %",
}  # fmt: skip
MINOR = {1, 4, 20}


def charts(summary: Summary) -> tuple[Chart, ...]:
    makers = (costs, relative_costs, blocks, latencies, p99, capacities, rates, splits, memory)
    return tuple(figure for make in makers if (figure := make(summary)) is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Dot:
    """A value of an arm with its interval, as a row."""

    name: str
    value: Estimate
    label: str
    is_open: bool = False
    tooltip: str = ""


def _dots(
    summary: Summary,
    heading: Heading,
    drawn: Sequence[_Dot],
    mark: Callable[[float], str],
    numbers: Table,
    reference: float | None = None,
) -> Chart | None:
    if not drawn:
        return None
    axis = scale([end for one in drawn for end in (one.value.low, one.value.high)], mark)
    rows = [
        Row(
            name=one.name,
            label=one.label,
            marks=plots.dot(
                axis, one.value.value, one.value.low, one.value.high, is_open=one.is_open
            ),
            style=arm_look(summary, one.name).style,
            tooltip=one.tooltip,
        )
        for one in drawn
    ]
    return plots.row_chart(heading, rows, axis, numbers, reference=reference)


def relative_costs(summary: Summary) -> Chart | None:
    """Ranked intervals of the cost per request at the main load."""
    load = summary.main_load
    if load is None:
        return None
    drawn = [
        _Dot(
            name=s.arm.name,
            value=p.relative_cost,
            label="1" if s.arm.name == summary.unit else fmt.ratio(p.relative_cost),
        )
        for s, p in tables.measured_at(summary, load)
        if p.relative_cost
    ]
    caption = (
        f"Server CPU per request at {load.text}, as a multiple of {fmt.unit_name(summary)}:"
        " dot and 95 % interval. Further left is better."
    )
    heading = Heading("multiples", f"CPU per request at {load.text}", caption)
    return _dots(summary, heading, drawn, fmt.times_mark, tables.costs(summary, load), 1.0)


def blocks(summary: Summary) -> Chart | None:
    """Every block relative to its arm's mean, to show the variation."""
    drawn = [
        (s.arm.name, p.relative_cost, p.relative_costs)
        for s, p in tables.measured_at(summary, summary.main_load)
        if p.relative_cost and p.relative_costs and p.relative_cost.sd_log
    ]
    if not drawn:
        return None
    reach = max(
        abs(_away(values, end))
        for _, mean, values in drawn
        for end in (mean.low, mean.high, *(one.value for one in values))
    )
    axis = scale([-(reach or 1.0), reach or 1.0], lambda v: f"{v:+g} %" if v else "mean")
    rows = [
        Row(
            name=name,
            label=f"sd {100 * mean.sd_log:.2f} %",
            marks=_block_marks(mean, values, axis),
            style=arm_look(summary, name).style,
        )
        for name, mean, values in drawn
    ]
    caption = (
        "Each dot is one block: how far its ratio lies from the mean of its target. First block on"
        " top, last one below: a slope would be drift, a lone dot an outlier, which is kept. The"
        " band is the 95 % interval of the mean."
    )
    heading = Heading("blocks", "Every block", caption)
    return plots.row_chart(heading, rows, axis, tables.blocks(summary), reference=0.0)


def _away(values: Sequence[BlockValue], value: float) -> float:
    """Per cent from the mean of the blocks."""
    logs = [math.log(one.value) for one in values]
    return 100 * (value / math.exp(sum(logs) / len(logs)) - 1)


def _block_marks(mean: Estimate, values: Sequence[BlockValue], axis: Scale) -> Markup:
    """The mean's interval, and the blocks from the first one on top to the last one below."""
    last = max(one.block for one in values) or 1
    band = plots.bar(axis, _away(values, mean.low), _away(values, mean.high), "band", plots.BAND)
    dots = (
        svg.tag(
            "use",
            svg.tag("title", f"block {one.block + 1}: {fmt.significant(one.value, 4)}"),
            href="#small",
            x=svg.percent(axis.at(_away(values, one.value))),
            y=round(16 * (one.block / last - 0.5), 1),
        )
        for one in values
    )
    return band + svg.NOTHING.join(dots)


def p99(summary: Summary) -> Chart | None:
    load = summary.main_load
    if load is None:
        return None
    drawn = [
        _Dot(name=s.arm.name, value=found, label=fmt.interval(found, fmt.duration))
        for s, point in tables.measured_at(summary, load)
        if (found := tables.percentile_estimate(point, "p99")) is not None
    ]
    caption = (
        f"One answer in a hundred took longer than this at {load.text}, counted from the time at"
        " which the request was due: mean over blocks with 95 % interval. Further left is better."
    )
    heading = Heading("p99", f"p99 latency at {load.text}", caption)
    return _dots(summary, heading, drawn, fmt.duration_mark, tables.latencies(summary, load))


def splits(summary: Summary) -> Chart | None:
    rows = [
        Row(
            name=known.arm.name,
            label=f"{fmt.percent(known.user_fraction)} user",
            marks=plots.bar(SHARES, 0, 100 * known.user_fraction, "user")
            + plots.bar(SHARES, 100 * known.user_fraction, 100, "system"),
        )
        for known in summary.arm_summaries
        if known.user_fraction is not None
    ]
    if not rows:
        return None
    caption = (
        "Share of CPU time in the program itself (user) and in the kernel on its behalf (system),"
        " at full load, sampled by the kernel's tick: a picture, not evidence."
    )
    box = svg.tag("rect", x=-10, y=-6, width=20, height=12)
    legend = svg.legend([("user", "user", box), ("system", "system", box)])
    heading = Heading("splits", "Where the CPU time goes", caption)
    return plots.row_chart(heading, rows, SHARES, tables.splits(summary), legend=legend)


def rates(summary: Summary) -> Chart | None:
    """Closed-loop rates; open circles say nothing about a server's capacity."""
    drawn = [
        _rate(
            s.arm.name,
            s.rate_rps,
            f"{fmt.rate(s.rate_rps.value)} {s.bottleneck}",
            is_open=s.bottleneck is not Bottleneck.SERVER,
        )
        for s in summary.arm_summaries
        if s.rate_rps
    ]
    caption = (
        "Requests per second in the closed loop, one target alone, with 95 % interval. A filled dot"
        " is server-bound; an open one was limited by something else and is not a capacity."
    )
    heading = Heading("rates", "Closed-loop rate", caption)
    return _dots(summary, heading, drawn, fmt.rate_mark, tables.rates(summary))


def capacities(summary: Summary) -> Chart | None:
    drawn = [
        _rate(s.arm.name, s.capacity_rps, fmt.rate(s.capacity_rps.value))
        for s in summary.arm_summaries
        if s.capacity_rps
    ]
    caption = (
        f"Highest rate, in requests per second, that met {summary.run.objective}, one target"
        " alone, found by search, with 95 % interval. Further right is better."
    )
    heading = Heading("capacities", "Capacity", caption)
    return _dots(summary, heading, drawn, fmt.rate_mark, tables.capacities(summary))


def _rate(name: str, value: Estimate, label: str, *, is_open: bool = False) -> _Dot:
    tooltip = f"{name}: {fmt.interval(value, fmt.rate)}"
    return _Dot(name=name, value=value, label=label, is_open=is_open, tooltip=tooltip)


def memory(summary: Summary) -> Chart | None:
    sizes = [(s.arm.name, s.rss_bytes) for s in summary.arm_summaries if s.rss_bytes]
    if not sizes:
        return None
    axis = scale([size / 2**20 for _, size in sizes], lambda v: f"{v:g} MiB", from_zero=True)
    rows = [
        Row(
            name=name,
            label=fmt.size(size),
            marks=plots.bar(axis, 0, size / 2**20),
            style=arm_look(summary, name).style,
        )
        for name, size in sizes
    ]
    caption = "Resident memory of all of a target's processes at the end of a closed-loop trial."
    return plots.row_chart(Heading("memory", "Memory", caption), rows, axis, tables.memory(summary))


def costs(summary: Summary) -> Chart | None:
    """CPU per request over the rate, one line per arm; None with a single rate."""
    lines = [_cost_line(summary, known) for known in summary.arm_summaries]
    lines = [line for line in lines if line.points]
    loads = sorted(
        {p.load for s in summary.arm_summaries for p in s.points if p.cost_ns and p.load.rate_rps},
        key=lambda load: load.rate_rps or 0,
    )
    if len(loads) < 2:
        return None
    ends = [end for line in lines for p in line.points for end in (p.low, p.high) if end]
    costs_axis = scale(ends, fmt.duration_mark, is_log=True)
    axes = Axes(x=_rate_axis(loads), y=costs_axis, title="requests per second")
    caption = (
        "Server CPU per request at each rate, requests per second on the server's cores, both axes"
        " logarithmic; bars are 95 % intervals. A line ends at the highest load that its target"
        " reached. Lower is better; lines that cross mean that the order depends on the load."
    )
    heading = Heading("costs", "CPU per request by load", caption)
    return plots.line_chart(heading, lines, axes, tables.costs(summary))


def _cost_line(summary: Summary, known: ArmSummary) -> Line:
    name = known.arm.name
    points = tuple(
        Point(
            x=p.load.rate_rps,
            y=p.cost_ns.value,
            low=p.cost_ns.low,
            high=p.cost_ns.high,
            text=f"{fmt.interval(p.cost_ns, fmt.duration)} at {fmt.load_mark(p.load)}",
        )
        for p in known.points
        if p.cost_ns and p.load.rate_rps
    )
    return Line(
        name=name,
        look=arm_look(summary, name),
        path=tuple((p.x, p.y) for p in points),
        points=points,
    )


def _rate_axis(loads: Sequence[Load]) -> Scale:
    """A logarithmic axis with one tick per load, and the level's name below it."""
    rates = [load.rate_rps or 1 for load in loads]
    air = (rates[-1] / rates[0]) ** 0.05
    ticks = tuple(
        Tick(value=rate, label=fmt.rate_mark(rate), note=fmt.level_name(load))
        for rate, load in zip(rates, loads, strict=True)
    )
    return Scale(low=rates[0] / air, high=rates[-1] * air, is_log=True, ticks=ticks)


def latencies(summary: Summary) -> Chart | None:
    """Percentile curves at the main load, on log axes."""
    lines = [
        _latency_line(summary, s.arm.name, p)
        for s, p in tables.measured_at(summary, summary.main_load)
        if p.latency_curve
    ]
    if not lines or summary.main_load is None:
        return None
    reach = 1.02 * max(x for line in lines for x, _ in line.path)
    ticks = tuple(
        Tick(value=at, label=text, is_minor=at in MINOR)
        for at, text in PERCENTILES.items()
        if at <= reach
    )
    axes = Axes(
        x=Scale(low=1, high=reach, is_log=True, ticks=ticks),
        y=scale([y for line in lines for _, y in line.path], fmt.duration_mark),
    )
    caption = (
        f"Time to the whole answer at {summary.main_load.text}, counted from the time at which the"
        " request was due. Each point is the median over trials; a curve ends where fewer than a"
        " hundred answers lie above it. Lower is better."
    )
    heading = Heading("latencies", "Latency", caption)
    return plots.line_chart(heading, lines, axes, tables.latencies(summary))


def _latency_line(summary: Summary, name: str, known: LoadPoint) -> Line:
    """The curve as a line, with marks at the points nearest to the axis's ticks."""
    curve = [p for p in known.latency_curve if p.latency_ns > 0]
    marked = {
        min(range(len(curve)), key=lambda index: abs(math.log(_reach(curve[index]) / at)))
        for at in PERCENTILES
        if at > 1 and curve and at <= 1.02 * _reach(curve[-1])
    }
    points = tuple(
        Point(
            x=_reach(found),
            y=found.latency_ns,
            text=f"{100 * found.fraction:.4g} % within {fmt.duration(found.latency_ns)}",
        )
        for found in (curve[index] for index in sorted(marked))
    )
    return Line(
        name=name,
        look=arm_look(summary, name),
        path=tuple((_reach(p), p.latency_ns) for p in curve),
        points=points,
    )


def _reach(point: QuantilePoint) -> float:
    """One in N responses took longer."""
    return 1 / (1 - point.fraction)
