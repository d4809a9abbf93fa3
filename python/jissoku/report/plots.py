"""Plots as static SVG: rows of targets, lines over two axes, and one value over time."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import hypot

from markupsafe import Markup

from jissoku.model import Estimate
from jissoku.report import svg
from jissoku.report.svg import Scale, scale

# Pixels: from the top to the middle of the first row, from one row to the next, below the last.
ROWS_TOP, PITCH, PITCH_TALL, ROWS_BOTTOM = 26, 40, 52, 18
AXIS = 24

# Characters of a name and a figure that stand in one line of a narrow page.
LINE_MAX = 42

BAR, BAND = 14, 18


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row.

    Attributes:
        style: Class of the marks' colour.
        tooltip: Text of the marks; by default the name and the label.
        since: What separates it from the row above: a dotted line with this tooltip.
    """

    name: str
    label: str
    marks: Markup
    style: str = ""
    tooltip: str = ""
    since: str = ""


def draw_rows(
    name: str, rows: Sequence[Row], scale: Scale, reference: float | None = None
) -> Markup:
    """The plot, first row on top.

    Args:
        name: The figure's.
        rows: At least one.
        scale: The axis below.
        reference: A value with a dotted line from top to bottom.
    """
    names = [svg.shortened(row.name) for row in rows]
    is_tall = any(len(n) + len(row.label) > LINE_MAX for n, row in zip(names, rows, strict=True))
    pitch = PITCH_TALL if is_tall else PITCH
    height = ROWS_TOP + pitch * (len(rows) - 1) + ROWS_BOTTOM
    parts = [svg.vertical(scale.at(tick.value), height, "grid") for tick in scale.ticks]
    if reference is not None:
        parts.append(svg.vertical(scale.at(reference), height, "reference"))
    parts += [
        _separation(row.since, ROWS_TOP + pitch * index - pitch / 2)
        for index, row in enumerate(rows)
        if row.since and index
    ]
    parts += [
        _row(short, row, ROWS_TOP + pitch * index)
        for index, (short, row) in enumerate(zip(names, rows, strict=True))
    ]
    parts += [
        svg.text(
            tick.label,
            svg.tick_style(scale.at(tick.value), is_minor=tick.is_minor),
            svg.percent(scale.at(tick.value)),
            height + AXIS - 8,
        )
        for tick in scale.ticks
    ]
    description = "; ".join(_described(row) for row in rows)
    room = svg.room(max(map(len, names)) + 2, max(len(row.label) for row in rows) + 2)
    style = f"rows {'tall ' if is_tall else ''}{room}"
    return svg.plot(name, description, style, height + AXIS, *parts)


def _separation(label: str, y: float) -> Markup:
    return svg.titled(label, svg.tag("line", class_="reference", x2="100%", y1=y, y2=y))


def _described(row: Row) -> str:
    return f"{f'{row.since}; ' if row.since else ''}{row.name}: {row.label}"


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


def dot(scale: Scale, estimate: Estimate, *, is_open: bool = False) -> Markup:
    ends = svg.interval(scale.at(estimate.low), scale.at(estimate.high))
    return ends + svg.mark("dot", scale.at(estimate.value), is_open=is_open)


def bar(scale: Scale, low: float, high: float, style: str = "") -> Markup:
    """A box from one value to another."""
    return svg.bar(scale.at(low), scale.at(high), BAR, style)


def band(scale: Scale, low: float, high: float) -> Markup:
    """An interval as a broad faint box."""
    return svg.bar(scale.at(low), scale.at(high), BAND, "band")


# Pixels: above the plot, of the plot itself, and of a line of text below it.
TOP, INSIDE, LINE = 10, 310, 18

# Pixels between two labels at the ends of lines, and the horizontal distance of ends, as a fraction
# of the width, from which on labels cannot overlap.
LABEL_DISTANCE = 17.0
APART = 0.15

POINTS_MAX = 64


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
    """One target.

    Attributes:
        style: Classes of its colour and its dashes.
        shape: Of its points.
        path: The points of the line, ascending by x; may be empty.
    """

    name: str
    style: str
    shape: str
    path: tuple[tuple[float, float], ...] = ()
    points: tuple[Point, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Axes:
    x: Scale
    y: Scale
    title: str = ""


def draw_lines(name: str, lines: Sequence[Line], axes: Axes) -> Markup:
    notes = any(tick.note for tick in axes.x.ticks)
    height = TOP + INSIDE + LINE * (1 + notes + bool(axes.title)) + 6
    labels = [svg.shortened(line.name, 20) for line in lines]
    parts = svg.tag(
        "g",
        *_grid(axes),
        *(_line(line, axes) for line in lines),
        svg.tag("g", *_ends(lines, labels, axes), class_="ends"),
        transform=f"translate(0 {TOP})",
    )
    description = "; ".join(f"{line.name}: {_first_and_last(line)}" for line in lines)
    room = svg.room(max(len(tick.label) for tick in axes.y.ticks) + 2, max(map(len, labels)) + 3)
    legend = svg.legend(
        [
            (label, line.style, svg.tag("path", d="M-12 0H12") + svg.mark(line.shape, 0))
            for label, line in zip(labels, lines, strict=True)
        ],
        "narrow",
    )
    return legend + svg.plot(name, description, f"lines {room}", height, parts)


def _first_and_last(line: Line) -> str:
    ends = line.points[:1] + line.points[1:][-1:]
    return ", ".join(point.text for point in ends)


def _down(scale: Scale, value: float) -> float:
    """Pixels from the plot's top."""
    return round(INSIDE * (1 - scale.at(value)), 1)


def _grid(axes: Axes) -> Iterator[Markup]:
    for tick in axes.y.ticks:
        y = _down(axes.y, tick.value)
        yield svg.tag("line", class_="grid", x2="100%", y1=y, y2=y)
        yield svg.text(tick.label, "tick down", "-10", y)
    for tick in axes.x.ticks:
        x = axes.x.at(tick.value)
        style = svg.tick_style(x, is_minor=tick.is_minor)
        yield svg.vertical(x, INSIDE, "grid")
        yield svg.text(tick.label, style, svg.percent(x), INSIDE + LINE)
        if tick.note:
            yield svg.text(tick.note, style, svg.percent(x), INSIDE + 2 * LINE - 2)
    if axes.title:
        notes = any(tick.note for tick in axes.x.ticks)
        yield svg.text(axes.title, "tick", "50%", INSIDE + LINE * (2 + notes) + 4)


def _line(line: Line, axes: Axes) -> Markup:
    parts = []
    if len(line.path) > 1:
        places = [(axes.x.at(x), _down(axes.y, y)) for x, y in line.path]
        parts.append(svg.curve(simplified(places), INSIDE, line.name))
    parts += [_point(line, point, axes) for point in line.points]
    return svg.tag("g", *parts, class_=line.style)


def _point(line: Line, point: Point, axes: Axes) -> Markup:
    x = axes.x.at(point.x)
    parts = [svg.mark(line.shape, x, _down(axes.y, point.y), is_open=point.is_open)]
    if point.low is not None and point.high is not None:
        ends = _down(axes.y, point.high), _down(axes.y, point.low)
        parts.insert(0, svg.error_bar(x, *ends))
    return svg.titled(f"{line.name}: {point.text}", *parts)


def simplified(
    places: Sequence[tuple[float, float]], points_max: int = POINTS_MAX
) -> list[tuple[float, float]]:
    """The same line with at most N points (Ramer, Douglas and Peucker's algorithm).

    Args:
        places: x as a fraction of the width, y in pixels.
        points_max: At least two.
    """
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
        (axes.x.at(x), _down(axes.y, y), label, line.style)
        for line, label in zip(lines, labels, strict=True)
        if (end := _last(line)) is not None
        for x, y in (end,)
    ]
    for group in _near(ends):
        heights = spread([INSIDE - y for _, y, _, _ in group])
        for (x, y, label, style), height in zip(group, heights, strict=True):
            yield svg.tag("g", svg.leader(x, y, height - (INSIDE - y), label), class_=style)


def _last(line: Line) -> tuple[float, float] | None:
    if line.points and (not line.path or line.points[-1].x >= line.path[-1][0]):
        return line.points[-1].x, line.points[-1].y
    return line.path[-1] if line.path else None


End = tuple[float, float, str, str]


def _near(ends: Sequence[End]) -> Iterator[list[End]]:
    """Ends whose labels could touch, lowest first."""
    group: list[End] = []
    for end in sorted(ends):
        if group and end[0] - group[0][0] > APART:
            yield sorted(group, key=lambda found: -found[1])
            group = []
        group.append(end)
    if group:
        yield sorted(group, key=lambda found: -found[1])


def spread(places: Sequence[float]) -> list[float]:
    """Ascending positions moved apart as little as needed, around the middle of each cluster."""
    clusters: list[list[float]] = []
    for place in places:
        clusters.append([place])
        while len(clusters) > 1 and _overlap(clusters[-2], clusters[-1]):
            last = clusters.pop()
            clusters[-1] += last
    return [place for cluster in clusters for place in _even(cluster)]


def _overlap(lower: Sequence[float], upper: Sequence[float]) -> bool:
    return _even(upper)[0] - _even(lower)[-1] < LABEL_DISTANCE


def _even(cluster: Sequence[float]) -> list[float]:
    first = sum(cluster) / len(cluster) - LABEL_DISTANCE * (len(cluster) - 1) / 2
    return [first + LABEL_DISTANCE * index for index in range(len(cluster))]


# Pixels: above the plot, of the plot itself, and of the text below it.
TOP, TIMES_INSIDE, LINE = 10, 96, 18


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """What a plot shows.

    Attributes:
        span_s: Seconds before now; an even number of minutes.
        reach: The axis of values contains this one.
        label: A value's text.
    """

    span_s: int
    reach: float
    label: Callable[[float], str]


def draw_times(name: str, values: Sequence[tuple[float, float]], shown: Axis) -> Markup:
    """The plot; the element with the id `NAME-title` is its title.

    Args:
        name: Unique on its page.
        values: Pairs of seconds before now, and a value; oldest first, at least one.
        shown: The axes.
    """
    span_s, label = shown.span_s, shown.label
    heights = [shown.reach, *(value for _, value in values)]
    axis = scale(heights, label, is_log=False, from_zero=True)
    ticks = [tick for tick in axis.ticks if not tick.is_minor]

    def down(value: float) -> float:
        return round(TIMES_INSIDE * (1 - axis.at(value)), 1)

    places = [(1 - ago_s / span_s, down(value)) for ago_s, value in values if ago_s <= span_s]
    parts = []
    for tick in ticks:
        y = down(tick.value)
        parts.append(svg.tag("line", class_="grid", x2="100%", y1=y, y2=y))
        parts.append(svg.text(tick.label, "tick down", "-10", y))
    for fraction, text in _times(span_s):
        style = svg.tick_style(fraction, is_minor=False)
        parts.append(svg.vertical(fraction, TIMES_INSIDE, "grid"))
        parts.append(svg.text(text, style, svg.percent(fraction), TIMES_INSIDE + LINE))
    if len(places) > 1:
        parts.append(svg.tag("g", svg.curve(simplified(places), TIMES_INSIDE, name), class_="c0"))
    newest = label(values[-1][1])
    highest = label(max(value for _, value in values))
    return svg.plot(
        name,
        f"now {newest}; at most {highest} in the last {span_s // 60} minutes",
        f"lines {svg.room(max(len(tick.label) for tick in ticks) + 2, 2)}",
        TOP + TIMES_INSIDE + LINE + 6,
        svg.tag("g", *parts, transform=f"translate(0 {TOP})"),
    )


def _times(span_s: int) -> list[tuple[float, str]]:
    minutes = span_s // 60
    return [(0.0, f"{minutes} min ago"), (0.5, f"{minutes / 2:g} min"), (1.0, "now")]
