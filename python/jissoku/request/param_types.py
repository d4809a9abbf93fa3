"""Types of option values, such as `20k`: functions that read a word, and write it again."""

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import click

TCHARS = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"

SCALES = {"": 1, "k": 1000, "m": 1_000_000}

LEVELS_MAX = 64

# In seconds.
WINDOW_MIN, WINDOW_MAX = 0.5, 86400.0

# As in `p99<10ms`: percentile, limit and unit.
OBJECTIVE = re.compile(r"p(\d{2}(?:\.\d+)?)\s*<\s*(\d+(?:\.\d+)?)(us|ms|s)")


class Written(click.ParamType[Any]):
    """`read` raises ValueError with one sentence; `text` is the way back."""

    def __init__(
        self, name: str, read: Callable[[str], Any], text: Callable[[Any], str] = str
    ) -> None:
        """Names it as help texts do."""
        self.name = name
        self.read = read
        self.text = text

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> Any:
        """Reads the value, or fails with the sentence; a default is read already."""
        if not isinstance(value, str):
            return value
        try:
            return self.read(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def _rate(word: str) -> int:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([km]?)", word.lower())
    rate = round(float(found[1]) * SCALES[found[2]]) if found else 0
    if rate < 1:
        raise ValueError(f"{word!r} is not a rate: write requests per second, as in 20000 or 20k")
    return rate


def _seconds(word: str) -> float:
    number = r"(\d+(?:\.\d+)?)"
    if re.fullmatch(number, word):
        word = f"{word}s"
    units = "".join(f"(?:{number}{unit})?" for unit in ("h", "m(?:in)?", "s", "ms"))
    found = re.fullmatch(units, word)
    parts = zip(found.groups("0"), (3600, 60, 1, 0.001), strict=True) if found else ()
    seconds = sum(float(part) * scale for part, scale in parts)
    if seconds <= 0:
        raise ValueError(f"{word!r} is not a time: write 90s, 2m or 1m30s")
    return seconds


def _window(word: str) -> float:
    seconds = _seconds(word)
    if not WINDOW_MIN <= seconds <= WINDOW_MAX:
        raise ValueError(f"{word!r} is not the length of a window: write 500ms to 24h")
    return seconds


def _part(word: str) -> float:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s?(%?)", word)
    part = float(found[1]) / (100 if found[2] else 1) if found else 0.0
    if not 0 < part < 1:
        raise ValueError(f"{word!r} is not a precision: write 1% or 0.01")
    return part


def _decimal(value: float) -> str:
    """The number without an exponent, exactly as precise."""
    return format(Decimal(repr(value)).normalize(), "f")


def _path(word: str) -> str:
    """The target of a request in origin form (RFC 9112 section 3.2.1)."""
    if not word.startswith("/"):
        raise ValueError(f"{word!r} is not a path: it begins with /, as in /42")
    if found := re.search(r"[^!-~]|#", word):
        code = "".join(f"%{byte:02X}" for byte in found[0].encode(errors="replace"))
        raise ValueError(f"{word!r}: a path contains no {found[0]!r}: write {code}")
    return word


def _method(word: str) -> str:
    """A token (RFC 9110 section 9.1)."""
    if not re.fullmatch(TCHARS, word):
        raise ValueError(f"{word!r} is not a method: write one word, as in POST")
    return word


def _field(word: str) -> tuple[str, str]:
    """A header field (RFC 9110 section 5)."""
    name, colon, rest = word.partition(":")
    if not colon or not re.fullmatch(TCHARS, name) or re.search(r"[\r\n\0]", rest.strip()):
        raise ValueError(f"{word!r} is not a header field: write 'Name: value'")
    return name, rest.strip()


def _label(word: str) -> tuple[str, str]:
    name, equals, text = word.partition("=")
    if not equals or not re.fullmatch(r"[a-z][a-z0-9_-]{0,39}", name) or len(text) > 200:
        raise ValueError(f"{word!r} is not a label: write NAME=TEXT, such as commit=1234")
    return name, text


def _objective(word: str) -> str:
    found = OBJECTIVE.fullmatch(word)
    if not found or not 50 <= float(found[1]) < 100:
        raise ValueError(f"{word!r} is not an objective: write for example p99<10ms")
    return word


def _level(word: str) -> int:
    try:
        return _rate(word)
    except ValueError as error:
        raise ValueError(f"{word!r} is not a level: write whole numbers, as in 1,2,4-8") from error


def _levels(word: str) -> tuple[int, ...]:
    found: list[int] = []
    for part in word.split(","):
        both = re.fullmatch(r"(\d+)-(\d+)", part)
        if both is None:
            found.append(_level(part))
        elif int(both[2]) - int(both[1]) <= LEVELS_MAX:
            found.extend(range(int(both[1]), int(both[2]) + 1))
        else:
            raise ValueError(f"{part!r} is more than {LEVELS_MAX} levels: name fewer")
    return tuple(found)


RATE = Written("rate", _rate)
TIME = Written("time", _seconds, lambda value: f"{_decimal(value)}s")
WINDOW = Written("window", _window, TIME.text)
PERCENTAGE = Written("percentage", _part, _decimal)
PATH = Written("path", _path)
METHOD = Written("method", _method)
FIELD = Written("field", _field, ": ".join)
LABEL = Written("label", _label, "=".join)
LATENCY_OBJECTIVE = Written("objective", _objective)
LEVELS = Written("levels", _levels, lambda value: ",".join(map(str, value)))
