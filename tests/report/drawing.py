"""Parses a chart's SVG: its marks, their positions and their tooltips."""

import re
from dataclasses import dataclass
from xml.etree import ElementTree as ET

from jissoku.report.svg import Chart

MARKS = {"use", "rect", "polyline"}


@dataclass(frozen=True, slots=True)
class Mark:
    """A mark across a plot, as a fraction of its width, with its interval where it has one."""

    row: str
    shape: str
    style: str
    tooltip: str
    x: float
    low: float | None
    high: float | None


def element(figure: Chart) -> ET.Element:
    """The plot, as browsers and XML parsers read it."""
    text = str(figure.drawing)
    return ET.fromstring(text[text.index('<svg class="plot') :])  # noqa: S314 - ours


def classes(found: ET.Element) -> list[str]:
    return found.get("class", "").split()


def of_class(figure: Chart, name: str) -> list[ET.Element]:
    return [found for found in element(figure).iter() if name in classes(found)]


def labels(figure: Chart, name: str) -> list[str]:
    """Texts of a class, in the order of the file."""
    return [found.text or "" for found in of_class(figure, name)]


def place(found: ET.Element, name: str = "x") -> float:
    return float(found.get(name, "0%").removesuffix("%")) / 100


def marks(figure: Chart) -> list[Mark]:
    """Points of rows, with what stands in the same group."""
    found: list[Mark] = []
    _walk(element(figure), ["", "", ""], found)
    return found


def _walk(at: ET.Element, context: list[str], found: list[Mark]) -> None:
    row, style, tooltip = context
    for child in at:
        if child.tag == "text" and "name" in classes(child):
            row = child.text or ""
    style = at.get("class", style) if at.tag == "g" else style
    title = at.find("title")
    tooltip = tooltip if title is None else title.text or ""
    interval = next((c for c in at if "interval" in classes(c)), None)
    for child in at:
        if child.tag == "use":
            own = child.find("title")
            found.append(
                Mark(
                    row=row,
                    shape=child.get("href", "").removeprefix("#")
                    + " open" * ("open" in classes(child)),
                    style=style,
                    tooltip=tooltip if own is None else own.text or "",
                    x=place(child),
                    low=None if interval is None else place(interval, "x1"),
                    high=None if interval is None else place(interval, "x2"),
                )
            )
        else:
            _walk(child, [row, style, tooltip], found)


def curves(figure: Chart) -> dict[str, list[tuple[float, float]]]:
    """Polylines by their tooltips; x as a fraction of the width, y in pixels."""
    return {
        line.findtext("title", ""): [
            (float(x) / 1000, float(y))
            for x, y in re.findall(r"([\d.-]+),([\d.-]+)", line.get("points", ""))
        ]
        for line in element(figure).iter("polyline")
    }
