"""Values as text: numbers with their units, sanitized strings, tables in Markdown, and JSON."""

import math
import re
from collections.abc import Callable, Container
from dataclasses import dataclass
from enum import Enum
from functools import cache
from statistics import median
from typing import Any, Literal

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from jissoku.model import Estimate, Load, LoadLevel, Summary, updated
from jissoku.model.experiment import IntervalEstimate
from jissoku.model.wording import SECOND_NS, counted, factor_text, micro_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A header and rows of the same length; the first column is left-aligned."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def without(self, columns: Container[int]) -> "Table":
        kept = [column for column in range(len(self.header)) if column not in columns]
        return Table(
            header=tuple(self.header[column] for column in kept),
            rows=tuple(tuple(row[column] for column in kept) for row in self.rows),
        )


TIMES = "\N{MULTIPLICATION SIGN}"
NOTHING = "\N{EN DASH}"  # a missing value is never shown as zero

# In place of a value whose interval spans more than a factor of ten; JSON has the numbers.
NOT_KNOWN = "not known yet"

GRID_LEVELS = {LoadLevel.LIGHT, LoadLevel.MEDIUM, LoadLevel.HEAVY}


def significant(value: float, digits: int = 3) -> str:
    """A fixed number of significant digits, without an exponent and with thousands separators."""
    if value == 0:
        return "0"
    rounded = float(f"{value:.{digits - 1}e}")
    exponent = int(f"{rounded:e}".partition("e")[2])
    return f"{rounded:,.{max(0, digits - 1 - exponent)}f}"


def whole(value: float) -> str:
    return f"{value:,.0f}"


def duration(ns: float) -> str:
    """Nanoseconds in the unit that fits."""
    for scale, unit in ((1.0, "ns"), (1e3, "\N{MICRO SIGN}s"), (1e6, "ms")):
        if abs(ns) < scale * 999.5:
            return f"{significant(ns / scale)} {unit}"
    return f"{significant(ns / 1e9)} s"


def duration_mark(ns: float) -> str:
    """The same for an axis: a round number without the zeros behind its point."""
    value, unit = duration(ns).split(" ")
    return f"{value.rstrip('0').rstrip('.') if '.' in value else value} {unit}"


def micro(estimate: Estimate | None) -> str:
    """In microseconds, whose unit is in the column's header, or from a second on in seconds."""
    if estimate is None:
        return NOTHING
    if estimate.is_vague:
        return NOT_KNOWN
    scale, unit = (1e3, "") if estimate.value < SECOND_NS else (SECOND_NS, " s")
    ends = {name: getattr(estimate, name) / scale for name in ("value", "low", "high")}
    return updated(estimate, **ends).text + unit


def size(count: float) -> str:
    """Bytes in the unit that fits; powers of 1024."""
    for scale, unit in ((1, "B"), (1024, "KiB"), (1024**2, "MiB")):
        if count < scale * 1024:
            return f"{significant(count / scale)} {unit}"
    return f"{significant(count / 1024**3)} GiB"


def rate(rps: float) -> str:
    return f"{significant(rps)}/s"


def rate_mark(rps: float) -> str:
    """The same for an axis: 500, 20k, 1M."""
    scale, unit = (1, "") if rps < 1e3 else (1e3, "k") if rps < 1e6 else (1e6, "M")
    return f"{rps / scale:g}{unit}"


def offered(load: Load) -> str:
    """The rate alone, as in `20,000/s`; the closed loop offers none."""
    return "closed loop" if load.rate_rps is None else f"{load.rate_rps:,}/s"


def level_name(load: Load) -> str:
    """Light, medium or heavy; empty for other loads."""
    return str(load.level) if load.level in GRID_LEVELS else ""


def load_mark(load: Load) -> str:
    """The rate with its level, as in `20,000/s, middle`."""
    return ", ".join(filter(None, (offered(load), level_name(load))))


def times_mark(factor: float) -> str:
    return f"{factor:g} {TIMES}"


def percent(fraction: float) -> str:
    return f"{100 * fraction:.0f} %"


def ratio(estimate: Estimate | None) -> str:
    return NOTHING if estimate is None else factor_text(estimate, NOT_KNOWN)


def interval(
    estimate: Estimate | IntervalEstimate | None, show: Callable[[float], str] = significant
) -> str:
    if estimate is None:
        return NOTHING
    return f"{show(estimate.value)} [{show(estimate.low)}, {show(estimate.high)}]"


def unit_name(summary: Summary) -> str:
    if not summary.unit:
        return ""
    return "the floor" if summary.unit == summary.run.floor else summary.unit


# Beyond this many digits two builds of a numerical library may differ.
DIGITS = 9

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


def sanitized(value: Any) -> Any:
    """A record whose texts are all clean."""
    if isinstance(value, str) and not isinstance(value, Enum):
        return clean(value)
    if isinstance(value, tuple | list):
        return type(value)(map(sanitized, value))
    if isinstance(value, dict):
        return {sanitized(key): sanitized(inner) for key, inner in value.items()}
    if isinstance(value, msgspec.Struct):
        cleaned = {name: sanitized(getattr(value, name)) for name in value.__struct_fields__}
        return msgspec.structs.replace(value, **cleaned)
    return value


def to_json(value: object, *, order: Literal["deterministic"] | None = "deterministic") -> str:
    """One object, indented, with a line end; numbers have 9 digits, and a missing one is null.

    Its keys are sorted unless no order is asked for. Of a report's, docs/FORMAT.md lists what other
    programs may rely on.
    """
    plain = rounded(sanitized(msgspec.to_builtins(value, enc_hook=str)))  # Of paths.
    return msgspec.json.format(msgspec.json.encode(plain, order=order), indent=2).decode() + "\n"


def rounded(value: object) -> object:
    """Plain values, with numbers rounded to the digits that are equal on all machines."""
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


def markdown_table(table: Table) -> str:
    """A table in GitHub's syntax, with a line end."""
    marks = [":--", *["--:"] * (len(table.header) - 1)]
    rows = (map(escape, table.header), marks, *(map(escape, row) for row in table.rows))
    return "".join(f"| {' | '.join(cells)} |\n" for cells in rows)


def filled(template: str, **values: object) -> str:
    """A template as it is, such as a document for a repository or a pull request."""
    return _environment().get_template(template).render(**values)


# A factor, or the interval behind it.
INTERVAL = re.compile(r"[0-9.,]+ \N{MULTIPLICATION SIGN}|\[[0-9.,]+ [0-9.,]+\]")


@cache
def _environment() -> Environment:
    found = Environment(
        loader=PackageLoader("jissoku.report"),
        autoescape=select_autoescape(disabled_extensions=["md.j2", "txt.j2"], default=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    found.filters |= {"together": together, "md": escape, "md_table": markdown_table}
    found.filters |= {"clean": clean, "counted": counted, "median": median, "micro": micro_text}
    return found


def together(text: str) -> str:
    """Replaces the spaces of an interval by non-breaking ones."""
    return INTERVAL.sub(lambda found: found[0].replace(" ", "\N{NO-BREAK SPACE}"), text)
