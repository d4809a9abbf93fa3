"""Values as JSON, in one stable order."""

import math
from collections.abc import Mapping

import msgspec

from jissoku.model import Summary
from jissoku.report.sanitize import clean, sanitized

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
