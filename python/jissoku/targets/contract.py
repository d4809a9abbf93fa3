"""The common contract of every target: the requests and the expected responses.

Differences in header fields (Date, Server) are counted in bytes and reported; status, type and body
are the same for all targets.
"""

import re

from jissoku.model import Capability
from jissoku.targets import files
from jissoku.targets.response import ExpectedResponse

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
    if path.startswith("/files/") and path.removeprefix("/files/") in files.SIZES:
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
            body = files.content(path.removeprefix("/files/"))
            return ExpectedResponse(status=200, content_type=BINARY, body=body)
        case None:
            return None
