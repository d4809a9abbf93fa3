"""The common contract of every target: what is asked, and the only right answer.

Differences that a field or two make (a Date, a Server) are counted in bytes and reported; status,
type and body are the same for everybody.
"""

import re

from jissoku.model import Part
from jissoku.targets import files
from jissoku.targets.answer import Expected

TEXT = "text/plain"
BINARY = "application/octet-stream"
HELLO = b"Hello, World!"

_HELLO = Expected(status=200, content_type=TEXT, body=HELLO)
_E5 = Expected(status=200, content_type=TEXT, body=b"42")


def part(path: str) -> Part | None:
    """The part of the contract that a path belongs to; None for everything outside it."""
    if path == "/":
        return Part.HELLO
    if path == "/42":
        return Part.E5
    if re.fullmatch(r"/delay\?ms=\d{1,5}", path):
        return Part.DELAY
    if path.startswith("/files/") and path.removeprefix("/files/") in files.SIZES:
        return Part.FILES
    return None


def expected(path: str) -> Expected | None:
    """The right answer to a GET of a path of the contract; None for everything outside it."""
    match part(path):
        case Part.HELLO | Part.DELAY:
            return _HELLO
        case Part.E5:
            return _E5
        case Part.FILES:
            body = files.content(path.removeprefix("/files/"))
            return Expected(status=200, content_type=BINARY, body=body)
        case None:
            return None
