"""Small plots of one value over the last minutes, drawn anew with each value."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from jissoku.report import svg
from jissoku.report.line_plots import simplified
from jissoku.report.svg import scale

# Pixels: above the plot, of the plot itself, and of the text below it.
TOP, INSIDE, LINE = 10, 96, 18


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


def draw(name: str, values: Sequence[tuple[float, float]], shown: Axis) -> Markup:
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
        return round(INSIDE * (1 - axis.at(value)), 1)

    places = [(1 - ago_s / span_s, down(value)) for ago_s, value in values if ago_s <= span_s]
    parts = []
    for tick in ticks:
        y = down(tick.value)
        parts.append(svg.tag("line", class_="grid", x2="100%", y1=y, y2=y))
        parts.append(svg.text(tick.label, "tick down", "-10", y))
    for fraction, text in _times(span_s):
        style = svg.tick_style(fraction, is_minor=False)
        parts.append(svg.vertical(fraction, INSIDE, "grid"))
        parts.append(svg.text(text, style, svg.percent(fraction), INSIDE + LINE))
    if len(places) > 1:
        parts.append(svg.tag("g", svg.curve(simplified(places), INSIDE, name), class_="c0"))
    newest = label(values[-1][1])
    highest = label(max(value for _, value in values))
    return svg.plot(
        name,
        f"now {newest}; at most {highest} in the last {span_s // 60} minutes",
        f"lines {svg.room(max(len(tick.label) for tick in ticks) + 2, 2)}",
        TOP + INSIDE + LINE + 6,
        svg.tag("g", *parts, transform=f"translate(0 {TOP})"),
    )


def _times(span_s: int) -> list[tuple[float, str]]:
    minutes = span_s // 60
    return [(0.0, f"{minutes} min ago"), (0.5, f"{minutes / 2:g} min"), (1.0, "now")]
