"""How targets are distinguished: by style-sheet classes and shapes, the same everywhere."""

from jissoku.model import Summary

# Number of the style sheet's colours `c0` to `c5`: Paul Tol's "bright" scheme with more contrast.
COLOURS = 6
DASHES = 4
SHAPES = ("dot", "square", "up", "diamond", "down", "crossed")
FLOOR = "floor"


def style(index: int) -> str:
    """Classes of a series: its colour, and its dashes once the colours are used up."""
    dashes = index // COLOURS % DASHES
    return f"c{index % COLOURS}" + (f" dash{dashes}" if dashes else "")


def shape(index: int) -> str:
    """Of a series' points; together with the colour it is unique up to the 36th."""
    return SHAPES[(index + index // COLOURS) % len(SHAPES)]


def arm_style(summary: Summary, name: str) -> str:
    """The arm's classes in every figure; the floor has its own."""
    return FLOOR if name == summary.run.floor else style(_index(summary, name))


def arm_shape(summary: Summary, name: str) -> str:
    """The arm's shape in every figure of lines."""
    return "small" if name == summary.run.floor else shape(_index(summary, name))


def _index(summary: Summary, name: str) -> int:
    names = [arm.name for arm in summary.run.arms if arm.name != summary.run.floor]
    return names.index(name)
