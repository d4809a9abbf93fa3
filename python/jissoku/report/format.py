"""Values as text: numbers with their units, sanitized strings, tables in Markdown, and JSON."""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from typing import TypeVar

import msgspec

from jissoku.model import Estimate, Load, LoadLevel, Summary
from jissoku.model.updated import updated


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A header and rows of the same length; the first column is left-aligned."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


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


Value = TypeVar("Value")

# Control sequences of a terminal (ECMA-48, section 5.4).
SEQUENCE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")


def clean(text: str) -> str:
    """Printable characters and line ends only; a tab becomes four spaces."""
    if text.isprintable():
        return text
    kept = SEQUENCE.sub("", text).replace("\r\n", "\n").replace("\t", "    ")
    return "".join(
        char if char == "\n" or char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in kept
    )


def sanitized(value: Value) -> Value:
    return _scrub(value)  # type: ignore[return-value]


def _scrub(value: object) -> object:
    if isinstance(value, Enum):
        return value
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, tuple):
        return tuple(map(_scrub, value))
    if is_dataclass(value) and not isinstance(value, type):
        return updated(value, **{f.name: _scrub(getattr(value, f.name)) for f in fields(value)})
    if isinstance(value, msgspec.Struct):
        names = value.__struct_fields__
        fields_now = {name: _scrub(getattr(value, name)) for name in names}
        return msgspec.structs.replace(value, **fields_now)
    return value


# Beyond this many digits two builds of a numerical library may differ.
DIGITS = 9


def to_json(summary: Summary) -> str:
    """One object of the schema that it names, indented, with a line end.

    Keys are sorted. A missing value is null. docs/FORMAT.md lists what other programs may rely on.
    """
    plain = msgspec.to_builtins(sanitized(summary))
    text = msgspec.json.format(msgspec.json.encode(rounded(plain), order="deterministic"), indent=2)
    return text.decode() + "\n"


def value_json(value: Mapping[str, object]) -> str:
    """One object, indented, its keys sorted; numbers have 9 digits, and a missing one is null."""
    plain = _cleaned(rounded(msgspec.to_builtins(value)))
    text = msgspec.json.format(msgspec.json.encode(plain, order="deterministic"), indent=2)
    return text.decode() + "\n"


def _cleaned(value: object) -> object:
    """With every text in it sanitized: a folder's name may be no text."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {key: _cleaned(inner) for key, inner in value.items()}
    return [_cleaned(inner) for inner in value] if isinstance(value, list) else value


def rounded(value: object) -> object:
    """Plain values, with every number rounded to the digits that are equal on all machines."""
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: rounded(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(inner) for inner in value]
    return value


# Characters that could begin markup inside a line; they are escaped by a backslash.
SPECIAL = re.compile(r"([\\`*_{}\[\]<>|#~!&$@])")


def escape(text: str) -> str:
    return SPECIAL.sub(r"\\\1", " ".join(text.split()))


def table_lines(table: Table) -> Iterator[str]:
    """A table in GitHub's syntax, followed by an empty line."""
    yield _markdown_row(table.header)
    yield _markdown_row([":--", *["--:"] * (len(table.header) - 1)], plain=True)
    yield from (_markdown_row(row) for row in table.rows)
    yield ""


def _markdown_row(cells: tuple[str, ...] | list[str], *, plain: bool = False) -> str:
    shown = cells if plain else [escape(cell) for cell in cells]
    return f"| {' | '.join(shown)} |"
