"""The charts of a comparison: rows of arms, lines over the rate, distributions of latency."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from jissoku.model import (
    ArmSummary,
    Bottleneck,
    Estimate,
    Load,
    LoadLevel,
    LoadPoint,
    QuantilePoint as CurvePoint,
    Summary,
)
from jissoku.report import format as fmt, plots, svg, tables
from jissoku.report.format import Table
from jissoku.report.plots import Axes, Line, Point, Row
from jissoku.report.svg import Chart, Scale, Tick, arm_shape, arm_style, scale

SHARES = Scale(
    low=0,
    high=100,
    is_log=False,
    ticks=tuple(Tick(value=v, label=f"{v} %" if v else "0") for v in (0, 25, 50, 75, 100)),
)


def charts(summary: Summary) -> tuple[Chart, ...]:
    """All charts that have values, in reading order."""
    makers = (
        costs, relative_costs, blocks, latencies, p99, capacities, rates, splits,
        memory,
    )  # fmt: skip
    return tuple(figure for make in makers if (figure := make(summary)) is not None)


def relative_costs(summary: Summary) -> Chart | None:
    """Ranked intervals of the cost per request at the main load."""
    load = summary.main_load
    drawn = [(s, p.relative_cost) for s, p in tables.measured_at(summary, load) if p.relative_cost]
    if not drawn or load is None:
        return None
    axis = scale([end for _, e in drawn for end in (e.low, e.high)], _times)
    rows = [
        Row(
            name=s.arm.name,
            label="1" if s.arm.name == summary.unit else fmt.ratio(e),
            marks=plots.dot(axis, e),
            style=arm_style(summary, s.arm.name),
        )
        for s, e in drawn
    ]
    caption = (
        f"Server CPU per request at {load.text}, as a multiple of {fmt.unit_name(summary)}:"
        " dot and 95 % interval. Further left is better."
    )
    return Chart(
        name="multiples",
        title=f"CPU per request at {load.text}",
        caption=caption,
        drawing=plots.draw_rows("multiples", rows, axis, reference=1.0),
        numbers=tables.costs(summary, load),
    )


def _times(value: float) -> str:
    return f"{value:g} {fmt.TIMES}"


def blocks(summary: Summary) -> Chart | None:
    """Every block relative to its arm's mean, to show the variation."""
    drawn = [
        _Blocks(
            known=s,
            mean=p.relative_cost,
            values=tuple((d.block, d.value) for d in p.relative_costs),
        )
        for s, p in tables.measured_at(summary, summary.main_load)
        if p.relative_cost and p.relative_costs and p.relative_cost.sd_log
    ]
    if not drawn:
        return None
    reach = max(abs(one.away(v)) for one in drawn for v in one.reached) or 1.0
    axis = scale([-reach, reach], lambda v: f"{v:+g} %" if v else "mean")
    rows = [
        Row(
            name=one.known.arm.name,
            label=f"sd {100 * one.mean.sd_log:.2f} %",
            marks=one.marks(axis),
            style=arm_style(summary, one.known.arm.name),
        )
        for one in drawn
    ]
    caption = (
        "Each dot is one block: how far its ratio lies from the mean of its target. First block on"
        " top, last one below: a slope would be drift, a lone dot an outlier, which is kept. The"
        " band is the 95 % interval of the mean."
    )
    return Chart(
        name="blocks",
        title="Every block",
        caption=caption,
        drawing=plots.draw_rows("blocks", rows, axis, reference=0.0),
        numbers=tables.blocks(summary),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Blocks:
    """An arm's blocks, as (index, multiple), and their mean."""

    known: ArmSummary
    mean: Estimate
    values: tuple[tuple[int, float], ...]

    @property
    def reached(self) -> Sequence[float]:
        return (*(value for _, value in self.values), self.mean.low, self.mean.high)

    def away(self, value: float) -> float:
        """Per cent from the mean of the blocks."""
        logs = [math.log(value) for _, value in self.values]
        return 100 * (value / math.exp(sum(logs) / len(logs)) - 1)

    def marks(self, axis: Scale) -> Markup:
        """The mean's interval, and the blocks from the first one on top to the last one below."""
        last = max(block for block, _ in self.values) or 1
        band = plots.band(axis, self.away(self.mean.low), self.away(self.mean.high))
        values = (
            svg.tag(
                "use",
                svg.tag("title", f"block {block + 1}: {fmt.significant(value, 4)}"),
                href="#small",
                x=svg.percent(axis.at(self.away(value))),
                y=round(16 * (block / last - 0.5), 1),
            )
            for block, value in self.values
        )
        return band + svg.NOTHING.join(values)


def p99(summary: Summary) -> Chart | None:
    """The 99th percentile at the main load."""
    load = summary.main_load
    found = [
        (s.arm.name, p.estimate_ns)
        for s, point in tables.measured_at(summary, load)
        for p in point.percentiles
        if p.label == "p99" and p.estimate_ns
    ]
    if not found or load is None:
        return None
    axis = scale([end for _, e in found for end in (e.low, e.high)], fmt.duration_mark)
    rows = [
        Row(
            name=name,
            label=fmt.interval(e, "duration"),
            marks=plots.dot(axis, e),
            style=arm_style(summary, name),
        )
        for name, e in found
    ]
    caption = (
        f"One answer in a hundred took longer than this at {load.text}, counted from the time at"
        " which the request was due: mean over blocks with 95 % interval. Further left is better."
    )
    return Chart(
        name="p99",
        title=f"p99 latency at {load.text}",
        caption=caption,
        drawing=plots.draw_rows("p99", rows, axis),
        numbers=tables.latencies(summary, load),
    )


def splits(summary: Summary) -> Chart | None:
    """User and system share of the CPU time."""
    rows = []
    for known in summary.arm_summaries:
        if known.user_fraction is None:
            continue
        user = 100 * known.user_fraction
        rows.append(
            Row(
                name=known.arm.name,
                label=f"{fmt.percent(known.user_fraction)} user",
                marks=plots.bar(SHARES, 0, user, "user") + plots.bar(SHARES, user, 100, "system"),
            )
        )
    if not rows:
        return None
    caption = (
        "Share of CPU time in the program itself (user) and in the kernel on its behalf (system),"
        " at full load, sampled by the kernel's tick: a picture, not evidence."
    )
    box = svg.tag("rect", x=-10, y=-6, width=20, height=12)
    legend = svg.legend([("user", "user", box), ("system", "system", box)])
    return Chart(
        name="splits",
        title="Where the CPU time goes",
        caption=caption,
        drawing=legend + plots.draw_rows("splits", rows, SHARES),
        numbers=tables.splits(summary),
    )


def rates(summary: Summary) -> Chart | None:
    """Closed-loop rates; open circles say nothing about a server's capacity."""
    drawn = [
        _Rate(
            known=s,
            value=s.rate_rps,
            label=f"{fmt.rate(s.rate_rps.value)} {s.bottleneck}",
            is_open=s.bottleneck is not Bottleneck.SERVER,
        )
        for s in summary.arm_summaries
        if s.rate_rps
    ]
    caption = (
        "Requests per second in the closed loop, one target alone, with 95 % interval. A filled dot"
        " is server-bound; an open one was limited by something else and is not a capacity."
    )
    words = ("rates", "Closed-loop rate", caption)
    return _rates(summary, words, drawn, tables.rates(summary))


def capacities(summary: Summary) -> Chart | None:
    """The highest rate that met the objective."""
    drawn = [
        _Rate(known=s, value=s.capacity_rps, label=fmt.rate(s.capacity_rps.value))
        for s in summary.arm_summaries
        if s.capacity_rps
    ]
    caption = (
        f"Highest rate, in requests per second, that met {summary.run.objective}, one target"
        " alone, found by search, with 95 % interval. Further right is better."
    )
    words = ("capacities", "Capacity", caption)
    return _rates(summary, words, drawn, tables.capacities(summary))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rate:
    """A rate in requests per second as a dot, with a label."""

    known: ArmSummary
    value: Estimate
    label: str
    is_open: bool = False


def _rates(
    summary: Summary, words: tuple[str, str, str], drawn: Sequence[_Rate], numbers: Table
) -> Chart | None:
    """Rates as dots with intervals; `words` are name, title and caption."""
    if not drawn:
        return None
    axis = scale([end for one in drawn for end in (one.value.low, one.value.high)], fmt.rate_mark)
    rows = [
        Row(
            name=one.known.arm.name,
            label=one.label,
            marks=plots.dot(axis, one.value, is_open=one.is_open),
            style=arm_style(summary, one.known.arm.name),
            tooltip=f"{one.known.arm.name}: {fmt.interval(one.value, 'rate')}",
        )
        for one in drawn
    ]
    name, title, caption = words
    drawing = plots.draw_rows(name, rows, axis)
    return Chart(name=name, title=title, caption=caption, drawing=drawing, numbers=numbers)


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
            style=arm_style(summary, name),
        )
        for name, size in sizes
    ]
    caption = "Resident memory of all of a target's processes at the end of a closed-loop trial."
    return Chart(
        name="memory",
        title="Memory",
        caption=caption,
        drawing=plots.draw_rows("memory", rows, axis),
        numbers=tables.memory(summary),
    )


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
        x=_rate_axis(loads),
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
        drawing=plots.draw_lines("costs", lines, axes),
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


def _rate_axis(loads: Sequence[Load]) -> Scale:
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
        drawing=plots.draw_lines("latencies", lines, axes),
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
