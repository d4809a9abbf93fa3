"""Plots with one row per target: a name on the left, a mark, a figure on the right.

On a narrow page the style sheet puts names and figures above the marks, and the figures of tall
rows below them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from jissoku.model import Estimate
from jissoku.report import svg
from jissoku.report.svg import Scale

# Pixels: from the top to the middle of the first row, from one row to the next, below the last.
TOP, PITCH, PITCH_TALL, BOTTOM = 26, 40, 52, 18
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


def draw(name: str, rows: Sequence[Row], scale: Scale, reference: float | None = None) -> Markup:
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
    height = TOP + pitch * (len(rows) - 1) + BOTTOM
    parts = [svg.vertical(scale.at(tick.value), height, "grid") for tick in scale.ticks]
    if reference is not None:
        parts.append(svg.vertical(scale.at(reference), height, "reference"))
    parts += [
        _separation(row.since, TOP + pitch * index - pitch / 2)
        for index, row in enumerate(rows)
        if row.since and index
    ]
    parts += [
        _row(short, row, TOP + pitch * index)
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
