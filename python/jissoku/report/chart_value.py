"""What a figure is: a drawing, how to read it, and the numbers that it shows."""

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
