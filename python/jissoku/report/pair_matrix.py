"""Every pair against every other by CPU per request at the main load: a verdict to be read off."""

from collections.abc import Mapping

from jissoku.model import Comparison, Metric, Summary
from jissoku.report.verdicts import Cell, cell


def compared(summary: Summary) -> tuple[Comparison, ...]:
    """By CPU per request at the main load."""
    return () if summary.main_load is None else summary.by(Metric.COST, summary.main_load)


def names(summary: Summary) -> tuple[str, ...]:
    """Rows and columns: ranked arms with a ratio, cheapest first."""
    known = {name for c in compared(summary) if c.ratio for name in (c.arm, c.against)}
    return tuple(s.arm.name for s in summary.arm_summaries if s.arm.name in known)


def pair_matrix(summary: Summary) -> tuple[tuple[str, tuple[Cell, ...]], ...]:
    """(name, one cell per column); below and above the diagonal stand the two views of a pair."""
    found = {(c.arm, c.against): c for c in compared(summary)}
    order = names(summary)
    return tuple((name, tuple(_cell(found, name, other) for other in order)) for name in order)


def _cell(found: Mapping[tuple[str, str], Comparison], arm: str, other: str) -> Cell:
    if (arm, other) in found:
        return cell(found[arm, other])
    if (other, arm) in found:
        return cell(found[other, arm], mirrored=True)
    return Cell()
