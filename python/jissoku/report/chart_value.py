"""A chart as a value: a drawing, a caption, and the table of its values."""

from dataclasses import dataclass

from markupsafe import Markup

from jissoku.report.tables import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A drawing, how to read it, and its numbers.

    Attributes:
        name: Unique on its page.
        drawing: Static SVG, and the legend where there is one.
    """

    name: str
    title: str
    caption: str
    drawing: Markup
    numbers: Table
