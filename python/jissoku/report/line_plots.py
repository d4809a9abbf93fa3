"""Plots of lines over two axes: named at their ends, and by a legend on a narrow page."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import hypot

from markupsafe import Markup

from jissoku.report import svg
from jissoku.report.svg import Scale

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


def draw(name: str, lines: Sequence[Line], axes: Axes) -> Markup:
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
