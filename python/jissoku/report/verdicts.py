"""Comparisons in words and as tables: every pair with its checks, and grids of arms by loads."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from jissoku.model import Comparison, CrossCheckName, Load, Metric, Summary, Verdict
from jissoku.model.wording import verdict_text
from jissoku.report import format as fmt
from jissoku.report.format import Table

METRIC_NAMES = {
    Metric.COST: "CPU per request",
    Metric.P50: "p50 latency",
    Metric.P99: "p99 latency",
    Metric.CAPACITY: "Capacity",
    Metric.TIME: "Time per answer",
}
AT_LOADS = (Metric.COST, Metric.P50, Metric.P99)
OVERALL = (Metric.CAPACITY, Metric.TIME)

TONES = {
    Verdict.EQUAL: "same",
    Verdict.INCONCLUSIVE: "open",
    Verdict.DISPUTED: "open",
    Verdict.INVALID: "broken",
    Verdict.FAILED: "broken",
}
WARNING = "\N{WARNING SIGN}"

Key = TypeVar("Key", Load, Metric)


def tone(metric: Metric, answer: Verdict) -> str:
    """Better, worse, same, open or broken: the class for the style sheet's colours."""
    if not answer.is_difference:
        return TONES[answer]
    return "better" if answer.is_lower is metric.less_is_better else "worse"


def disagreements(comparison: Comparison) -> tuple[str, ...]:
    """One sentence per check that contradicts the ratio, with both values."""
    return tuple(
        f"{WARNING} {comparison.source} {fmt.ratio(comparison.ratio)},"
        f" but {check.name} {fmt.ratio(check.ratio)}"
        for check in comparison.cross_checks
        if not check.agrees
    )


def _cross_check_text(comparison: Comparison, name: CrossCheckName) -> str:
    """The ratio of a check, marked if it disagrees; a dash without the check."""
    for found in comparison.cross_checks:
        if found.name is name:
            return f"{'' if found.agrees else f'{WARNING} '}{fmt.ratio(found.ratio)}"
    return fmt.NOTHING


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One comparison: the row's arm relative to another.

    Attributes:
        tone: For the style sheet: better, worse, same, open, broken or none.
        sentence: The complete result in words, with remarks and disagreeing checks.
    """

    ratio: str = ""
    verdict: str = ""
    proven: bool = False
    disputed: bool = False
    tone: str = "none"
    sentence: str = ""


# Columns that a report says of the whole run, too, under "How it was measured".
OF_THE_RUN = frozenset({"measured", "blocks"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """Verdicts relative to one arm: a row per arm, a column per load or metric."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]


def against(summary: Summary, metric: Metric) -> tuple[Comparison, ...]:
    """Comparisons with the baseline by one metric, lightest load first."""
    return tuple(c for c in summary.by(metric) if c.against == summary.run.baseline)


def pairs(comparisons: Sequence[Comparison]) -> Table:
    """One row per pair and load: ratio, verdict, p-value, and the ratio of each check.

    What is the same in all rows, and said of the whole run, has no column.
    """
    made = {check.name for c in comparisons for check in c.cross_checks}
    checked = [name for name in CrossCheckName if name in made]
    header = (
        "target", "against", "load", "ratio", "verdict", "proven", "measured", "blocks",
        "p (Holm)", "p (sign flip)", "Hodges-Lehmann", *(f"check: {name}" for name in checked),
    )  # fmt: skip
    found = Table(header=header, rows=tuple(_row(one, checked) for one in comparisons))
    return found.without(
        {
            column
            for column, name in enumerate(header)
            if name in OF_THE_RUN and len({row[column] for row in found.rows}) == 1
        }
    )


def _row(found: Comparison, checked: Sequence[CrossCheckName]) -> tuple[str, ...]:
    doubt = f" {WARNING}" if disagreements(found) else ""
    return (
        found.arm,
        found.against,
        fmt.NOTHING if found.metric in OVERALL else fmt.offered(found.load),
        fmt.ratio(found.ratio),
        verdict_text(found.metric, found.verdict) + doubt,
        "yes" if found.is_decided else "no",
        str(found.source),
        str(found.ratio.blocks) if found.ratio else fmt.NOTHING,
        _p(found.p_holm),
        _p(found.p_sign_flip),
        fmt.ratio(found.robust),
        *(_cross_check_text(found, name) for name in checked),
    )


def _p(value: float | None) -> str:
    if value is None:
        return fmt.NOTHING
    return "< 0.0001" if value < 0.0001 else f"{value:.4f}"


def controls(summary: Summary) -> Table:
    """The A/A control: two copies of the baseline, at each load."""
    rows = tuple(
        (
            fmt.offered(found.load),
            METRIC_NAMES[found.metric],
            fmt.ratio(found.ratio),
            verdict_text(found.metric, found.verdict),
        )
        for found in summary.aa_control
    )
    return Table(header=("load", "metric", "ratio", "verdict"), rows=rows)


def grids(summary: Summary) -> tuple[Grid, ...]:
    """Verdicts relative to the baseline: a grid per metric over the loads, and one of the others.

    With one load there is one grid of all metrics.
    """
    if len(summary.loads) < 2:
        found = [_of_metrics(summary, tuple(METRIC_NAMES))]
    else:
        found = [_over_loads(summary, metric) for metric in AT_LOADS]
        found.append(_of_metrics(summary, OVERALL))
    return tuple(grid for grid in found if grid.rows)


def _of_metrics(summary: Summary, metrics: Sequence[Metric]) -> Grid:
    known = [metric for metric in metrics if against(summary, metric)]
    cells = {(c.arm, m): cell(c) for m in known for c in against(summary, m)}
    rows = _rows(summary, cells, known)
    header = tuple(METRIC_NAMES[metric] for metric in known)
    if len(header) == 1:
        return Grid(title=header[0], header=("",), rows=rows)
    return Grid(title="", header=header, rows=rows)


def _over_loads(summary: Summary, metric: Metric) -> Grid:
    known = against(summary, metric)
    loads = list(dict.fromkeys(c.load for c in known))
    rows = _rows(summary, {(c.arm, c.load): cell(c) for c in known}, loads)
    return Grid(title=METRIC_NAMES[metric], header=tuple(map(fmt.load_mark, loads)), rows=rows)


def _rows(
    summary: Summary, cells: Mapping[tuple[str, Key], Cell], columns: Sequence[Key]
) -> tuple[tuple[str, tuple[Cell, ...]], ...]:
    """Arms without a value of this metric have no row."""
    names = [known.arm.name for known in summary.arm_summaries]
    rows = [tuple(cells.get((name, column), Cell()) for column in columns) for name in names]
    return tuple(
        (name, row) for name, row in zip(names, rows, strict=True) if any(c.verdict for c in row)
    )


def cell(comparison: Comparison, *, mirrored: bool = False) -> Cell:
    ratio, answer = comparison.ratio, comparison.verdict
    if mirrored:
        ratio, answer = ratio and ratio.inverse, answer.inverted
    doubts = disagreements(comparison)
    return Cell(
        ratio=fmt.ratio(ratio) if ratio else "",
        verdict=verdict_text(comparison.metric, answer),
        proven=comparison.is_decided,
        disputed=bool(doubts),
        tone=tone(comparison.metric, answer),
        sentence=". ".join((comparison.sentence, *comparison.remarks, *doubts)),
    )


def matrix_names(summary: Summary) -> tuple[str, ...]:
    """Rows and columns: ranked arms with a ratio, cheapest first."""
    known = {name for c in _main_comparisons(summary) if c.ratio for name in (c.arm, c.against)}
    return tuple(s.arm.name for s in summary.arm_summaries if s.arm.name in known)


def pair_matrix(summary: Summary) -> tuple[tuple[str, tuple[Cell, ...]], ...]:
    """Every pair by CPU per request at the main load: (name, one cell per column).

    Below and above the diagonal are the two views of a pair.
    """
    known = _main_comparisons(summary)
    cells = {(c.against, c.arm): cell(c, mirrored=True) for c in known}
    cells |= {(c.arm, c.against): cell(c) for c in known}
    order = matrix_names(summary)
    return tuple(
        (name, tuple(cells.get((name, other), Cell()) for other in order)) for name in order
    )


def _main_comparisons(summary: Summary) -> tuple[Comparison, ...]:
    return () if summary.main_load is None else summary.by(Metric.COST, summary.main_load)
