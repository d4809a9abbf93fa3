"""Static SVG: marks, curves and the frame of a plot, as markup that needs no script.

Across a plot places are per cent of its width, so that it fits any page; down they are pixels.
Colours, dashes and type are classes of the style sheet, which knows the theme, print and forced
colours. Text is escaped here.
"""

from collections.abc import Sequence
from math import ceil

from markupsafe import Markup

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
            key.rstrip("_").replace("_", "-"),
            value if isinstance(value, str) else number(value),
        )
        for key, value in attributes.items()
        if value != ""
    )
    inside = NOTHING.join(content)
    if not inside:
        return Markup("<{}{}/>").format(name, given)
    return Markup("<{}{}>{}</{}>").format(name, given, inside, name)


def text(content: str, style: str, x: str = "", y: float | str = "") -> Markup:
    """A label; its anchor and its colour are the class's."""
    return tag("text", content, class_=style, x=x, y=y)


def titled(label: str, *content: str, style: str = "", shift: str = "") -> Markup:
    """Marks that share a tooltip and a style."""
    return tag("g", tag("title", label), *content, class_=style, transform=shift)


def mark(shape: str, x: float, y: float | str = "", *, is_open: bool = False) -> Markup:
    """A point; `x` is a fraction of the width, `y` in pixels."""
    style = " ".join(["open"] * is_open + [shape] * (shape == "crossed"))
    return tag("use", href=f"#{shape}", x=percent(x), y=y, class_=style)


def interval(low: float, high: float) -> Markup:
    """Across, at the height of its row."""
    return tag("line", class_="interval", x1=percent(low), x2=percent(high))


def error_bar(x: float, top: float, bottom: float) -> Markup:
    """An interval down, in pixels."""
    at = percent(x)
    return tag("line", class_="interval", x1=at, x2=at, y1=top, y2=bottom)


def bar(low: float, high: float, height: float, style: str = "") -> Markup:
    """A box across, around the middle of its row."""
    return tag(
        "rect",
        class_=style,
        x=percent(low),
        y=-height / 2,
        width=percent(high - low),
        height=height,
    )


def vertical(x: float, height: float, style: str) -> Markup:
    """A line from the top down, such as one of a grid."""
    at = percent(x)
    return tag("line", class_=style, x1=at, x2=at, y2=height)


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


def leader(x: float, y: float, lift: float, label: str) -> Markup:
    """A label to the right of a point, this many pixels above it, and the line that leads there."""
    line = tag("path", d=f"M8 0 20 {number(-lift)}")
    return tag("svg", line, text(label, "end", "24", -lift), x=percent(x), y=y)


def tick_style(x: float, *, is_minor: bool) -> str:
    """Classes of a tick's label: a small plot leaves out minor ones, and keeps the outer inside."""
    place = " first" if x < 0.03 else " last" if x > 0.97 else ""
    return f"tick{' minor' * is_minor}{place}"


def plot(name: str, description: str, style: str, height: float, *content: str) -> Markup:
    """The frame; the element with the id `NAME-title` outside of it is its title.

    Args:
        name: Unique on its page.
        description: What is drawn, for people who do not see it.
        style: Classes: the kind of plot and the room beside it.
        height: Pixels.
    """
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
    return f"left{_even(left)} right{_even(right)}"


def _even(characters: int) -> int:
    return min(ROOM_MAX, 2 * ceil(characters / 2))


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
