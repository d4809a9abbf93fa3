"""Static SVG: marks, curves, axes and the frame of a plot, as markup that needs no script.

Across a plot places are per cent of its width, so that it fits any page; down they are pixels.
Colours, dashes and type are classes of the style sheet, which knows the theme, print and forced
colours. Text is escaped here.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from markupsafe import Markup

from jissoku.model.summary import Summary
from jissoku.report.format import Table

# What a point may look like, drawn around 0, 0; `crossed` is for strokes only.
SHAPES = {
    "dot": '<circle r="5"/>',
    "square": '<path d="M-4.5-4.5h9v9h-9z"/>',
    "up": '<path d="M0-6l5.5 9.5h-11z"/>',
    "diamond": '<path d="M0-6.5 5.5 0 0 6.5-5.5 0z"/>',
    "down": '<path d="M0 6l5.5-9.5h-11z"/>',
    "crossed": '<path d="M-4.5-4.5l9 9m0-9l-9 9"/>',
    "small": '<circle r="3.5"/>',
}

# The style sheet has a class for every second number of characters up to this.
ROOM_MAX = 36

# A curve is drawn in a box so wide, and stretched to the plot.
CURVE_WIDTH = 1000

NOTHING = Markup("")


def number(value: float) -> str:
    """At most two decimals, and none that are zero."""
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def percent(fraction: float) -> str:
    """A position across the plot, to a thousandth of its width: half a pixel on a wide screen."""
    return f"{number(round(100 * fraction, 1))}%"


def tag(name: str, *content: str, **attributes: str | float) -> Markup:
    """An element. Content that is no markup is escaped; empty attributes are left out."""
    given = NOTHING.join(
        Markup(' {}="{}"').format(
            key.rstrip("_").replace("_", "-"), value if isinstance(value, str) else number(value)
        )
        for key, value in attributes.items()
        if value != ""
    )
    inside = NOTHING.join(content)
    if not inside:
        return Markup("<{}{}/>").format(name, given)
    return Markup("<{}{}>{}</{}>").format(name, given, inside, name)


def text(content: str, style: str, x: str = "", y: float | str = "") -> Markup:
    return tag("text", content, class_=style, x=x, y=y)


def titled(label: str, *content: str, style: str = "", shift: str = "") -> Markup:
    return tag("g", tag("title", label), *content, class_=style, transform=shift)


def mark(shape: str, x: float, y: float | str = "", *, is_open: bool = False) -> Markup:
    """A point; `x` is a fraction of the width, `y` in pixels."""
    style = " ".join(["open"] * is_open + [shape] * (shape == "crossed"))
    return tag("use", href=f"#{shape}", x=percent(x), y=y, class_=style)


def interval(low: float, high: float) -> Markup:
    """Across, at the height of its row."""
    return tag("line", class_="interval", x1=percent(low), x2=percent(high))


def vertical(x: float, height: float, style: str) -> Markup:
    at = percent(x)
    return tag("line", class_=style, x1=at, x2=at, y2=height)


def horizontal(y: float, style: str) -> Markup:
    return tag("line", class_=style, x2="100%", y1=y, y2=y)


def curve(points: Sequence[tuple[float, float]], height: float, label: str) -> Markup:
    """A line through points; their x is a fraction of the width, their y in pixels."""
    places = " ".join(f"{CURVE_WIDTH * x:.0f},{number(round(y, 1))}" for x, y in points)
    line = tag("polyline", tag("title", label), points=places)
    return tag(
        "svg",
        line,
        viewBox=f"0 0 {CURVE_WIDTH} {number(height)}",
        preserveAspectRatio="none",
        height=height,
    )


def plot(name: str, description: str, style: str, height: float, *content: str) -> Markup:
    """The frame; the element with the id `NAME-title` outside of it is its title."""
    described = tag("desc", description, id=f"{name}-description")
    return tag(
        "svg", described, *content,
        class_=f"plot {style}",
        role="img",
        aria_labelledby=f"{name}-title {name}-description",
        height=height,
    )  # fmt: skip


def room(left: int, right: int) -> str:
    """Classes that leave this many characters beside a plot."""
    left, right = (min(ROOM_MAX, 2 * math.ceil(count / 2)) for count in (left, right))
    return f"left{left} right{right}"


def legend(entries: Sequence[tuple[str, str, Markup]], style: str = "") -> Markup:
    """A legend: (text, classes, sign) each; a sign is drawn around the middle of its box."""
    items = (
        Markup("<li>{}{}</li>").format(
            tag(
                "svg", sign, viewBox="-12 -7 24 14", width=24, height=14,
                class_=f"sign {classes}", aria_hidden="true",
            ),
            label,
        )
        for label, classes, sign in entries
    )  # fmt: skip
    return Markup('<ul class="{}">{}</ul>').format(f"legend {style}".rstrip(), NOTHING.join(items))


def shapes() -> Markup:
    """The shapes that marks refer to, once a page."""
    found = (f'<g id="{name}">{shape}</g>' for name, shape in SHAPES.items())
    inside = Markup("".join(found))  # noqa: S704 - constants
    return tag("svg", tag("defs", inside), width=0, height=0, class_="shapes", aria_hidden="true")


def shortened(name: str, characters: int = ROOM_MAX - 8) -> str:
    """A name that fits beside a plot; its tooltip has the whole one."""
    return name if len(name) <= characters else f"{name[: characters - 1]}\N{HORIZONTAL ELLIPSIS}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A drawing, which is static SVG with a legend if it needs one, how to read it, its numbers."""

    name: str
    title: str
    caption: str
    drawing: Markup
    numbers: Table


# Above this ratio of largest to smallest value an axis is logarithmic.
LOG_FROM = 5.0

# Ticks within a decade, and those where they are fewer than `TICKS_MIN`; above `TICKS_MAX` only
# powers of ten are left.
STEPS = (1, 2, 5)
STEPS_FINE = (1, 1.5, 2, 3, 5, 7)
STEPS_MINOR = {1.5, 7}
TICKS_MIN, TICKS_MAX = 3, 9


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """A labelled value of an axis; small plots omit the minor ones."""

    value: float
    label: str
    note: str = ""  # stands below the label
    is_minor: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    low: float
    high: float
    is_log: bool
    ticks: tuple[Tick, ...]

    def at(self, value: float) -> float:
        """The position of a value: 0 at the low end, 1 at the high one."""
        low, high, place = self.low, self.high, value
        if self.is_log:
            low, high, place = math.log10(low), math.log10(high), math.log10(value)
        return (place - low) / (high - low)


def scale(
    values: Sequence[float],
    label: Callable[[float], str],
    *,
    is_log: bool | None = None,
    from_zero: bool = False,
) -> Scale:
    """An axis over values, positive if it is logarithmic, with a margin.

    Args:
        label: A tick's text.
        is_log: None: logarithmic if the values are far apart.
        from_zero: A linear axis that begins at zero, as bars require.
    """
    low, high = min(values), max(values)
    if is_log is None:
        is_log = not from_zero and low > 0 and high / low > LOG_FROM
    if is_log:
        air = (high / low) ** 0.06 if high > low else 1.1
        low, high = low / air, high * air
    else:
        air = (high - low) * 0.08 or abs(high) * 0.05 or 1.0
        low, high = (0.0 if from_zero else low - air), high + air
    marks = ticks(low, high, log=is_log)
    labelled = (
        Tick(value=mark, label=label(mark), is_minor=_is_minor(index, mark, marks, log=is_log))
        for index, mark in enumerate(marks)
    )
    return Scale(low=low, high=high, is_log=is_log, ticks=tuple(labelled))


def even_labels(found: Scale) -> Scale:
    """A linear axis whose labels, `NUMBER UNIT`, have the same number of decimals."""
    if found.is_log:
        return found
    numbers = [tick.label.partition(" ")[0] for tick in found.ticks]
    digits = max((len(number.partition(".")[2]) for number in numbers), default=0)
    labelled = (
        replace(tick, label=f"{tick.value:.{digits}f} {tick.label.partition(' ')[2]}")
        for tick in found.ticks
    )
    return replace(found, ticks=tuple(labelled))


def _is_minor(index: int, mark: float, marks: Sequence[float], *, log: bool) -> bool:
    """Every second of more than five; over decades all but powers of ten."""
    decades = math.log10(mark) if log else 0.0
    if log and round(10 ** (decades % 1), 6) in STEPS_MINOR:
        return True
    if len(marks) <= 5:
        return False
    if log and marks[-1] / marks[0] >= 100:
        return round(decades, 9) % 1 != 0
    return index % 2 == 1


def ticks(low: float, high: float, *, log: bool) -> list[float]:
    """Three to nine round numbers between two bounds, which must be positive on a log axis."""
    if not log:
        return _linear_ticks(low, high)
    found = _within_decades(low, high, STEPS)
    if len(found) > TICKS_MAX:
        return _within_decades(low, high, (1,))
    return found if len(found) >= TICKS_MIN else _within_decades(low, high, STEPS_FINE)


def _within_decades(low: float, high: float, steps: Sequence[float]) -> list[float]:
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [s * 10.0**d for d in decades for s in steps if low <= s * 10.0**d <= high]


def _linear_ticks(low: float, high: float) -> list[float]:
    rough = (high - low) / 5 or 1.0
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(s * size for s in (1, 2, 5, 10) if s * size >= rough)
    first = math.ceil(low / step - 1e-9)
    return [round(i * step, 12) for i in range(first, math.floor(high / step + 1e-9) + 1)]


# Number of the style sheet's colours `c0` to `c5`: Paul Tol's "bright" scheme with more contrast.
COLOURS = 6
DASHES = 4
SHAPE_NAMES = ("dot", "square", "up", "diamond", "down", "crossed")


class Look(NamedTuple):
    """Classes of a series, and the shape of its points."""

    style: str
    shape: str


def look(index: int) -> Look:
    """A colour, with dashes once the colours are used up, and a shape: unique up to the 36th."""
    dashes = index // COLOURS % DASHES
    style = f"c{index % COLOURS}" + (f" dash{dashes}" if dashes else "")
    return Look(style, SHAPE_NAMES[(index + index // COLOURS) % len(SHAPE_NAMES)])


def arm_look(summary: Summary, name: str) -> Look:
    """The look of an arm, the same in every figure; the floor has its own."""
    if name == summary.run.floor:
        return Look("floor", "small")
    names = [arm.name for arm in summary.run.arms if arm.name != summary.run.floor]
    return look(names.index(name))
