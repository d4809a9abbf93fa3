"""Plots with one row per target: a name on the left, a mark, a figure on the right.

Names and figures are handed to the page's script (in the layout's `meta`), which places them
beside the plot where there is room, and above each row where there is not.
"""

import html
from collections.abc import Sequence

import plotly.graph_objects as go  # type: ignore[import-untyped]

from jissoku.model import Estimate, Standing
from jissoku.report.palette import MUTED


def layout(
    drawn: Sequence[Standing], labels: Sequence[str], xaxis: dict[str, object]
) -> dict[str, object]:
    """A layout with one row per arm, the first on top."""
    return named([known.arm.name for known in drawn], labels, xaxis)


def named(
    names: Sequence[str], labels: Sequence[str], xaxis: dict[str, object]
) -> dict[str, object]:
    """A layout with one row per name, the first on top."""
    return {
        "meta": {
            "rows": [
                {"name": html.escape(name), "label": html.escape(label)}
                for name, label in zip(names, labels, strict=True)
            ]
        },
        "showlegend": False,
        "xaxis": xaxis,
        "yaxis": {"range": [len(names) - 0.4, -0.6], "showgrid": False, "showticklabels": False},
    }


def dot(row: int, estimate: Estimate, colour: str, *, symbol: str = "circle") -> object:
    """An estimate with its interval."""
    return go.Scatter(
        x=[estimate.value],
        y=[row],
        mode="markers",
        marker={
            "color": colour,
            "size": 11,
            "symbol": symbol,
            "line": {"width": 2, "color": colour},
        },
        error_x={
            "type": "data",
            "symmetric": False,
            "array": [estimate.high - estimate.value],
            "arrayminus": [estimate.value - estimate.low],
            "color": colour,
            "thickness": 2.5,
            "width": 0,
        },
        hovertemplate=f"{html.escape(estimate.text)}<extra></extra>",
    )


def band(row: int, estimate: Estimate, centre: float, colour: str) -> go.Scatter:
    """An interval as a broad faint line, in per cent of the centre."""
    ends = [100 * (end / centre - 1) for end in (estimate.low, estimate.high)]
    return go.Scatter(
        x=ends,
        y=[row, row],
        mode="lines",
        line={"color": colour, "width": 22},
        opacity=0.16,
        hoverinfo="skip",
    )


def line_at(x: float) -> dict[str, object]:
    """A dotted line from top to bottom."""
    return {
        "type": "line",
        "x0": x,
        "x1": x,
        "y0": 0,
        "y1": 1,
        "yref": "paper",
        "layer": "below",
        "line": {"color": MUTED, "width": 1, "dash": "dot"},
    }
