"""The summary as JSON, in one stable order."""

import math

import msgspec

from jissoku.model import Summary
from jissoku.report.sanitize import sanitized

# Beyond this many digits two builds of a numerical library may differ.
DIGITS = 9


def to_json(summary: Summary) -> str:
    """One object of the schema that it names, indented, with a line end.

    Keys are sorted. A missing value is null. docs/FORMAT.md lists what other programs may rely on.
    """
    plain = msgspec.to_builtins(sanitized(summary))
    text = msgspec.json.format(msgspec.json.encode(rounded(plain), order="deterministic"), indent=2)
    return text.decode() + "\n"


def rounded(value: object) -> object:
    """Plain values, with every number rounded to the digits that are equal on all machines."""
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: rounded(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(inner) for inner in value]
    return value
