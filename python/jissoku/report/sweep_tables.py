"""A sweep's values as rows of text, the same under every plot and in every format."""

from jissoku.model import (
    Axis,
    Bottleneck,
    IntervalEstimate,
    LevelResult,
    SweepSummary,
    TargetSweep,
    UslModel,
)
from jissoku.report import format as fmt
from jissoku.report.tables import Table

MILLION = 1e6


def target_table(summary: SweepSummary, found: TargetSweep) -> Table:
    """One row per level."""
    is_rate = summary.sweep.axis is Axis.RATE
    header = (
        str(summary.sweep.axis), "rate", "CPU/req", "p50", "p99",
        "answered" if is_rate else "bound", "blocks", "" if is_rate else "fitted",
    )  # fmt: skip
    rows = tuple(_row(result, is_rate=is_rate) for result in found.results)
    if is_rate:
        return Table(header=header[:-1], rows=tuple(row[:-1] for row in rows))
    return Table(header=header, rows=rows)


def _row(result: LevelResult, *, is_rate: bool) -> tuple[str, ...]:
    answered = (
        fmt.NOTHING
        if result.achieved_fraction is None
        else f"{100 * result.achieved_fraction:.1f} %"
    )
    return (
        f"{result.level:,}",
        fmt.interval(result.rate_rps, "rate"),
        fmt.interval(result.cost_ns, "duration"),
        percentile(result, "p50"),
        percentile(result, "p99"),
        answered if is_rate else short_bottleneck(result),
        str(result.blocks),
        "yes" if result.is_fitted else "no",
    )


def short_bottleneck(result: LevelResult) -> str:
    """The bottleneck of a closed-loop rate, in one word."""
    return {
        Bottleneck.SERVER: "server",
        Bottleneck.GENERATOR: "generator",
        Bottleneck.NEITHER: "neither",
        Bottleneck.UNKNOWN: "unknown",
    }[result.bottleneck]


def percentile(result: LevelResult, label: str) -> str:
    """One latency percentile; a dash if too few answers lie above it."""
    for found in result.percentiles:
        if found.label == label:
            return fmt.duration(found.estimate_ns.value if found.estimate_ns else found.median_ns)
    return fmt.NOTHING


def models(summary: SweepSummary) -> Table:
    """One row per target: the model's parameters, and the predicted peak."""
    header = (
        "target", "rate of one", "contention", "coherency, per million", "peak at", "misfit",
        "levels", "blocks",
    )  # fmt: skip
    rows = tuple(_model_row(c.arm.name, c.model) for c in summary.targets if c.model is not None)
    return Table(header=header, rows=rows)


def _model_row(name: str, model: UslModel) -> tuple[str, ...]:
    return (
        name,
        format_interval(model.single_rps, unit="/s"),
        format_interval(model.contention, scale=100, unit=" %"),
        format_interval(model.coherency, scale=MILLION),
        fmt.NOTHING if model.peak is None else format_interval(model.peak),
        f"{100 * model.max_residual:.1f} %",
        str(len(model.levels)),
        str(model.blocks),
    )


def predictions(summary: SweepSummary) -> Table:
    """One row per target and requested level."""
    rows = []
    for found in summary.targets:
        for one in found.model.predictions if found.model is not None else ():
            text = one.reason if one.rate_rps is None else format_interval(one.rate_rps, unit="/s")
            rows.append((found.arm.name, level_text(summary, one.level), text))
    return Table(header=("target", "at", "requests per second"), rows=tuple(rows))


def level_text(summary: SweepSummary, level: int) -> str:
    """A level in words: one core per worker."""
    unit = {Axis.CONNECTIONS: "connection", Axis.WORKERS: "core", Axis.RATE: "request"}
    return f"{level:,} {unit[summary.sweep.axis]}{'' if level == 1 else 's'}"


def format_interval(found: IntervalEstimate, *, scale: float = 1.0, unit: str = "") -> str:
    """A value with its interval."""
    value, low, high = (
        fmt.significant(end * scale) for end in (found.value, found.low, found.high)
    )
    return f"{value}{unit} [{low}, {high}]"


def remarks(found: TargetSweep) -> tuple[str, ...]:
    """Remarks on single levels, each with its level."""
    return tuple(
        f"{result.level:,}: {remark}" for result in found.results for remark in result.remarks
    )
