"""Raw requests from files."""

import re
from collections.abc import Sequence
from pathlib import Path

from jissoku.errors import InputError
from jissoku.model import RawRequest

CONNECTION = re.compile(rb"^connection:[^\r\n]*\r\n", re.IGNORECASE | re.MULTILINE)


def read_raw_requests(files: Sequence[Path], *, keepalive: bool) -> tuple[RawRequest, ...]:
    """Reads requests; without keep-alive, `Connection: close` replaces their Connection fields.

    Raises:
        InputError: A file cannot be read or is not a request, or two have the same name.
    """
    found = tuple(_read(file, keepalive=keepalive) for file in files)
    names = [shape.name for shape in found]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"--raw: two files are called {name!r}: rename one of them")
    return found


def _read(file: Path, *, keepalive: bool) -> RawRequest:
    try:
        text = file.read_bytes()
    except OSError as error:
        raise InputError(f"--raw {file}: {error.strerror}") from error
    head, empty, rest = text.partition(b"\r\n\r\n")
    if not empty:
        raise InputError(f"--raw {file}: a request ends with an empty line, and lines with CRLF")
    if not keepalive:
        head = CONNECTION.sub(b"", head + b"\r\n") + b"Connection: close"
    return RawRequest(name=file.stem, text=head + empty + rest)
