"""A sweep's plots: what each level brought, and the fitted law through it."""

import html
from collections.abc import Callable, Sequence

import plotly.graph_objects as go  # type: ignore[import-untyped]

from jissoku.model import Axis, Climb, Estimate, Rung, SweepSummary
from jissoku.report import format as fmt, sweep_tables as tables
from jissoku.report.axis import axis
from jissoku.report.chart import LEGEND, Figure
from jissoku.report.palette import COLOURS, DASHES
from jissoku.report.tables import Table

Reading = Callable[[Rung], Estimate | None]


def sweep_figures(summary: SweepSummary) -> tuple[Figure, ...]:
    """All plots for which there are numbers, in reading order."""
    found = (rates(summary), costs(summary), latencies(summary))
    return tuple(figure for figure in found if figure is not None)


def rates(summary: SweepSummary) -> Figure | None:
    """The rate at each level, with the law as a line; filled dots were fitted."""
    over = summary.sweep.axis
    if over is Axis.RATE:
        return None
    fitted = any(climb.law is not None for climb in summary.climbs)
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
        caption += " Open dots say nothing about the server's capacity, and no law was fitted."
    return _figure(
        summary,
        ("rates", "Rate", caption),
        lambda rung: rung.rate_rps,
        lambda value: f"{value:,.0f}",
    )


def costs(summary: SweepSummary) -> Figure | None:
    """CPU per request at each level."""
    caption = (
        f"CPU time of all of a target's processes per answer, at each level of {summary.sweep.axis}"
        ": mean over blocks with 95 % interval. A cost belongs to its level."
    )
    return _figure(
        summary,
        ("costs", "CPU per request", caption),
        lambda rung: rung.cost_ns,
        fmt.duration_mark,
    )


def latencies(summary: SweepSummary) -> Figure | None:
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


def _p99(rung: Rung) -> Estimate | None:
    return next((one.estimate_ns for one in rung.percentiles if one.label == "p99"), None)


def _figure(
    summary: SweepSummary,
    words: tuple[str, str, str],
    reading: Reading,
    mark: Callable[[float], str],
) -> Figure | None:
    name, title, caption = words
    drawn = [
        (index, climb, [(r, e) for r in climb.rungs if (e := reading(r)) is not None])
        for index, climb in enumerate(summary.climbs)
    ]
    drawn = [one for one in drawn if one[2]]
    if not drawn:
        return None
    traces, heights = [], []
    for index, climb, points in drawn:
        with_law = climb.law if name == "rates" else None
        if with_law is not None:
            traces.append(_line(index, with_law.curve))
            heights += [y for _, y in with_law.curve]
        traces.append(_dots(index, climb, points, law_only=name == "rates"))
        heights += [end for _, e in points for end in (e.low, e.high)]
    places = [float(r.level) for _, _, points in drawn for r, _ in points]
    layout: dict[str, object] = {
        "height": 420,
        "margin": {"l": 72, "r": 16, "t": 40, "b": 48},
        "showlegend": True,
        "legend": LEGEND,
        "xaxis": axis(places, lambda value: f"{value:,.0f}")
        | {"title": {"text": str(summary.sweep.axis)}},
        "yaxis": axis([h for h in heights if h > 0], mark),
    }
    made = go.Figure(data=traces)
    plot: dict[str, object] = {
        "data": [trace.to_plotly_json() for trace in made.data],
        "layout": layout,
    }
    return Figure(
        name=name, title=title, caption=caption, plot=plot, numbers=_numbers(summary, drawn)
    )


def _line(index: int, curve: Sequence[tuple[float, float]]) -> object:
    return go.Scatter(
        x=[x for x, _ in curve],
        y=[y for _, y in curve],
        mode="lines",
        showlegend=False,
        hoverinfo="skip",
        line={"color": _colour(index), "width": 1.5, "dash": _dash(index)},
    )


def _dots(
    index: int, climb: Climb, points: Sequence[tuple[Rung, Estimate]], *, law_only: bool
) -> object:
    colour = _colour(index)
    return go.Scatter(
        x=[float(rung.level) for rung, _ in points],
        y=[e.value for _, e in points],
        mode="markers" if law_only and climb.law is not None else "lines+markers",
        name=html.escape(climb.arm.name),
        line={"color": colour, "width": 1.5, "dash": _dash(index)},
        marker={
            "color": colour,
            "size": 9,
            "symbol": [
                "circle" if rung.fitted or not law_only else "circle-open" for rung, _ in points
            ],
        },
        error_y={
            "type": "data",
            "symmetric": False,
            "array": [e.high - e.value for _, e in points],
            "arrayminus": [e.value - e.low for _, e in points],
            "color": colour,
            "thickness": 1.5,
            "width": 3,
        },
        hovertemplate="%{fullData.name} at %{x:,.0f}: %{y:,.4s}<extra></extra>",
    )


def _colour(index: int) -> str:
    return COLOURS[index % len(COLOURS)]


def _dash(index: int) -> str:
    return DASHES[index // len(COLOURS) % len(DASHES)]


def _numbers(
    summary: SweepSummary, drawn: Sequence[tuple[int, Climb, list[tuple[Rung, Estimate]]]]
) -> Table:
    found = [(climb, tables.climb(summary, climb)) for _, climb, _ in drawn]
    rows = tuple((climb.arm.name, *row) for climb, one in found for row in one.rows)
    return Table(header=("target", *found[0][1].header), rows=rows)
