"""Colours: of the arms, the same ones in every plot, and of the page's theme."""

from jissoku.model import Summary

# Paul Tol's "bright" scheme, told apart by all common kinds of colour vision and on both themes;
# his grey is the floor's. Beyond six arms the dashes differ.
COLOURS = ("#4477aa", "#ee6677", "#228833", "#aa3377", "#ccbb44", "#66ccee")
FLOOR_COLOUR = "#999999"
DASHES = ("solid", "dash", "dashdot", "longdash")
USER = COLOURS[0]

# Stand-ins for colours that follow the page's theme; its script puts the real ones in their place.
INK, MUTED, SOFT = "#010101", "#010102", "#010103"
THEME = {INK: "--ink", MUTED: "--muted", SOFT: "--soft"}


def colour(summary: Summary, name: str) -> str:
    """The arm's colour in every plot."""
    if name == summary.run.floor:
        return FLOOR_COLOUR
    names = [arm.name for arm in summary.run.arms if arm.name != summary.run.floor]
    return COLOURS[names.index(name) % len(COLOURS)]


def dash(summary: Summary, name: str) -> str:
    """Tells lines apart once the colours are used up; the floor is dotted."""
    if name == summary.run.floor:
        return "dot"
    names = [arm.name for arm in summary.run.arms if arm.name != summary.run.floor]
    return DASHES[names.index(name) // len(COLOURS) % len(DASHES)]
