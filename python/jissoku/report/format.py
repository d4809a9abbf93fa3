"""Formatted numbers: three significant digits, with a fitting unit."""

from jissoku.model import Estimate, Load, LoadLevel, Summary
from jissoku.model.updated import updated

TIMES = "\N{MULTIPLICATION SIGN}"
NOTHING = "\N{EN DASH}"  # a missing value is never shown as zero


def significant(value: float, digits: int = 3) -> str:
    """A fixed number of significant digits, without an exponent and with thousands separators."""
    if value == 0:
        return "0"
    rounded = float(f"{value:.{digits - 1}e}")
    exponent = int(f"{rounded:e}".partition("e")[2])
    return f"{rounded:,.{max(0, digits - 1 - exponent)}f}"


def duration(ns: float) -> str:
    """Nanoseconds in the unit that fits."""
    for limit, scale, unit in (
        (1e3, 1.0, "ns"),
        (1e6, 1e3, "\N{MICRO SIGN}s"),
        (1e9, 1e6, "ms"),
    ):
        if abs(ns) < limit * 0.9995:
            return f"{significant(ns / scale)} {unit}"
    return f"{significant(ns / 1e9)} s"


def duration_mark(ns: float) -> str:
    """The same for an axis: a round number without the zeros behind its point."""
    value, unit = duration(ns).split(" ")
    return f"{value.rstrip('0').rstrip('.') if '.' in value else value} {unit}"


def micro(estimate: Estimate | None) -> str:
    """Nanoseconds in microseconds, with the interval; the unit stands in the column's header."""
    if estimate is None:
        return NOTHING
    scaled = {name: getattr(estimate, name) / 1000 for name in ("value", "low", "high")}
    return updated(estimate, **scaled).text


def micro_value(estimate: Estimate | None) -> str:
    """Nanoseconds in microseconds, without the interval."""
    return NOTHING if estimate is None else significant(estimate.value / 1000)


def size(count: float) -> str:
    """Bytes in the unit that fits; powers of 1024."""
    for limit, unit in ((1024, "B"), (1024**2, "KiB"), (1024**3, "MiB")):
        if count < limit:
            return f"{significant(count / (limit / 1024))} {unit}"
    return f"{significant(count / 1024**3)} GiB"


def rate(rps: float) -> str:
    """Requests per second."""
    return f"{significant(rps)}/s"


def rate_mark(rps: float) -> str:
    """The same for an axis: 500, 20k, 1M."""
    for limit, scale, unit in ((1e3, 1.0, ""), (1e6, 1e3, "k")):
        if rps < limit:
            return f"{rps / scale:g}{unit}"
    return f"{rps / 1e6:g}M"


def offered(load: Load) -> str:
    """The rate alone, as in `20,000/s`; the closed loop offers none."""
    return "closed loop" if load.rate_rps is None else f"{load.rate_rps:,}/s"


def load_mark(load: Load) -> str:
    """The rate with its level, as in `20,000/s, middle`."""
    named = {LoadLevel.LIGHT, LoadLevel.MEDIUM, LoadLevel.HEAVY}
    return offered(load) + (f", {load.level}" if load.level in named else "")


def percent(fraction: float) -> str:
    """A fraction in whole per cent."""
    return f"{100 * fraction:.0f} %"


def ratio(estimate: Estimate | None) -> str:
    """A factor with its interval, as in the sentences of verdicts."""
    if estimate is None:
        return NOTHING
    value, interval = estimate.text.split(" ", 1)
    return f"{value} {TIMES} {interval}"


def interval(estimate: Estimate | None, unit: str) -> str:
    """A quantity with its interval; `unit` is duration (ns) or rate (requests/s)."""
    if estimate is None:
        return NOTHING
    show = {"duration": duration, "rate": rate}[unit]
    return f"{show(estimate.value)} [{show(estimate.low)}, {show(estimate.high)}]"


def rate_range(estimate: Estimate | None) -> str:
    """Requests per second with the interval; the unit stands in the column's header."""
    if estimate is None:
        return NOTHING
    value, low, high = map(significant, (estimate.value, estimate.low, estimate.high))
    return f"{value} [{low}, {high}]"


def unit_name(summary: Summary) -> str:
    if not summary.unit:
        return ""
    return "the floor" if summary.unit == summary.run.floor else summary.unit
