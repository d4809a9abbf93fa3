"""Figures with one row per arm, and the list of all figures of a comparison."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from jissoku.model import ArmSummary, Bottleneck, Estimate, Summary
from jissoku.report import curves, format as fmt, row_plots, svg, tables
from jissoku.report.row_plots import Row
from jissoku.report.svg import Chart, Scale, Tick, arm_style, scale
from jissoku.report.tables import Table

SHARES = Scale(
    low=0,
    high=100,
    is_log=False,
    ticks=tuple(Tick(value=v, label=f"{v} %" if v else "0") for v in (0, 25, 50, 75, 100)),
)


def charts(summary: Summary) -> tuple[Chart, ...]:
    """All charts that have values, in reading order."""
    makers = (
        curves.costs, relative_costs, blocks, curves.latencies, p99, capacities, rates, splits,
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
            marks=row_plots.dot(axis, e),
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
        drawing=row_plots.draw("multiples", rows, axis, reference=1.0),
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
        drawing=row_plots.draw("blocks", rows, axis, reference=0.0),
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
        band = row_plots.band(axis, self.away(self.mean.low), self.away(self.mean.high))
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
            marks=row_plots.dot(axis, e),
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
        drawing=row_plots.draw("p99", rows, axis),
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
                marks=row_plots.bar(SHARES, 0, user, "user")
                + row_plots.bar(SHARES, user, 100, "system"),
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
        drawing=legend + row_plots.draw("splits", rows, SHARES),
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
            marks=row_plots.dot(axis, one.value, is_open=one.is_open),
            style=arm_style(summary, one.known.arm.name),
            tooltip=f"{one.known.arm.name}: {fmt.interval(one.value, 'rate')}",
        )
        for one in drawn
    ]
    name, title, caption = words
    drawing = row_plots.draw(name, rows, axis)
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
            marks=row_plots.bar(axis, 0, size / 2**20),
            style=arm_style(summary, name),
        )
        for name, size in sizes
    ]
    caption = "Resident memory of all of a target's processes at the end of a closed-loop trial."
    return Chart(
        name="memory",
        title="Memory",
        caption=caption,
        drawing=row_plots.draw("memory", rows, axis),
        numbers=tables.memory(summary),
    )
