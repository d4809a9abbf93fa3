"""The charts of a comparison: rows of arms, lines over the rate, distributions of latency."""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from markupsafe import Markup

from jissoku.model.run import Load
from jissoku.model.summary import (
    ArmSummary,
    BlockValue,
    Bottleneck,
    Estimate,
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


class _Dot(NamedTuple):
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
    load = summary.main_load
    if load is None:
        return None
    drawn = [
        _Dot(
            s.arm.name,
            p.relative_cost,
            "1" if s.arm.name == summary.unit else fmt.ratio(p.relative_cost),
        )
        for s, p in tables.measured_at(summary, load)
        if p.relative_cost
    ]
    heading = plots.heading("multiples", load=load.text, unit=fmt.unit_name(summary))
    return _dots(summary, heading, drawn, fmt.times_mark, tables.costs(summary, load), 1.0)


def blocks(summary: Summary) -> Chart | None:
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
    numbers = tables.blocks(summary)
    return plots.row_chart(plots.heading("blocks"), rows, axis, numbers, reference=0.0)


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
        _Dot(s.arm.name, found, fmt.interval(found, fmt.duration))
        for s, point in tables.measured_at(summary, load)
        if (found := tables.percentile_estimate(point, "p99")) is not None
    ]
    heading = plots.heading("p99", load=load.text)
    return _dots(summary, heading, drawn, fmt.duration_mark, tables.latencies(summary, load))


def splits(summary: Summary) -> Chart | None:
    shares = {s.arm.name: s.user_fraction for s in summary.arm_summaries}
    known = [(name, user) for name, user in shares.items() if user is not None]
    if not known:
        return None
    rows = [
        Row(
            name=name,
            label=f"{fmt.percent(user)} user",
            marks=plots.bar(SHARES, 0, 100 * user, "user")
            + plots.bar(SHARES, 100 * user, 100, "system"),
        )
        for name, user in known
    ]
    cells = tuple((name, fmt.percent(user), fmt.percent(1 - user)) for name, user in known)
    numbers = Table(header=("target", "user", "system"), rows=cells)
    box = svg.tag("rect", x=-10, y=-6, width=20, height=12)
    legend = svg.legend([("user", "user", box), ("system", "system", box)])
    return plots.row_chart(plots.heading("splits"), rows, SHARES, numbers, legend=legend)


def rates(summary: Summary) -> Chart | None:
    """Closed-loop rates; open circles say nothing about a server's capacity."""
    known = [(s.arm.name, s.rate_rps, s.bottleneck) for s in summary.arm_summaries if s.rate_rps]
    drawn = [
        _rate(name, rate, f"{fmt.rate(rate.value)} {bound}", is_open=bound is not Bottleneck.SERVER)
        for name, rate, bound in known
    ]
    rows = (
        (name, fmt.interval(rate, fmt.rate), str(bound), str(rate.blocks))
        for name, rate, bound in known
    )
    header = ("target", "requests per second", "bound by", "trials")
    numbers = Table(header=header, rows=tuple(rows))
    return _dots(summary, plots.heading("rates"), drawn, fmt.rate_mark, numbers)


def capacities(summary: Summary) -> Chart | None:
    known = [(s.arm.name, s.capacity_rps) for s in summary.arm_summaries if s.capacity_rps]
    drawn = [_rate(name, rate, fmt.rate(rate.value)) for name, rate in known]
    rows = ((name, fmt.interval(rate, fmt.rate), str(rate.blocks)) for name, rate in known)
    header = ("target", f"highest rate with {summary.run.objective}", "trials")
    heading = plots.heading("capacities", objective=summary.run.objective)
    numbers = Table(header=header, rows=tuple(rows))
    return _dots(summary, heading, drawn, fmt.rate_mark, numbers)


def _rate(name: str, value: Estimate, label: str, *, is_open: bool = False) -> _Dot:
    return _Dot(name, value, label, is_open, f"{name}: {fmt.interval(value, fmt.rate)}")


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
    cells = tuple((name, fmt.size(size)) for name, size in sizes)
    numbers = Table(header=("target", "resident memory"), rows=cells)
    return plots.row_chart(plots.heading("memory"), rows, axis, numbers)


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
    return plots.line_chart(plots.heading("costs"), lines, axes, tables.costs(summary))


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
    heading = plots.heading("latencies", load=summary.main_load.text)
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
