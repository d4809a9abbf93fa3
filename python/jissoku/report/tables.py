"""The numbers, as rows of text: the same ones under every plot and in every format."""

from collections.abc import Sequence
from dataclasses import dataclass

from jissoku.model import Comparison, Standing, Status, Summary
from jissoku.report import format as fmt


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A header and rows of the same length; the first column is left-aligned, and what is told."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def ranking(summary: Summary) -> Table:
    """One row per arm: everything that fits on a line."""
    unit = fmt.unit_name(summary)
    header = (
        "rank",
        "target",
        f"{fmt.TIMES} {unit}" if unit else "multiple",
        "CPU/req",
        "rate",
        "bound",
        "p50",
        "p99",
        "memory",
    )
    return Table(
        header=header, rows=tuple(_ranking_row(known, summary.unit) for known in summary.standings)
    )


def _ranking_row(known: Standing, unit: str) -> tuple[str, ...]:
    if known.status is not Status.MEASURED:
        return (fmt.NOTHING, known.arm.name, str(known.status), *[fmt.NOTHING] * 6)
    return (
        fmt.NOTHING if known.rank is None else str(known.rank),
        known.arm.name,
        _multiple_text(known, unit),
        fmt.duration(known.cost_ns.value) if known.cost_ns else fmt.NOTHING,
        fmt.rate(known.rate_rps.value) if known.rate_rps else fmt.NOTHING,
        short_bound(known) if known.rate_rps else fmt.NOTHING,
        percentile(known, "p50"),
        percentile(known, "p99"),
        fmt.NOTHING if known.rss_bytes is None else fmt.size(known.rss_bytes),
    )


def _multiple_text(known: Standing, unit: str) -> str:
    if known.multiple is None:
        return fmt.NOTHING
    return "1" if known.arm.name == unit else known.multiple.text


def short_bound(known: Standing) -> str:
    """What a closed-loop rate was bound by, in one word."""
    return str(known.bound).removesuffix("-bound").removeprefix("bound ").removesuffix(" bound")


def percentile(known: Standing, label: str) -> str:
    """One latency percentile; a dash where too few answers lie above it."""
    for found in known.percentiles:
        if found.label == label:
            value = found.estimate_ns.value if found.estimate_ns else found.median_ns
            return fmt.duration(value)
    return fmt.NOTHING


def verdicts(comparisons: Sequence[Comparison]) -> Table:
    """One row per pair: ratio, verdict, and how sure."""
    header = (
        "target", "against", "ratio of CPU", "verdict", "proven", "from", "blocks",
        "p (Holm)", "p (sign flip)", "Hodges-Lehmann", "solo check",
    )  # fmt: skip
    return Table(header=header, rows=tuple(_verdict_row(found) for found in comparisons))


def _verdict_row(found: Comparison) -> tuple[str, ...]:
    return (
        found.arm,
        found.against,
        fmt.ratio(found.ratio),
        str(found.verdict),
        "yes" if found.proven else "no",
        f"{found.source} ({found.through})" if found.through else str(found.source),
        str(found.ratio.blocks) if found.ratio else fmt.NOTHING,
        _p(found.p_holm),
        _p(found.p_sign_flip),
        fmt.ratio(found.robust),
        fmt.ratio(found.solo),
    )


def _p(value: float | None) -> str:
    if value is None:
        return fmt.NOTHING
    return "< 0.0001" if value < 0.0001 else f"{value:.4f}"


def costs(summary: Summary) -> Table:
    """CPU per request, absolute and as multiples, with what each was measured at."""
    unit = fmt.unit_name(summary) or "the unit"
    header = ("target", f"multiple of {unit}", "CPU per request", "at", "connections", "blocks",
              "sd of the log")  # fmt: skip
    rows = []
    for known in summary.standings:
        cost, multiple = known.cost_ns, known.multiple
        spread = multiple.spread if multiple and multiple.spread else None
        rows.append((
            known.arm.name,
            "1" if known.arm.name == summary.unit else fmt.ratio(multiple),
            fmt.interval(cost, "duration"),
            at_rate(known.cost_rate_rps) if cost else fmt.NOTHING,
            str(known.connections) if cost else fmt.NOTHING,
            str(cost.blocks) if cost else fmt.NOTHING,
            fmt.NOTHING if spread is None else f"{100 * spread:.2f} %",
        ))  # fmt: skip
    return Table(header=header, rows=tuple(rows))


def at_rate(rate_rps: int | None) -> str:
    """The offered rate; the closed loop offers none."""
    return "closed loop" if rate_rps is None else f"{rate_rps:,}/s"


def blocks(summary: Summary) -> Table:
    """Every block's multiple, one column per arm."""
    drawn = [known for known in summary.standings if known.multiples]
    numbers = sorted({dot.block for known in drawn for dot in known.multiples})
    found = {(k.arm.name, dot.block): dot.value for k in drawn for dot in k.multiples}
    names = [known.arm.name for known in drawn]
    rows = tuple(
        (str(number + 1), *(_multiple(found.get((name, number))) for name in names))
        for number in numbers
    )
    return Table(header=("block", *names), rows=rows)


def _multiple(value: float | None) -> str:
    return fmt.NOTHING if value is None else fmt.significant(value, 4)


def splits(summary: Summary) -> Table:
    """User and system part of the CPU time, in the closed loop."""
    rows = tuple(
        (known.arm.name, fmt.percent(known.user_fraction), fmt.percent(1 - known.user_fraction))
        for known in summary.standings
        if known.cost_ns and known.user_fraction is not None
    )
    return Table(header=("target", "user", "system"), rows=rows)


def rates(summary: Summary) -> Table:
    """Closed-loop rates and what bound them."""
    rows = tuple(
        (s.arm.name, fmt.interval(s.rate_rps, "rate"), str(s.bound), str(s.rate_rps.blocks))
        for s in summary.standings
        if s.rate_rps
    )
    return Table(header=("target", "requests per second", "bound by", "trials"), rows=rows)


def latencies(summary: Summary) -> Table:
    """Percentiles from solo trials at one rate each."""
    labels = ("p50", "p90", "p99", "p99.9")
    rows = tuple(
        (s.arm.name, at_rate(s.latency_rate_rps), *(percentile(s, label) for label in labels))
        for s in summary.standings
        if s.percentiles
    )
    return Table(header=("target", "at", *labels), rows=rows)


def memory(summary: Summary) -> Table:
    """Resident memory of all processes of a target."""
    rows = tuple(
        (s.arm.name, fmt.size(s.rss_bytes)) for s in summary.standings if s.rss_bytes is not None
    )
    return Table(header=("target", "resident memory"), rows=rows)
