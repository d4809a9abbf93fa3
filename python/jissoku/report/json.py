"""The summary as JSON, in one stable order."""

import math

import msgspec

from jissoku.model import Summary
from jissoku.report.scrub import scrubbed

# Beyond this many digits two builds of a numerical library may differ.
DIGITS = 9


def to_json(summary: Summary) -> str:
    """One object of schema `jissoku.summary/1`, indented, with a line end.

    Fields stand in the order in which the nouns define them. A figure that does not exist is null.
    """
    plain = msgspec.to_builtins(scrubbed(summary))
    text = msgspec.json.format(msgspec.json.encode(rounded(plain), order="deterministic"), indent=2)
    return text.decode() + "\n"


def rounded(value: object) -> object:
    """Plain values with every figure cut to as many digits as all machines agree on."""
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: rounded(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(inner) for inner in value]
    return value
