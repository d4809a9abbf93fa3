"""Plots as static SVG: rows of targets, and lines over two axes.

Rows have a name on the left, a mark, and a figure on the right; on a narrow page the style sheet
puts names and figures above the marks, and the figures of tall rows below them. Lines are named at
their ends, and by a legend on a narrow page.
"""

import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from math import hypot
from typing import NamedTuple

from markupsafe import Markup

from jissoku.report import svg
from jissoku.report.format import Table
from jissoku.report.svg import Chart, Look, Scale, Tick

# Pixels: from the top to the middle of the first row, from one row to the next, below the last.
ROWS_TOP, PITCH, PITCH_TALL, ROWS_BOTTOM = 26, 40, 52, 18
AXIS = 24

# Characters of a name and a figure that stand in one line of a narrow page.
LINE_MAX = 42

BAR, BAND = 14, 18

# Pixels: above a plot of lines, of the plot itself, and of a line of text below.
TOP, INSIDE, LINE = 10, 310, 18

# Pixels between two labels at the ends of lines, and the horizontal distance of ends, as a fraction
# of the width, from which on labels cannot overlap.
LABEL_DISTANCE = 17.0
APART = 0.15

POINTS_MAX = 64


class Heading(NamedTuple):
    """A chart's name, which is unique on its page, its title, and how to read it."""

    name: str
    title: str
    caption: str


_TEXTS = tomllib.loads(files("jissoku.report").joinpath("charts.toml").read_text(encoding="utf-8"))


def heading(name: str, /, **values: object) -> Heading:
    """The texts of a chart in `charts.toml`, with these values."""
    return Heading(name, *(_TEXTS[name][part].format(**values) for part in ("title", "caption")))


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row; `since` separates it from the one above by a dotted line with this tooltip."""

    name: str
    label: str
    marks: Markup
    style: str = ""
    tooltip: str = ""
    since: str = ""


def row_chart(
    heading: Heading,
    rows: Sequence[Row],
    axis: Scale,
    numbers: Table,
    *,
    reference: float | None = None,
    legend: Markup = svg.NOTHING,
) -> Chart:
    """A chart with the first row on top; a reference is a value with a dotted line down."""
    names = [svg.shortened(row.name) for row in rows]
    is_tall = any(len(n) + len(row.label) > LINE_MAX for n, row in zip(names, rows, strict=True))
    pitch = PITCH_TALL if is_tall else PITCH
    height = ROWS_TOP + pitch * (len(rows) - 1) + ROWS_BOTTOM
    parts = [svg.vertical(axis.at(tick.value), height, "grid") for tick in axis.ticks]
    if reference is not None:
        parts.append(svg.vertical(axis.at(reference), height, "reference"))
    parts += [
        svg.titled(row.since, svg.horizontal(ROWS_TOP + pitch * (index - 0.5), "reference"))
        for index, row in enumerate(rows)
        if row.since and index
    ]
    parts += [
        _row(short, row, ROWS_TOP + pitch * index)
        for index, (short, row) in enumerate(zip(names, rows, strict=True))
    ]
    parts += [_tick_label(axis, tick, tick.label, height + AXIS - 8) for tick in axis.ticks]
    description = "; ".join(
        f"{f'{row.since}; ' if row.since else ''}{row.name}: {row.label}" for row in rows
    )
    room = svg.room(max(map(len, names)) + 2, max(len(row.label) for row in rows) + 2)
    style = f"rows {'tall ' if is_tall else ''}{room}"
    drawing = svg.plot(heading.name, description, style, height + AXIS, *parts)
    return Chart(**heading._asdict(), drawing=legend + drawing, numbers=numbers)


def _tick_label(axis: Scale, tick: Tick, label: str, y: float) -> Markup:
    """A small plot leaves out the minor ones, and keeps the outer ones inside."""
    x = axis.at(tick.value)
    place = " first" if x < 0.03 else " last" if x > 0.97 else ""
    return svg.text(label, f"tick{' minor' * tick.is_minor}{place}", svg.percent(x), y)


def _row(short: str, row: Row, y: float) -> Markup:
    return svg.titled(
        row.tooltip or f"{row.name}: {row.label}",
        svg.tag("line", class_="guide", x2="100%"),
        row.marks,
        svg.text(short, "name"),
        svg.text(row.label, "value", "100%"),
        style=row.style,
        shift=f"translate(0 {svg.number(y)})",
    )


def dot(axis: Scale, value: float, low: float, high: float, *, is_open: bool = False) -> Markup:
    ends = svg.interval(axis.at(low), axis.at(high))
    return ends + svg.mark("dot", axis.at(value), is_open=is_open)


def bar(axis: Scale, low: float, high: float, style: str = "", height: float = BAR) -> Markup:
    """A box across, around the middle of its row."""
    x, width = svg.percent(axis.at(low)), svg.percent(axis.at(high) - axis.at(low))
    return svg.tag("rect", class_=style, x=x, y=-height / 2, width=width, height=height)


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A mark, its interval if it has one, and its tooltip."""

    x: float
    y: float
    text: str
    low: float | None = None
    high: float | None = None
    is_open: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One target; its path has the points of the line, ascending by x, and may be empty."""

    name: str
    look: Look
    path: tuple[tuple[float, float], ...] = ()
    points: tuple[Point, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Axes:
    """The axes of a plot of lines."""

    x: Scale
    y: Scale
    title: str = ""

    def down(self, value: float) -> float:
        """Pixels from the plot's top."""
        return round(INSIDE * (1 - self.y.at(value)), 1)


def line_chart(heading: Heading, lines: Sequence[Line], axes: Axes, numbers: Table) -> Chart:
    labels = [svg.shortened(line.name, 20) for line in lines]
    description = "; ".join(f"{line.name}: {_first_and_last(line)}" for line in lines)
    ends = svg.tag("g", *_ends(lines, labels, axes), class_="ends")
    drawing = _lines(heading.name, description, lines, axes, max(map(len, labels)) + 3, ends)
    legend = svg.legend(
        [
            (label, line.look.style, svg.tag("path", d="M-12 0H12") + svg.mark(line.look.shape, 0))
            for label, line in zip(labels, lines, strict=True)
        ],
        "narrow",
    )
    return Chart(**heading._asdict(), drawing=legend + drawing, numbers=numbers)


def _lines(
    name: str, description: str, lines: Sequence[Line], axes: Axes, right: int, *above: Markup
) -> Markup:
    """The plot, with room for this many characters to its right."""
    notes = any(tick.note for tick in axes.x.ticks)
    height = TOP + INSIDE + LINE * (1 + notes + bool(axes.title)) + 6
    drawn = [*_grid(axes), *(_line(line, axes) for line in lines), *above]
    room = svg.room(max(len(tick.label) for tick in axes.y.ticks) + 2, right)
    inside = svg.tag("g", *drawn, transform=f"translate(0 {TOP})")
    return svg.plot(name, description, f"lines {room}", height, inside)


def _first_and_last(line: Line) -> str:
    return ", ".join(point.text for point in line.points[:1] + line.points[1:][-1:])


def _grid(axes: Axes) -> Iterator[Markup]:
    for tick in axes.y.ticks:
        y = axes.down(tick.value)
        yield svg.horizontal(y, "grid")
        yield svg.text(tick.label, "tick down", "-10", y)
    for tick in axes.x.ticks:
        yield svg.vertical(axes.x.at(tick.value), INSIDE, "grid")
        yield _tick_label(axes.x, tick, tick.label, INSIDE + LINE)
        if tick.note:
            yield _tick_label(axes.x, tick, tick.note, INSIDE + 2 * LINE - 2)
    if axes.title:
        notes = any(tick.note for tick in axes.x.ticks)
        yield svg.text(axes.title, "tick", "50%", INSIDE + LINE * (2 + notes) + 4)


def _line(line: Line, axes: Axes) -> Markup:
    parts = []
    if len(line.path) > 1:
        places = [(axes.x.at(x), axes.down(y)) for x, y in line.path]
        parts.append(svg.curve(simplified(places), INSIDE, line.name))
    parts += [_point(line, point, axes) for point in line.points]
    return svg.tag("g", *parts, class_=line.look.style)


def _point(line: Line, point: Point, axes: Axes) -> Markup:
    x = axes.x.at(point.x)
    parts = [svg.mark(line.look.shape, x, axes.down(point.y), is_open=point.is_open)]
    if point.low is not None and point.high is not None:
        at, top, bottom = svg.percent(x), axes.down(point.high), axes.down(point.low)
        parts.insert(0, svg.tag("line", class_="interval", x1=at, x2=at, y1=top, y2=bottom))
    return svg.titled(f"{line.name}: {point.text}", *parts)


def simplified(
    places: Sequence[tuple[float, float]], points_max: int = POINTS_MAX
) -> list[tuple[float, float]]:
    """The same line with at most N points (Ramer, Douglas and Peucker); y is in pixels."""
    distance, found = 0.25, list(places)
    while len(found) > points_max:
        found = [places[0], *_beyond(places, distance), places[-1]]
        distance *= 1.5
    return found


def _beyond(places: Sequence[tuple[float, float]], distance: float) -> list[tuple[float, float]]:
    """The inner points that lie further than this many pixels from the line without them."""
    if len(places) < 3:
        return []
    (x0, y0), (x1, y1) = places[0], places[-1]
    dx, dy = svg.CURVE_WIDTH * (x1 - x0), y1 - y0
    length = hypot(dx, dy) or 1.0
    away = [abs(dx * (y - y0) - dy * svg.CURVE_WIDTH * (x - x0)) / length for x, y in places[1:-1]]
    far = max(range(len(away)), key=away.__getitem__)
    if away[far] <= distance:
        return []
    middle = far + 1
    before, after = places[: middle + 1], places[middle:]
    return [*_beyond(before, distance), places[middle], *_beyond(after, distance)]


def _ends(lines: Sequence[Line], labels: Sequence[str], axes: Axes) -> Iterator[Markup]:
    ends = [
        (axes.x.at(end[0]), axes.down(end[1]), label, line.look.style)
        for line, label in zip(lines, labels, strict=True)
        if (end := _last(line)) is not None
    ]
    for group in _near(ends):
        heights = spread([INSIDE - y for _, y, _, _ in group])
        for (x, y, label, style), height in zip(group, heights, strict=True):
            # The label stands to the right of the end, this far above it; a line leads there.
            lift = height - (INSIDE - y)
            lead = svg.tag("path", d=f"M8 0 20 {svg.number(-lift)}")
            text = svg.text(label, "end", "24", -lift)
            named = svg.tag("svg", lead, text, x=svg.percent(x), y=y)
            yield svg.tag("g", named, class_=style)


def _last(line: Line) -> tuple[float, float] | None:
    if line.points and (not line.path or line.points[-1].x >= line.path[-1][0]):
        return line.points[-1].x, line.points[-1].y
    return line.path[-1] if line.path else None


End = tuple[float, float, str, str]


def _near(ends: Sequence[End]) -> Iterator[list[End]]:
    """Ends whose labels could touch, lowest first."""
    groups: list[list[End]] = []
    for end in sorted(ends):
        if groups and end[0] - groups[-1][0][0] <= APART:
            groups[-1].append(end)
        else:
            groups.append([end])
    return (sorted(group, key=lambda end: -end[1]) for group in groups)


def spread(places: Sequence[float]) -> list[float]:
    """Ascending positions moved apart as little as needed, around the middle of each cluster."""
    clusters: list[list[float]] = []
    for place in places:
        clusters.append([place])
        while len(clusters) > 1 and (
            _even(clusters[-1])[0] - _even(clusters[-2])[-1] < LABEL_DISTANCE
        ):
            last = clusters.pop()
            clusters[-1] += last
    return [place for cluster in clusters for place in _even(cluster)]


def _even(cluster: Sequence[float]) -> list[float]:
    first = sum(cluster) / len(cluster) - LABEL_DISTANCE * (len(cluster) - 1) / 2
    return [first + LABEL_DISTANCE * index for index in range(len(cluster))]
