"""Reads TOML files into structs; errors name file, line and key.

Reading is strict: an unknown key is an error, most often a misspelt one.
"""

import re
import tomllib
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from jissoku.errors import InputError

T = TypeVar("T")

Keys = tuple[str | int, ...]


def read(path: Path, shape: type[T], /, **given: str) -> T:
    """A TOML file as one value, with the fields `given`; InputError names file, line and key."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path.name}: it cannot be read: {error}") from error
    try:
        table: dict[str, Any] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(_syntax(path.name, text, str(error))) from error
    for name in given:
        if name in table:
            raise mistake(path.name, text, (name,), "cannot be set in the file")
    _refuse_unknown_keys(path.name, text, table, shape)
    try:
        return msgspec.convert(table | given, shape)
    except msgspec.ValidationError as error:
        # A path as msgspec writes it: `$.prepare[0].command`, in backquotes.
        message, _, where = str(error).partition(" - at ")
        found = re.findall(r"\.(\w+)|\[(\d+|\.\.\.)\]", where)
        keys = tuple(name or (int(index) if index.isdigit() else 0) for name, index in found)
        unavailable = re.search(r"missing required field `(\w+)`", message)
        if unavailable:
            raise mistake(path.name, text, (*keys, unavailable[1]), "is missing") from error
        message = message[:1].lower() + message[1:]
        raise mistake(path.name, text, keys, message) from error


def mistake(name: str, text: str, keys: Keys, message: str) -> InputError:
    """An error about a key of a file, in one sentence; `keys` is the path to it from the top."""
    shown = ".".join(str(key) for key in keys if isinstance(key, str))
    return InputError(f"{name}, line {line_of(text, keys)}, key `{shown}`: {message}")


def line_of(text: str, keys: Keys) -> int:
    """The line (from 1) of a key, or if it is missing of the innermost table around it."""
    lines = text.splitlines()
    headers = [at for at, found in enumerate(lines) if re.match(r"\s*\[", found)]
    first, last, line = 0, min(headers, default=len(lines)), 1
    for depth, key in enumerate(keys):
        if isinstance(key, int):
            continue
        later = keys[depth + 1] if depth + 1 < len(keys) else 0
        index = later if isinstance(later, int) else 0
        table = re.compile(rf"\s*\[\[?\s*(?:[\w.-]+\.)?{re.escape(key)}\s*\]")
        assigned = re.compile(rf"""\s*["']?{re.escape(key)}["']?\s*[.=]""")
        found = [at for at in range(first, len(lines)) if table.match(lines[at])]
        found = found[index : index + 1] or [
            at for at in range(first, last) if assigned.match(lines[at])
        ]
        if not found:
            break
        first, line = found[0], found[0] + 1
        last = min((at for at in headers if at > first), default=len(lines))
    return line


def _syntax(name: str, text: str, message: str) -> str:
    """A message with the place of a syntax error: the parser's line, and the key on it."""
    message, _, where = message.partition(" (at ")
    place = re.match(r"line (\d+)", where)
    line = int(place[1]) if place else max(1, len(text.splitlines()))
    lines = text.splitlines() or [""]
    key = next(
        (
            found[1]
            for at in range(min(line, len(lines)), 0, -1)
            if (found := re.match(r"\s*\[*\s*([\w.-]+)\s*(?:[=\]]|$)", lines[at - 1]))
        ),
        "",
    )
    near = f", key `{key}`" if key else ""
    return f"{name}, line {line}{near}: {message[:1].lower()}{message[1:]}"


def _refuse_unknown_keys(
    name: str, text: str, table: dict[str, Any], shape: Any, above: Keys = ()
) -> None:
    hints = get_type_hints(shape)
    for key, value in table.items():
        if key not in shape.__struct_fields__:
            known = ", ".join(sorted(shape.__struct_fields__))
            raise mistake(name, text, (*above, key), f"is not known; there are {known}")
        inner = hints[key]
        if get_origin(inner) is tuple and isinstance(value, list):
            inner = get_args(inner)[0]
            below = [((*above, key, index), item) for index, item in enumerate(value)]
        else:
            below = [((*above, key), value)]
        for keys, item in below:
            if hasattr(inner, "__struct_fields__") and isinstance(item, dict):
                _refuse_unknown_keys(name, text, item, inner, keys)
