"""An experiment's plots: its claims against their bounds, and published ratios beside ours."""

import html
from collections.abc import Sequence
from dataclasses import dataclass

import plotly.graph_objects as go  # type: ignore[import-untyped]

from jissoku.model import Estimate
from jissoku.model.experiment import Answered, Outcome, Tested
from jissoku.report import format as fmt, rows
from jissoku.report.axis import axis
from jissoku.report.chart import LEGEND, Figure
from jissoku.report.palette import COLOURS, MUTED
from jissoku.report.tables import Table

# Told apart by their shapes too, for eyes and printers without colours.
LOOKS = {
    Answered.HOLDS: (COLOURS[2], "circle"),
    Answered.FAILS: (COLOURS[1], "x"),
    Answered.UNDECIDED: (COLOURS[0], "circle-open"),
}
PUBLISHED = "published"


@dataclass(frozen=True, slots=True)
class _Point:
    """A dot in a row; the interval of a published figure is not known."""

    row: int
    value: float
    low: float
    high: float
    told: str


def claims(outcome: Outcome) -> Figure | None:
    """Every part of a claim that has an interval, as how far it is on the claimed side."""
    drawn = [
        (name, test)
        for known in outcome.claims
        for name, test in _named(known.claim.name, known.tests)
        if test.value is not None and test.bound and test.answer in LOOKS
    ]
    if not drawn:
        return None
    traces, ends = [], [1.0]
    for answered, look in LOOKS.items():
        points = [
            _margin(row, test) for row, (_, test) in enumerate(drawn) if test.answer is answered
        ]
        if points:
            traces.append(_dots(str(answered), points, *look))
            ends += [end for point in points for end in (point.low, point.high)]
    then = [
        _then(row, _on_claimed_side(test, test.published), test.published)
        for row, (_, test) in enumerate(drawn)
        if test.published
    ]
    if then:
        traces.append(_dots(PUBLISHED, then, MUTED, "diamond-open"))
        ends += [point.value for point in then]
    labels = [_found(test) for _, test in drawn]
    layout = rows.named([name for name, _ in drawn], labels, axis(ends, _times))
    layout["shapes"] = [rows.line_at(1.0)]
    caption = (
        "What was found over what was claimed, with 95 % interval, turned so that a claim holds to"
        " the right of the dotted line, which is its bound. Each row has the figure itself and the"
        " bound in words. A claim of several parts has a row for each, and is answered at wider"
        " intervals than these. Exact counts are in the list only."
    )
    words = ("claims", "Claims and their bounds", caption)
    return _figure(words, traces, layout, _numbers(drawn))


def published(outcome: Outcome) -> Figure | None:
    """Published ratios and ours, each to its table's first row."""
    drawn = [found for found in outcome.beside if found.ratio and found.our_ratio is not None]
    if not drawn:
        return None
    ours = [
        _interval(row, found.our_ratio, f"ours: {found.our_ratio.text}")
        for row, found in enumerate(drawn)
        if found.our_ratio is not None
    ]
    then = [_then(row, found.ratio, found.ratio) for row, found in enumerate(drawn) if found.ratio]
    traces = [
        _dots("ours", ours, COLOURS[0], "circle"),
        _dots(PUBLISHED, then, MUTED, "diamond-open"),
    ]
    ends = [1.0] + [end for point in (*ours, *then) for end in (point.low, point.high)]
    names = [
        f"{one.table}: {one.server}" if one.table else one.server
        for one in (found.published for found in drawn)
    ]
    labels = [
        f"{fmt.significant(found.ratio or 0)} then, {fmt.ratio(found.our_ratio)} now"
        for found in drawn
    ]
    layout = rows.named(names, labels, axis(ends, _times))
    layout["shapes"] = [rows.line_at(1.0)]
    caption = (
        "Each server over the first one of its table, as it was published and as it is here, ours"
        " with 95 % interval. The figures themselves come from other machines and other years."
    )
    numbers = Table(
        header=("server", "ratio then", "ratio now"),
        rows=tuple(
            (name, fmt.significant(found.ratio or 0), found.our_ratio.text)
            for name, found in zip(names, drawn, strict=True)
            if found.our_ratio is not None
        ),
    )
    words = ("published", "Published ratios and ours", caption)
    return _figure(words, traces, layout, numbers)


def _named(name: str, tests: Sequence[Tested]) -> list[tuple[str, Tested]]:
    """A claim's parts; where there are several, each has its number."""
    if len(tests) == 1:
        return [(name, tests[0])]
    return [(f"{name} ({number})", test) for number, test in enumerate(tests, start=1)]


def _on_claimed_side(test: Tested, value: float | None) -> float:
    """Above 1 where a value is as it is claimed to be."""
    assert value, "only what is above 0 is drawn"
    assert test.bound, "no bound of a measured figure is 0"
    return test.bound / value if test.relation == "<" else value / test.bound


def _margin(row: int, test: Tested) -> _Point:
    assert test.value is not None, "only measured ones are drawn"
    ends = sorted(_on_claimed_side(test, end) for end in (test.value.low, test.value.high))
    value = _on_claimed_side(test, test.value.value)
    return _Point(row, value, ends[0], ends[1], f"{test.text}: {_with_interval(test)}")


def _interval(row: int, estimate: Estimate | None, told: str) -> _Point:
    assert estimate is not None, "only measured ones are drawn"
    return _Point(row, estimate.value, estimate.low, estimate.high, told)


def _then(row: int, place: float, published: float) -> _Point:
    return _Point(row, place, place, place, f"published: {_plain(published)}")


def _dots(name: str, points: Sequence[_Point], colour: str, symbol: str) -> object:
    """Points of one kind, which the legend names once."""
    return go.Scatter(
        x=[point.value for point in points],
        y=[point.row for point in points],
        mode="markers",
        name=name,
        marker={
            "color": colour,
            "size": 11,
            "symbol": symbol,
            "line": {"width": 2, "color": colour},
        },
        error_x={
            "type": "data",
            "symmetric": False,
            "array": [point.high - point.value for point in points],
            "arrayminus": [point.value - point.low for point in points],
            "color": colour,
            "thickness": 2.5,
            "width": 0,
        },
        text=[html.escape(point.told) for point in points],
        hovertemplate="%{text}<extra></extra>",
    )


def _numbers(drawn: Sequence[tuple[str, Tested]]) -> Table:
    return Table(
        header=("claim", "part", "found", "bound", "published", "answer"),
        rows=tuple(
            (
                name,
                test.text,
                _with_interval(test),
                f"{test.relation} {_plain(test.bound)}",
                _plain(test.published),
                str(test.answer),
            )
            for name, test in drawn
        ),
    )


def _found(test: Tested) -> str:
    value = _plain(test.value.value if test.value else None)
    return f"{value}, claimed {test.relation} {_plain(test.bound)}"


def _with_interval(test: Tested) -> str:
    assert test.value is not None, "only measured ones are drawn"
    value, low, high = map(_plain, (test.value.value, test.value.low, test.value.high))
    return f"{value} [{low}, {high}]"


def _plain(value: float | None) -> str:
    return fmt.NOTHING if value is None else fmt.significant(value, 3 if value < 1000 else 4)


def _times(value: float) -> str:
    return f"{value:g} {fmt.TIMES}"


def _figure(
    words: tuple[str, str, str],
    traces: Sequence[object],
    layout: dict[str, object],
    numbers: Table,
) -> Figure:
    """A figure of these words: its name, its title and its caption."""
    name, title, caption = words
    layout |= {"showlegend": True, "legend": LEGEND}
    made = go.Figure(data=list(traces))
    plot: dict[str, object] = {
        "data": [trace.to_plotly_json() for trace in made.data],
        "layout": layout,
    }
    return Figure(name=name, title=title, caption=caption, plot=plot, numbers=numbers)
