"""Records as JSON files: written atomically, read by type and schema.

Whatever reads or writes records raises an `InputError` that names the file, and the line if it has
several records: it cannot be read or written, or is malformed, or its schema is unknown here.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from jissoku.errors import InputError

Record = TypeVar("Record")


class _Versioned(msgspec.Struct, frozen=True):
    """The part of a record that names its schema."""

    schema: str = ""


def decoded(raw: bytes, kind: type[Record], *, where: str) -> Record:
    """Reads one record.

    Args:
        raw: Its JSON.
        kind: A type; if it has a `schema`, the record's must be the same.
        where: File, and line if it has several records, for the message.
    """
    try:
        wanted = _schema(kind)  # type: ignore[arg-type]
        found = msgspec.json.decode(raw, type=_Versioned).schema if wanted else ""
        if found != wanted:
            raise InputError(f"{where}: schema {found!r}; this version reads {wanted!r}")
        return msgspec.json.decode(raw, type=kind)
    except msgspec.MsgspecError as error:
        raise InputError(f"{where}: not a record: {error}") from error


def load(path: Path, kind: type[Record]) -> Record | None:
    """Reads a file that holds one record; None if there is no such file."""
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    return decoded(raw, kind, where=str(path))


@contextmanager
def writing(place: Path, kind: str = "") -> Iterator[None]:
    """The block writes a file or into a folder, which may not hold this kind of record yet."""
    try:
        yield
    except OSError as error:
        if kind and isinstance(error, FileExistsError):
            raise InputError(f"{place} holds {kind} already: choose another --out") from None
        raise InputError(f"{place} cannot be written: {error.strerror}") from error


def replace_file(path: Path, record: object) -> None:
    """Writes a file atomically: a reader finds the old one or the new one.

    Raises:
        OSError: It cannot be written.
    """
    new = path.with_name(f"{path.name}.new")
    new.write_bytes(_encoded(record))
    new.replace(path)


def create_file(path: Path, record: object) -> None:
    """Writes a file that must not exist yet.

    Raises:
        OSError: It exists, or cannot be written.
    """
    with path.open("xb") as file:
        file.write(_encoded(record))


def _encoded(record: object) -> bytes:
    """A record as a file holds it: indented, with a line end."""
    return msgspec.json.format(msgspec.json.encode(record), indent=2) + b"\n"


@cache
def _schema(kind: Any) -> str:
    """The schema that a type's records name; empty if they name none, as a plain dict."""
    is_record = isinstance(kind, type) and issubclass(kind, msgspec.Struct)
    fields = msgspec.structs.fields(kind) if is_record else ()
    return str({field.name: field.default for field in fields}.get("schema", ""))
