"""Numbers as charts: `jissoku.chart`.

Each function returns a chart as SVG: a document of type image/svg+xml, or an element of an HTML
page. It needs no script, has the light or dark colours of its reader, and a title and a description
for those who do not see it. Texts are plain text, and are escaped. See docs/handlers.md; C has the
same charts.

    from jissoku import chart

    svg = chart.line([3, 5, 4, 8], title="Requests", unit="requests per second")
    chart.bar([70, 30], labels=["GET", "POST"])
    chart.line({"today": [3, 5], "yesterday": [4, 4]})

Every function raises:
    ValueError: There are more than 100,000 values, 16 series, 400 bars, 12 parts or 200 bins, a
        text is longer than 1,000 bytes, or a size is not one of those that the kind can have.
    TypeError: A value is not a number, or an option does not exist.
"""

import math
from collections.abc import Iterable, Mapping
from typing import TypedDict, Unpack

# None, NaN and what is beyond 1e300 is absent: a gap in a line, and no bar.
Number = float | None
Values = Iterable[Number] | Mapping[str, Iterable[Number]]


class Options(TypedDict, total=False):
    """Options that all kinds have, beside their own.

    Attributes:
        title: What the chart is.
        description: Its contents for those who do not see it; by default made of the values.
        unit: What the values are, such as `requests per second`.
        x_title: What the other axis is.
        size: Width and height in pixels, up to 4,096 each. By default 640 x 320; a sparkline has
            160 x 32, a ring 480 x 240. The least is 160 x 144, 16 x 8 and 64 x 64.
        in_page: The chart is for a page that shows the title itself and has `style_sheet()`. By
            default it has both of its own, and a background.
    """

    title: str
    description: str
    unit: str
    x_title: str
    size: tuple[int, int]
    in_page: bool


def line(
    values: Values,
    *,
    labels: Iterable[str] = (),
    positions: Iterable[float] = (),
    reach: tuple[float, float] = (0, 0),
    **options: Unpack[Options],
) -> str:
    """Draws a line through values, or one for each of several series by their names.

    Args:
        values: The values from left to right.
        labels: Texts at equal distances from the beginning to the end of the axis, in place of
            numbers; any number of them.
        positions: Where the values are, in ascending order, as many as the longest series has. By
            default at 0, 1, 2 and so on.
        reach: What the axis of the values contains at least, if the two differ.
        options: Those of `Options`.

    Raises:
        ValueError: See above; or there is another number of positions than of values, or they do
            not ascend.
    """
    own = {"labels": _texts(labels), "positions": _numbers(positions), "reach": reach}
    return _draw("line", values, own, options)


def bar(
    values: Values,
    *,
    labels: Iterable[str] = (),
    reach: tuple[float, float] = (0, 0),
    **options: Unpack[Options],
) -> str:
    """Draws a bar from zero for each value; those of several series stand side by side.

    Args:
        values: The values from left to right.
        labels: Their names, as many as values.
        reach: What the axis of the values contains at least, if the two differ.
        options: Those of `Options`.

    Raises:
        ValueError: See above; or there is another number of labels than of values.
    """
    return _draw("bar", values, {"labels": _texts(labels), "reach": reach}, options)


def histogram(
    values: Iterable[Number], *, bins: int | None = None, **options: Unpack[Options]
) -> str:
    """Draws how many of the values are in each of several ranges.

    Args:
        values: The values in any order.
        bins: The number of ranges. By default as many as the values suggest, between round numbers.
        options: Those of `Options`.
    """
    if bins is not None and not 0 < bins < _COUNT_MAX:
        raise ValueError(f"a histogram has 1 to 200 bins, not {bins}")
    return _draw("histogram", values, {"bins": bins or 0}, options)


def sparkline(
    values: Iterable[Number],
    *,
    reach: tuple[float, float] = (0, 0),
    **options: Unpack[Options],
) -> str:
    """Draws a line without axes, as small as a word.

    Args:
        values: The values from left to right.
        reach: What the height stands for at least, if the two differ.
        options: Those of `Options`; no title, unit or title of the axis is visible.
    """
    return _draw("sparkline", values, {"reach": reach}, options)


def ring(parts: Mapping[str, Number], **options: Unpack[Options]) -> str:
    """Draws the shares of values in their sum.

    Args:
        parts: The values by their names.
        options: Those of `Options`.

    Raises:
        ValueError: See above; or a value is negative.
    """
    return _draw("ring", parts.values(), {"labels": _texts(parts)}, options)


def style_sheet() -> str:
    """Returns the style sheet of a page with charts that are drawn with `in_page`.

    Its rules are for charts only. A page whose Content-Security-Policy does not permit styles in
    the page has it as a file.
    """
    # The package is imported without the extension, too.
    from jissoku import _native  # noqa: PLC0415

    return _native.chart_style_sheet()


_COMMON: Mapping[str, object] = {
    "title": "",
    "description": "",
    "unit": "",
    "x_title": "",
    "size": (0, 0),
    "in_page": False,
}
_DEFAULTS = {**_COMMON, "labels": [], "positions": [], "reach": (0, 0), "bins": 0}

# What 32 bits hold; the limits are below it.
_COUNT_MAX = 1 << 32


def _draw(kind: str, values: Values, own: Mapping[str, object], options: Options) -> str:
    from jissoku import _native  # noqa: PLC0415

    if unknown := options.keys() - _COMMON.keys():
        raise TypeError(f"a {kind} has no option {min(unknown)!r}")
    if not all(0 < side < _COUNT_MAX for side in options.get("size", ())):
        raise ValueError(f"a {kind} cannot have a size of {options.get('size')} pixels")
    named = values.items() if isinstance(values, Mapping) else [("", values)]
    series = [(str(name), _numbers(one)) for name, one in named]
    return _native.chart(kind, series, {**_DEFAULTS, **own, **options})


def _texts(texts: Iterable[str]) -> list[str]:
    return [str(text) for text in texts]


def _numbers(values: Iterable[Number]) -> list[float]:
    return [math.nan if value is None else _number(value) for value in values]


def _number(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        # An integer beyond the largest floating point number.
        return math.inf
