"""Plots as plotly figures, each with the numbers that it shows.

Text that plotly would read as markup is escaped here. How rows are laid out is in `rows`.
"""

import html
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import plotly.graph_objects as go  # type: ignore[import-untyped]

from jissoku.model import Bound, Standing, Summary
from jissoku.report import format as fmt, rows, tables
from jissoku.report.axis import axis
from jissoku.report.palette import SOFT, USER, colour, dash
from jissoku.report.tables import Table

LEGEND = {
    "orientation": "h",
    "traceorder": "normal",
    "x": 0,
    "y": 1.0,
    "yanchor": "bottom",
    "xanchor": "left",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A plot, how to read it, and its numbers.

    Attributes:
        plot: Plotly's data and layout, as plain values.
    """

    name: str
    title: str
    caption: str
    plot: dict[str, object]
    numbers: Table


def figures(summary: Summary) -> tuple[Figure, ...]:
    """All plots for which there are numbers, in reading order."""
    makers: tuple[Callable[[Summary], Figure | None], ...] = (
        multiples, blocks, splits, rates, latencies, memory,
    )  # fmt: skip
    return tuple(figure for make in makers if (figure := make(summary)) is not None)


def multiples(summary: Summary) -> Figure | None:
    """Ranked intervals of the cost per request."""
    drawn = [known for known in summary.standings if known.multiple]
    if not drawn:
        return None
    unit = fmt.unit_name(summary)
    points = [(s, s.multiple) for s in drawn if s.multiple]
    traces = [rows.dot(row, e, colour(summary, s.arm.name)) for row, (s, e) in enumerate(points)]
    labels = ["1" if s.arm.name == summary.unit else fmt.ratio(e) for s, e in points]
    ends = [end for _, e in points for end in (e.low, e.high)]
    layout = rows.layout(drawn, labels, axis(ends, lambda v: f"{v:g} {fmt.TIMES}"))
    layout["shapes"] = [rows.line_at(1.0)]
    caption = (
        f"Server CPU per request as a multiple of {unit}, cheapest first: dot and 95 % interval."
        f" Further left is better.{_other_rates(drawn, summary.unit)}"
    )
    return Figure(
        name="multiples",
        title="CPU per request",
        caption=caption,
        plot=_plot(traces, layout),
        numbers=tables.costs(summary),
    )


def _other_rates(drawn: Sequence[Standing], unit: str) -> str:
    """A cost belongs to its rate, so arms that had a rate of their own are named."""
    known = [(s.arm.name, s.cost_rate_rps) for s in drawn if s.arm.name != unit]
    offered = Counter(rate for _, rate in known)
    if len(offered) < 2:
        return ""
    common = max(offered, key=lambda rate: (offered[rate], rate or 0))
    others = "; ".join(f"{name} {tables.at_rate(rate)}" for name, rate in known if rate != common)
    return (
        f" Measured at {tables.at_rate(common)}, but {others}: across rates a multiple may be off"
        " by a factor of 1.8, and verdicts allow for that."
    )


def blocks(summary: Summary) -> Figure | None:
    """Every block against its arm's mean, so that the spread can be seen."""
    drawn = [s for s in summary.standings if s.multiple and s.multiples and s.multiple.spread]
    if not drawn:
        return None
    traces = []
    for row, known in enumerate(drawn):
        assert known.multiple is not None, "only arms with a multiple are drawn"
        centre = math.exp(sum(math.log(d.value) for d in known.multiples) / len(known.multiples))
        off = [100 * (dot.value / centre - 1) for dot in known.multiples]
        last = max(dot.block for dot in known.multiples) or 1
        shade = colour(summary, known.arm.name)
        traces.append(rows.band(row, known.multiple, centre, shade))
        traces.append(go.Scatter(
            x=off,
            y=[row + 0.5 * (dot.block / last - 0.5) for dot in known.multiples],
            mode="markers",
            marker={"color": shade, "size": 8, "opacity": 0.75},
            text=[f"block {d.block + 1}: {fmt.significant(d.value, 4)}" for d in known.multiples],
            hovertemplate="%{text} (%{x:+.2f} %)<extra></extra>",
        ))  # fmt: skip
    labels = [f"sd {100 * s.multiple.spread:.2f} %" for s in drawn if s.multiple]
    reach = max(abs(x) for trace in traces for x in trace.x) or 1.0
    layout = rows.layout(
        drawn, labels, axis([-reach, reach], lambda v: f"{v:+g} %" if v else "mean")
    )
    layout["shapes"] = [rows.line_at(0.0)]
    caption = (
        "Each dot is one block: how far its ratio lies from the mean of its target. First block on"
        " top, last one below: a slope would be drift, a lone dot an outlier, which is kept. The"
        " band is the 95 % interval of the mean."
    )
    return Figure(
        name="blocks",
        title="Every block",
        caption=caption,
        plot=_plot(traces, layout),
        numbers=tables.blocks(summary),
    )


def splits(summary: Summary) -> Figure | None:
    """User and system share of the CPU time."""
    drawn = [s for s in summary.standings if s.cost_ns and s.user_fraction is not None]
    if not drawn:
        return None
    user = [100 * (s.user_fraction or 0) for s in drawn]
    places = list(range(len(drawn)))
    style = {"orientation": "h", "hovertemplate": "%{x:.0f} % %{fullData.name}<extra></extra>"}
    traces = [
        go.Bar(x=user, y=places, name="user", marker={"color": USER}, **style),
        go.Bar(x=[100 - u for u in user], y=places, name="system", marker={"color": SOFT}, **style),
    ]
    labels = [f"{row[1]} user" for row in tables.splits(summary).rows]
    layout = rows.layout(drawn, labels, {
        "range": [0, 100],
        "tickvals": [0, 25, 50, 75, 100],
        "ticktext": ["0", "25 %", "50 %", "75 %", "100 %"],
    })  # fmt: skip
    layout |= {"barmode": "stack", "bargap": 0.45, "showlegend": True, "legend": LEGEND}
    caption = (
        "Share of CPU time in the program itself (user) and in the kernel on its behalf (system),"
        " at full load, sampled by the kernel's tick: a picture, not evidence."
    )
    return Figure(
        name="splits",
        title="Where the CPU time goes",
        caption=caption,
        plot=_plot(traces, layout),
        numbers=tables.splits(summary),
    )


def rates(summary: Summary) -> Figure | None:
    """Closed-loop rates; open circles say nothing about a server's capacity."""
    drawn = [s for s in summary.standings if s.rate_rps]
    if not drawn:
        return None
    points = [(s, s.rate_rps) for s in drawn if s.rate_rps]
    traces = [
        rows.dot(
            row,
            e,
            colour(summary, s.arm.name),
            symbol="circle" if s.bound is Bound.SERVER else "circle-open",
        )
        for row, (s, e) in enumerate(points)
    ]
    labels = [f"{fmt.rate(e.value)} {s.bound}" for s, e in points]
    ends = [end for _, e in points for end in (e.low, e.high)]
    layout = rows.layout(drawn, labels, axis(ends, lambda v: f"{v:,.0f}"))
    caption = (
        "Requests per second in the closed loop, one target alone, with 95 % interval. A filled dot"
        " is server-bound; an open one was held down by something else and is no capacity."
    )
    return Figure(
        name="rates",
        title="Closed-loop rate",
        caption=caption,
        plot=_plot(traces, layout),
        numbers=tables.rates(summary),
    )


def latencies(summary: Summary) -> Figure | None:
    """Percentile curves on log axes."""
    drawn = [s for s in summary.standings if s.curve]
    if not drawn:
        return None
    traces = []
    for known in drawn:
        name = known.arm.name
        traces.append(go.Scatter(
            x=[1 / (1 - p.fraction) for p in known.curve],
            y=[p.latency_ns for p in known.curve],
            mode="lines",
            name=html.escape(name),
            line={"color": colour(summary, name), "width": 2.5,
                  "dash": dash(summary, name)},
            text=[f"{100 * p.fraction:.4g} % within {fmt.duration(p.latency_ns)}"
                  for p in known.curve],
            hovertemplate="%{fullData.name}: %{text}<extra></extra>",
        ))  # fmt: skip
    heights = [p.latency_ns for s in drawn for p in s.curve if p.latency_ns > 0]
    reach = max(1 / (1 - p.fraction) for s in drawn for p in s.curve)
    marks = [
        (1, "min"),
        (2, "50 %"),
        (10, "90 %"),
        (100, "99 %"),
        (1e3, "99.9 %"),
        (1e4, "99.99 %"),
    ]
    layout: dict[str, object] = {
        "height": 420,
        "margin": {"l": 64, "r": 16, "t": 40, "b": 48},
        "showlegend": True,
        "legend": LEGEND,
        "xaxis": {
            "type": "log",
            "range": [0, math.log10(reach) + 0.02],
            "tickvals": [mark for mark, _ in marks],
            "ticktext": [text for _, text in marks],
        },
        "yaxis": axis(heights, fmt.duration_mark),
    }
    offered = ", ".join(dict.fromkeys(tables.at_rate(s.latency_rate_rps) for s in drawn))
    caption = (
        f"Time to the whole answer, one target alone at {offered}, counted from the moment at which"
        " the request was due. Each point is the median over trials; a curve ends where fewer than"
        " a hundred answers lie above it. Lower is better."
    )
    return Figure(
        name="latencies",
        title="Latency",
        caption=caption,
        plot=_plot(traces, layout),
        numbers=tables.latencies(summary),
    )


def memory(summary: Summary) -> Figure | None:
    """Resident memory."""
    drawn = [s for s in summary.standings if s.rss_bytes]
    if not drawn:
        return None
    mib = [(s.rss_bytes or 0) / 2**20 for s in drawn]
    trace = go.Bar(
        x=mib,
        y=list(range(len(drawn))),
        orientation="h",
        marker={"color": [colour(summary, s.arm.name) for s in drawn]},
        hovertemplate="%{x:.1f} MiB<extra></extra>",
    )
    labels = [row[1] for row in tables.memory(summary).rows]
    layout = rows.layout(drawn, labels, axis(mib, lambda v: f"{v:g} MiB", from_zero=True))
    layout["bargap"] = 0.55
    caption = "Resident memory of all of a target's processes at the end of a closed-loop trial."
    return Figure(
        name="memory",
        title="Memory",
        caption=caption,
        plot=_plot([trace], layout),
        numbers=tables.memory(summary),
    )


def _plot(traces: Sequence[object], layout: dict[str, object]) -> dict[str, object]:
    """Plain values, checked by plotly on the way."""
    made = go.Figure(data=list(traces))
    return {"data": [trace.to_plotly_json() for trace in made.data], "layout": layout}
