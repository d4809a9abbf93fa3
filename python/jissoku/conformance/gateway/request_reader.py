"""Parses the requests that a proxy forwards, as strictly as RFC 9112 specifies them.

A proxy writes every head anew, so anything unusual in one is an error. It shares no code with any
server, and takes bytes as they come.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field

REQUEST_LINE = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+) ([\x21-\x7e\x80-\xff]+) HTTP/(1\.[01])")
FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\t\x20-\x7e\x80-\xff]*)")
CHUNK = re.compile(rb"([0-9A-Fa-f]{1,16})(?:[ \t]*;[\t\x20-\x7e\x80-\xff]*)?")

HEAD_BYTES_MAX = 1 << 20


class MalformedRequest(Exception):  # noqa: N818 - describes what a proxy sent
    """The forwarded bytes are not a request."""


@dataclass(slots=True, kw_only=True)
class ReceivedRequest:
    """One request as it arrived; the body grows until `is_complete`.

    Attributes:
        raw: Its bytes, and after a change of protocol what followed them.
        connection: Number of its connection, from 0.
    """

    method: str
    target: str
    version: str
    fields: tuple[tuple[str, str], ...]
    connection: int = 0
    body: bytes = b""
    trailers: tuple[tuple[str, str], ...] = ()
    raw: bytearray = field(default_factory=bytearray)
    is_complete: bool = False

    def has(self, name: str) -> bool:
        return any(key.lower() == name.lower() for key, _ in self.fields)

    def value(self, name: str) -> str:
        """The values of a field, joined by commas; "" if there is none."""
        return ", ".join(value for key, value in self.fields if key.lower() == name.lower())


# Reads the head at the start of some bytes, and its size; None if it is incomplete.
HeadReader = Callable[[bytes], tuple[ReceivedRequest, int] | None]


def http_head(data: bytes) -> tuple[ReceivedRequest, int] | None:
    """The head of a request of HTTP/1.1 and its size; None if it is incomplete.

    Raises:
        MalformedRequest: It is none.
    """
    end = data.find(b"\r\n\r\n")
    if end < 0:
        if len(data) > HEAD_BYTES_MAX:
            raise MalformedRequest("a head without end")
        return None
    line, *rest = data[:end].split(b"\r\n")
    found = REQUEST_LINE.fullmatch(line)
    if found is None:
        raise MalformedRequest(f"the request line reads {line[:60]!r}")
    method, target, version = (text.decode("latin-1") for text in found.groups())
    fields = tuple(map(_field, rest))
    request = ReceivedRequest(method=method, target=target, version=version, fields=fields)
    return request, end + 4


class RequestReader:
    def __init__(self, read_head: HeadReader = http_head) -> None:
        self._read_head = read_head
        self.requests: list[ReceivedRequest] = []
        self.is_tunnel = False
        self._bytes = bytearray()
        # The rest of the last request's body: a number of bytes, or "chunk", "trailers".
        self._left: int | str = 0

    def feed(self, data: bytes) -> None:
        """Takes received bytes.

        Raises:
            MalformedRequest: They are not a request.
        """
        if self.is_tunnel and self.requests:
            self.requests[-1].raw += data
            return
        self._bytes += data
        while self._step():
            pass

    def _step(self) -> bool:
        if not self.requests or self.requests[-1].is_complete:
            return self._head()
        if self._left == "chunk":
            return self._chunk()
        if self._left == "trailers":
            return self._trailers()
        assert isinstance(self._left, int)
        return self._content(self._left)

    def _take(self, size: int) -> bytes:
        taken = bytes(self._bytes[:size])
        del self._bytes[:size]
        self.requests[-1].raw += taken
        return taken

    def _head(self) -> bool:
        found = self._read_head(bytes(self._bytes))
        if found is None:
            return False
        request, size = found
        self._left = _framing(request)
        self.requests.append(request)
        self._take(size)
        if self._left == 0:
            request.is_complete = True
        return True

    def _content(self, left: int) -> bool:
        if not self._bytes:
            return False
        taken = self._take(min(left, len(self._bytes)))
        self.requests[-1].body += taken
        self._left = left - len(taken)
        if self._left == 0:
            self.requests[-1].is_complete = True
        return True

    def _chunk(self) -> bool:
        end = self._bytes.find(b"\r\n")
        if end < 0:
            return False
        found = CHUNK.fullmatch(bytes(self._bytes[:end]))
        if found is None:
            raise MalformedRequest(f"a chunk begins with {bytes(self._bytes[:end])[:24]!r}")
        size = int(found[1], 16)
        if size == 0:
            self._take(end + 2)
            self._left = "trailers"
            return True
        if len(self._bytes) < end + size + 4:
            return False
        if self._bytes[end + 2 + size : end + size + 4] != b"\r\n":
            raise MalformedRequest("a chunk is longer than its size")
        self.requests[-1].body += self._take(end + size + 4)[end + 2 : -2]
        return True

    def _trailers(self) -> bool:
        end = self._bytes.find(b"\r\n")
        if end < 0:
            return False
        line = self._take(end + 2)[:-2]
        if line:
            self.requests[-1].trailers += (_field(line),)
        else:
            self.requests[-1].is_complete = True
        return True


def _field(line: bytes) -> tuple[str, str]:
    found = FIELD.fullmatch(line)
    if found is None:
        raise MalformedRequest(f"a header line reads {line[:60]!r}")
    return found[1].decode("latin-1"), found[2].decode("latin-1").rstrip(" \t")


def _framing(request: ReceivedRequest) -> int | str:
    """RFC 9112 section 6.3: the length of a request's body."""
    if request.has("Transfer-Encoding"):
        if request.has("Content-Length"):
            raise MalformedRequest("a request has both Content-Length and Transfer-Encoding")
        if request.value("Transfer-Encoding").lower() != "chunked":
            raise MalformedRequest(f"Transfer-Encoding reads {request.value('Transfer-Encoding')}")
        return "chunk"
    if not request.has("Content-Length"):
        return 0
    length = request.value("Content-Length")
    if not re.fullmatch(r"[0-9]{1,18}", length):
        raise MalformedRequest(f"Content-Length reads {length!r}")
    return int(length)
