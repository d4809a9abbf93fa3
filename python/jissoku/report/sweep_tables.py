"""A sweep's numbers, as rows of text: the same ones under every plot and in every format."""

from jissoku.model import Axis, Bound, Climb, Law, Rung, Span, SweepSummary
from jissoku.report import format as fmt
from jissoku.report.tables import Table

MILLION = 1e6


def climb(summary: SweepSummary, found: Climb) -> Table:
    """One row a level."""
    is_rate = summary.sweep.axis is Axis.RATE
    header = (
        str(summary.sweep.axis), "rate", "CPU/req", "p50", "p99",
        "answered" if is_rate else "bound", "blocks", "" if is_rate else "fitted",
    )  # fmt: skip
    rows = tuple(_row(rung, is_rate=is_rate) for rung in found.rungs)
    if is_rate:
        return Table(header=header[:-1], rows=tuple(row[:-1] for row in rows))
    return Table(header=header, rows=rows)


def _row(rung: Rung, *, is_rate: bool) -> tuple[str, ...]:
    answered = fmt.NOTHING if rung.achieved is None else f"{100 * rung.achieved:.1f} %"
    return (
        f"{rung.level:,}",
        fmt.interval(rung.rate_rps, "rate"),
        fmt.interval(rung.cost_ns, "duration"),
        percentile(rung, "p50"),
        percentile(rung, "p99"),
        answered if is_rate else short_bound(rung),
        str(rung.blocks),
        "yes" if rung.fitted else "no",
    )


def short_bound(rung: Rung) -> str:
    """What a closed-loop rate was bound by, in a word."""
    return {
        Bound.SERVER: "server",
        Bound.GENERATOR: "generator",
        Bound.NEITHER: "neither",
        Bound.UNKNOWN: "unknown",
    }[rung.bound]


def percentile(rung: Rung, label: str) -> str:
    """One latency percentile; a dash where too few answers lie above it."""
    for found in rung.percentiles:
        if found.label == label:
            return fmt.duration(found.estimate_ns.value if found.estimate_ns else found.median_ns)
    return fmt.NOTHING


def laws(summary: SweepSummary) -> Table:
    """One row a target: the law's parameters, and what follows from them."""
    header = (
        "target", "rate of one", "contention", "coherency, per million", "peak at", "misfit",
        "levels", "blocks",
    )  # fmt: skip
    rows = tuple(_law_row(c.arm.name, c.law) for c in summary.climbs if c.law is not None)
    return Table(header=header, rows=rows)


def _law_row(name: str, law: Law) -> tuple[str, ...]:
    return (
        name,
        span(law.single_rps, unit="/s"),
        span(law.contention, scale=100, unit=" %"),
        span(law.coherency, scale=MILLION),
        fmt.NOTHING if law.peak is None else span(law.peak),
        f"{100 * law.misfit:.1f} %",
        str(len(law.levels)),
        str(law.blocks),
    )


def forecasts(summary: SweepSummary) -> Table:
    """One row a target and level that was asked for."""
    rows = []
    for found in summary.climbs:
        for one in found.law.forecasts if found.law is not None else ():
            told = one.reason if one.rate_rps is None else span(one.rate_rps, unit="/s")
            rows.append((found.arm.name, place(summary, one.level), told))
    return Table(header=("target", "at", "requests per second"), rows=tuple(rows))


def place(summary: SweepSummary, level: int) -> str:
    """A level in words: a worker has a core of its own."""
    unit = {Axis.CONNECTIONS: "connection", Axis.WORKERS: "core", Axis.RATE: "request"}
    return f"{level:,} {unit[summary.sweep.axis]}{'' if level == 1 else 's'}"


def span(found: Span, *, scale: float = 1.0, unit: str = "") -> str:
    """A value with its interval."""
    value, low, high = (
        fmt.significant(end * scale) for end in (found.value, found.low, found.high)
    )
    return f"{value}{unit} [{low}, {high}]"


def remarks(found: Climb) -> tuple[str, ...]:
    """What is to be known of single levels, each told with its level."""
    return tuple(f"{rung.level:,}: {remark}" for rung in found.rungs for remark in rung.remarks)
