"""Every pair against every other: the table from which a verdict can be read off."""

from collections.abc import Mapping
from dataclasses import dataclass

from jissoku.model import Comparison, Summary, Verdict
from jissoku.report import format as fmt


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """The row's arm seen from the column's.

    Attributes:
        tone: For the style sheet: better, worse, same, open, broken or self.
    """

    ratio: str = ""
    verdict: str = ""
    proven: bool = False
    tone: str = "self"
    sentence: str = ""


TONES = {
    Verdict.FASTER: "better",
    Verdict.SLIGHTLY_FASTER: "better",
    Verdict.EQUAL: "same",
    Verdict.SLIGHTLY_SLOWER: "worse",
    Verdict.SLOWER: "worse",
    Verdict.INCONCLUSIVE: "open",
    Verdict.INTERFERENCE: "open",
    Verdict.INVALID: "broken",
    Verdict.FAILED: "broken",
}


def names(summary: Summary) -> tuple[str, ...]:
    """Rows and columns: contestants, cheapest first."""
    compared = {name for c in summary.comparisons for name in (c.arm, c.against)}
    return tuple(s.arm.name for s in summary.standings if s.arm.name in compared)


def rows(summary: Summary) -> tuple[tuple[str, tuple[Cell, ...]], ...]:
    """(name, one cell per column); below and above the diagonal stand the two views of a pair."""
    found: Mapping[tuple[str, str], Comparison] = {
        (c.arm, c.against): c for c in summary.comparisons
    }
    order = names(summary)
    return tuple((name, tuple(_cell(found, name, other) for other in order)) for name in order)


def _cell(found: Mapping[tuple[str, str], Comparison], arm: str, against: str) -> Cell:
    if (arm, against) in found:
        pair = found[arm, against]
        ratio, verdict = pair.ratio, pair.verdict
    elif (against, arm) in found:
        pair = found[against, arm]
        ratio, verdict = pair.ratio and pair.ratio.inverse, pair.verdict.mirrored
    else:
        return Cell()
    return Cell(
        ratio=fmt.ratio(ratio) if ratio else "",
        verdict=str(verdict),
        proven=pair.proven,
        tone=TONES[verdict],
        sentence=". ".join((pair.sentence, *pair.remarks)),
    )
