"""Values of the arms and their comparisons as rows of text, the same in every format."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from jissoku.model import Load, summary as model
from jissoku.model.experiment import LevelResult
from jissoku.model.history import MachineDay
from jissoku.model.wording import capitalised, join_names, verdict_text
from jissoku.report import format as fmt
from jissoku.report.format import Table

PERCENTILES = ("p50", "p90", "p99", "p99.9")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadTable:
    """All arms at one load, with remarks on those left out; all is sorted by the main load."""

    load: Load
    title: str
    is_main: bool
    table: Table
    remarks: tuple[str, ...]


def at_loads(summary: model.Summary) -> tuple[LoadTable, ...]:
    return tuple(
        LoadTable(
            load=load,
            title=capitalised(load.text),
            is_main=load == summary.main_load,
            table=_at_load(summary, load),
            remarks=tuple(_not_measured(summary, load)),
        )
        for load in summary.loads
    )


def measured_at(
    summary: model.Summary, load: Load | None
) -> list[tuple[model.ArmSummary, model.LoadPoint]]:
    """Arms with their results at a load: cheapest first, those without a cost last."""
    found = [(s, point) for s in summary.arm_summaries if (point := s.at(load)) is not None]
    return sorted(found, key=lambda one: one[1].cost_ns.value if one[1].cost_ns else float("inf"))


def against_baseline(
    summary: model.Summary, name: str, metric: model.Metric, load: Load | None
) -> model.Comparison | None:
    """The comparison of an arm with the baseline; `load` is None for capacities."""
    wanted = name, summary.run.baseline
    return next((one for one in summary.by(metric, load) if (one.arm, one.against) == wanted), None)


def cost_beside_ratio(
    summary: model.Summary, known: model.ArmSummary, load: Load | None
) -> float | None:
    """Nanoseconds of CPU time per request that agree with the ratio that is shown beside them.

    A ratio rests on the blocks and calm slices of both arms, a mean on all of one arm: where these
    differ, the time of the baseline times the ratio is shown. None if the arm has no figure.
    """
    point = known.at(load)
    if point is None or point.cost_ns is None:
        return None
    compared = against_baseline(summary, known.arm.name, model.Metric.COST, load)
    arms = {one.arm.name: one.at(load) for one in summary.arm_summaries}
    base = arms.get(summary.run.baseline)
    if compared is None or compared.ratio is None or base is None or base.cost_ns is None:
        return point.cost_ns.value
    return base.cost_ns.value * compared.ratio.value


def multiple_of_baseline(summary: model.Summary, point: model.LoadPoint) -> str:
    """The cost of an arm without a comparison, as a multiple of the baseline; empty if unknown."""
    names = {one.arm.name: one.at(point.load) for one in summary.arm_summaries}
    base = names.get(summary.run.baseline)
    if base is None or base.cost_ns is None or point.cost_ns is None:
        return ""
    return f"{point.cost_ns.value / base.cost_ns.value:.2f}"


def _at_load(summary: model.Summary, load: Load) -> Table:
    """Without empty columns, and without the source if all points have the same."""
    known = measured_at(summary, load)
    columns = {
        "rank": [fmt.NOTHING if p.rank is None else str(p.rank) for _, p in known],
        "target": [s.arm.name for s, _ in known],
        "CPU per request (\N{MICRO SIGN}s)": [fmt.micro(p.cost_ns) for _, p in known],
    }
    if summary.unit:
        columns[f"{fmt.TIMES} {fmt.unit_name(summary)}"] = [
            _relative_cost_text(s, p, summary.unit) for s, p in known
        ]
    columns |= {label: [percentile(p, label) for _, p in known] for label in ("p50", "p99")}
    if any(p.background_fraction is not None for _, p in known):
        columns["background"] = [share(p.background_fraction) for _, p in known]
    if len({p.source for _, p in known}) > 1:
        columns["measured"] = [str(p.source) for _, p in known]
    return Table(header=tuple(columns), rows=tuple(zip(*columns.values(), strict=True)))


def _not_measured(summary: model.Summary, load: Load) -> Iterator[str]:
    """Targets missing from the table of a load, with reasons; failed ones are listed elsewhere."""
    slow = [s.arm.name for s in summary.arm_summaries if load in s.unreached]
    if slow:
        verb = "does" if len(slow) == 1 else "do"
        yield f"{join_names(slow)} {verb} not reach {load.text}."
    lost = [
        s.arm.name
        for s in summary.arm_summaries
        if s.arm.name not in slow
        and s.at(load) is None
        and s.status is model.MeasurementStatus.MEASURED
    ]
    if lost:
        why = "No figure, too few trials at this load are valid"
        is_limited = getattr(summary.run.request, "time_limit", None) is not None
        if is_limited and not any(known.at(load) for known in summary.arm_summaries):
            why = "Not measured, the time was over"
        yield f"{why}: {join_names(lost)}."


def _relative_cost_text(known: model.ArmSummary, point: model.LoadPoint, unit: str) -> str:
    if point.relative_cost is None:
        return fmt.NOTHING
    return "1" if known.arm.name == unit else point.relative_cost.text


def percentile(point: model.LoadPoint | LevelResult, label: str) -> str:
    """One latency percentile; a dash if too few answers lie above it."""
    for found in point.percentiles:
        if found.label == label:
            return fmt.duration(found.estimate_ns.value if found.estimate_ns else found.median_ns)
    return fmt.NOTHING


def percentile_estimate(point: model.LoadPoint | LevelResult, label: str) -> model.Estimate | None:
    return next((one.estimate_ns for one in point.percentiles if one.label == label), None)


def share(fraction: float | None) -> str:
    if fraction is None:
        return fmt.NOTHING
    return "0 %" if fraction < 0.0005 else f"{100 * fraction:.1f} %"


def facts(summary: model.Summary) -> Table:
    """Values that do not depend on a load."""
    capacity = f"capacity ({summary.run.objective})" if summary.run.objective else "capacity"
    header = ("target", "closed-loop rate", "bound", capacity, "memory", "version")
    found = Table(header=header, rows=tuple(map(_facts_row, summary.arm_summaries)))
    searched = any(known.capacity_rps for known in summary.arm_summaries)
    return found if searched else found.without({3})


def _facts_row(known: model.ArmSummary) -> tuple[str, ...]:
    version = known.arm.version or fmt.NOTHING
    if known.status is not model.MeasurementStatus.MEASURED:
        return (known.arm.name, str(known.status), *[fmt.NOTHING] * 3, version)
    return (
        known.arm.name,
        fmt.rate(known.rate_rps.value) if known.rate_rps else fmt.NOTHING,
        short_bottleneck(known.bottleneck) if known.rate_rps else fmt.NOTHING,
        fmt.interval(known.capacity_rps),
        fmt.NOTHING if known.rss_bytes is None else fmt.size(known.rss_bytes),
        version,
    )


def short_bottleneck(bottleneck: model.Bottleneck) -> str:
    """The bottleneck of a closed-loop rate, in one word."""
    return str(bottleneck).removesuffix("-bound").removeprefix("bound ").removesuffix(" bound")


def costs(summary: model.Summary, load: Load | None = None) -> Table:
    """CPU per request at one load or at every one, absolute and as multiples."""
    unit = fmt.unit_name(summary) or "the unit"
    header = (
        "target", "load", "CPU per request", f"multiple of {unit}", "blocks", "sd of the log",
    )  # fmt: skip
    rows = []
    for known in summary.arm_summaries:
        for point in known.points:
            if load not in {None, point.load}:
                continue
            cost, multiple = point.cost_ns, point.relative_cost
            spread = multiple.sd_log if multiple and multiple.sd_log else None
            rows.append((
                known.arm.name,
                fmt.offered(point.load),
                fmt.interval(cost, fmt.duration),
                "1" if known.arm.name == summary.unit else fmt.ratio(multiple),
                str(cost.blocks) if cost else fmt.NOTHING,
                fmt.NOTHING if spread is None else f"{100 * spread:.2f} %",
            ))  # fmt: skip
    return Table(header=header, rows=tuple(rows))


def blocks(summary: model.Summary) -> Table:
    """Every block's multiple at the main load, one column per arm."""
    drawn = {
        s.arm.name: {one.block: fmt.significant(one.value, 4) for one in p.relative_costs}
        for s, p in measured_at(summary, summary.main_load)
        if p.relative_costs
    }
    rows = tuple(
        (str(number + 1), *(values.get(number, fmt.NOTHING) for values in drawn.values()))
        for number in sorted({number for values in drawn.values() for number in values})
    )
    return Table(header=("block", *drawn), rows=rows)


def latencies(summary: model.Summary, load: Load | None = None) -> Table:
    """Percentiles at one load or at every one, from the time at which a request was due."""
    rows = tuple(
        (
            known.arm.name,
            fmt.offered(p.load),
            *(_percentile_range(p, one) for one in PERCENTILES),
            fmt.whole(most) if (most := max(q.requests for q in p.percentiles)) else fmt.NOTHING,
        )
        for known in summary.arm_summaries
        for p in known.points
        if p.percentiles and load in {None, p.load}
    )
    return Table(header=("target", "load", *PERCENTILES, "requests"), rows=rows)


def _percentile_range(point: model.LoadPoint, label: str) -> str:
    if found := percentile_estimate(point, label):
        return fmt.interval(found, fmt.duration)
    return percentile(point, label)


DAY_HEADER = ("day (UTC)", "runs", "trials", "rejected", "noise floor", "by check")


def days_table(days: Sequence[MachineDay]) -> Table:
    return Table(header=DAY_HEADER, rows=tuple(map(_day_row, days)))


def noise_text(noise_floor: float | None) -> str:
    return "unknown" if noise_floor is None else f"{100 * noise_floor:.2f} %"


def _day_row(one: MachineDay) -> tuple[str, ...]:
    share = f"{100 * one.rejected / one.trials:.1f} %" if one.trials else "-"
    checks = ", ".join(f"{name} {count}" for name, count in one.checks.items())
    noise = noise_text(one.noise_floor)
    return (one.day, str(one.runs), str(one.trials), share, noise, checks or "-")


METRIC_NAMES = {
    model.Metric.COST: "CPU per request",
    model.Metric.P50: "p50 latency",
    model.Metric.P99: "p99 latency",
    model.Metric.CAPACITY: "Capacity",
    model.Metric.TIME: "Time per answer",
}
AT_LOADS = (model.Metric.COST, model.Metric.P50, model.Metric.P99)
OVERALL = (model.Metric.CAPACITY, model.Metric.TIME)

TONES = {
    model.Verdict.EQUAL: "same",
    model.Verdict.INCONCLUSIVE: "open",
    model.Verdict.DISPUTED: "open",
    model.Verdict.UNREACHED: "broken",
    model.Verdict.INVALID: "broken",
    model.Verdict.FAILED: "broken",
}
WARNING = "\N{WARNING SIGN}"

Key = TypeVar("Key", Load, model.Metric)


def tone(metric: model.Metric, answer: model.Verdict) -> str:
    if not answer.is_difference:
        return TONES[answer]
    return "better" if answer.is_lower is metric.less_is_better else "worse"


def disagreements(comparison: model.Comparison) -> tuple[str, ...]:
    """One sentence per check that contradicts the ratio, with both values."""
    return tuple(
        f"{WARNING} {comparison.source} {fmt.ratio(comparison.ratio)},"
        f" but {check.name} {fmt.ratio(check.ratio)}"
        for check in comparison.cross_checks
        if not check.agrees
    )


def _cross_check_text(comparison: model.Comparison, name: model.CrossCheckName) -> str:
    for found in comparison.cross_checks:
        if found.name is name:
            return f"{'' if found.agrees else f'{WARNING} '}{fmt.ratio(found.ratio)}"
    return fmt.NOTHING


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One comparison: the row's arm relative to another.

    The tone is for the style sheet: better, worse, same, open, broken or none.
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


def against(summary: model.Summary, metric: model.Metric) -> tuple[model.Comparison, ...]:
    """Comparisons with the baseline by one metric, lightest load first."""
    return tuple(c for c in summary.by(metric) if c.against == summary.run.baseline)


def pairs(comparisons: Sequence[model.Comparison]) -> Table:
    """One row per pair and load: ratio, verdict, p-value, and the ratio of each check.

    What is the same in all rows, and said of the whole run, has no column.
    """
    made = {check.name for c in comparisons for check in c.cross_checks}
    checked = [name for name in model.CrossCheckName if name in made]
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


def _row(found: model.Comparison, checked: Sequence[model.CrossCheckName]) -> tuple[str, ...]:
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


def controls(summary: model.Summary) -> Table:
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


def grids(summary: model.Summary) -> tuple[Grid, ...]:
    """Verdicts relative to the baseline: a grid per metric over the loads, and one of the others.

    With one load there is one grid of all metrics.
    """
    if len(summary.loads) < 2:
        found = [_of_metrics(summary, tuple(METRIC_NAMES))]
    else:
        found = [_over_loads(summary, metric) for metric in AT_LOADS]
        found.append(_of_metrics(summary, OVERALL))
    return tuple(grid for grid in found if grid.rows)


def _of_metrics(summary: model.Summary, metrics: Sequence[model.Metric]) -> Grid:
    known = [metric for metric in metrics if against(summary, metric)]
    cells = {(c.arm, m): cell(c) for m in known for c in against(summary, m)}
    rows = _rows(summary, cells, known)
    header = tuple(METRIC_NAMES[metric] for metric in known)
    if len(header) == 1:
        return Grid(title=header[0], header=("",), rows=rows)
    return Grid(title="", header=header, rows=rows)


def _over_loads(summary: model.Summary, metric: model.Metric) -> Grid:
    known = against(summary, metric)
    loads = list(dict.fromkeys(c.load for c in known))
    rows = _rows(summary, {(c.arm, c.load): cell(c) for c in known}, loads)
    return Grid(title=METRIC_NAMES[metric], header=tuple(map(fmt.load_mark, loads)), rows=rows)


def _rows(
    summary: model.Summary, cells: Mapping[tuple[str, Key], Cell], columns: Sequence[Key]
) -> tuple[tuple[str, tuple[Cell, ...]], ...]:
    """Arms without a value of this metric have no row."""
    names = [known.arm.name for known in summary.arm_summaries]
    rows = {name: tuple(cells.get((name, one), Cell()) for one in columns) for name in names}
    return tuple((name, row) for name, row in rows.items() if any(c.verdict for c in row))


def cell(comparison: model.Comparison, *, mirrored: bool = False) -> Cell:
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


def matrix_names(summary: model.Summary) -> tuple[str, ...]:
    """Rows and columns: ranked arms with a ratio, cheapest first."""
    known = {name for c in _main_comparisons(summary) if c.ratio for name in (c.arm, c.against)}
    return tuple(s.arm.name for s in summary.arm_summaries if s.arm.name in known)


def pair_matrix(summary: model.Summary) -> tuple[tuple[str, tuple[Cell, ...]], ...]:
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


def _main_comparisons(summary: model.Summary) -> tuple[model.Comparison, ...]:
    return () if summary.main_load is None else summary.by(model.Metric.COST, summary.main_load)
