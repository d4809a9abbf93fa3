"""The common contract of every target: the requests and the expected responses.

Differences in header fields (Date, Server) are counted in bytes and reported; status, type and body
are the same for all targets.
"""

import hashlib
import os
import re
from collections.abc import Sequence
from pathlib import Path

from jissoku.errors import InputError
from jissoku.model import Capability, RawRequest
from jissoku.targets.response import ExpectedResponse

SIZES = {
    "1k.bin": 1024,
    "10k.bin": 10 * 1024,
    "64k.bin": 64 * 1024,
    "100k.bin": 100 * 1024,
    "1m.bin": 1024 * 1024,
}


def content(name: str) -> bytes:
    """The bytes of a file of the contract: SHAKE-256 of its name, which does not compress."""
    return hashlib.shake_256(name.encode()).digest(SIZES[name])


def make_files(folder: Path) -> Path:
    """Creates the contract's files that do not exist yet, and returns the folder."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in SIZES:
            path, right = folder / name, content(name)
            if not path.is_file() or path.read_bytes() != right:
                fresh = path.with_suffix(f".{os.getpid()}")
                fresh.write_bytes(right)
                fresh.replace(path)  # a target that serves the folder never sees half a file
    except OSError as error:
        raise InputError(f"{folder}: files to serve cannot be made: {error.strerror}") from error
    return folder


TEXT = "text/plain"
BINARY = "application/octet-stream"
HELLO = b"Hello, World!"

_HELLO = ExpectedResponse(status=200, content_type=TEXT, body=HELLO)
_E5 = ExpectedResponse(status=200, content_type=TEXT, body=b"42")


def capability(path: str) -> Capability | None:
    """The part of the contract that a path belongs to; None for other paths."""
    if path == "/":
        return Capability.HELLO
    if path == "/42":
        return Capability.ANSWER_42
    if re.fullmatch(r"/delay\?ms=\d{1,5}", path):
        return Capability.DELAY
    if path.startswith("/files/") and path.removeprefix("/files/") in SIZES:
        return Capability.FILES
    return None


def expected_response(path: str) -> ExpectedResponse | None:
    """The expected answer to a GET of a path of the contract; None for other paths."""
    match capability(path):
        case Capability.HELLO | Capability.DELAY:
            return _HELLO
        case Capability.ANSWER_42:
            return _E5
        case Capability.FILES:
            body = content(path.removeprefix("/files/"))
            return ExpectedResponse(status=200, content_type=BINARY, body=body)
        case None:
            return None


CONNECTION = re.compile(rb"^connection:[^\r\n]*\r\n", re.IGNORECASE | re.MULTILINE)


def read_raw_requests(files: Sequence[Path], *, keepalive: bool) -> tuple[RawRequest, ...]:
    """Reads requests; without keep-alive, their Connection fields become `close`."""
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
