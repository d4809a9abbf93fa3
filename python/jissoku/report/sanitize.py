"""Sanitizes external strings before they are displayed.

Names, versions and especially a target's stderr may contain terminal sequences, control
characters and bytes that are not UTF-8. Markup is escaped later, by each format.
"""

import re
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import TypeVar

import msgspec

from jissoku.model.updated import updated

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
