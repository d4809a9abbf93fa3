"""Parses responses, and the requests that a proxy forwards, as strictly as RFC 9112 specifies them.

A proxy writes every head anew, so anything unusual in one is an error. This shares no code with any
server or with the load generator, and takes bytes as they come.
"""

import re
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from urllib.parse import unquote_to_bytes

# No case has a longer answer; longer ones are not held in memory.
RESPONSE_HEAD_BYTES_MAX = 256 * 1024
BODY_BYTES_MAX = 64 * 1024 * 1024

STATUS_LINE = re.compile(rb"HTTP/(1\.[01]) ([1-9][0-9]{2}) [\t\x20-\x7e\x80-\xff]*")
FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\t\x20-\x7e\x80-\xff]*)")
CHUNK = re.compile(rb"([0-9A-Fa-f]{1,16})(?:[ \t]*;[\t\x20-\x7e\x80-\xff]*)?")

WITHOUT_BODY = {204, 304}
SWITCHED = 101


class MalformedResponse(Exception):  # noqa: N818 - describes what a server sent
    """The received bytes are not a response."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """One answer, interim or final."""

    version: str
    status: int
    fields: tuple[tuple[str, str], ...]
    body: bytes = b""

    @property
    def is_interim(self) -> bool:
        """Whether a final answer is still to come (RFC 9110 section 15.2)."""
        return self.status < 200

    def has(self, name: str) -> bool:
        return any(key.lower() == name.lower() for key, _ in self.fields)

    def value(self, name: str) -> str:
        """The values of a field, joined by commas; "" if there is none."""
        return ", ".join(value for key, value in self.fields if key.lower() == name.lower())

    @property
    def announces_end(self) -> bool:
        """Whether the response announces the end of the connection (RFC 9112 section 9.3)."""
        options = {option.strip().lower() for option in self.value("Connection").split(",")}
        return "close" in options or (self.version == "1.0" and "keep-alive" not in options)


class Reader:
    def __init__(self, methods: Sequence[str]) -> None:
        """`methods` are those of the requests in order; requests after them count as GET."""
        self.answers: list[Response] = []
        self._methods = methods
        self._bytes = b""
        # The head that was read, while its body is incomplete.
        self._head: Response | None = None

    @property
    def pending(self) -> Response | None:
        """The head of an answer whose body is incomplete."""
        return self._head

    @property
    def is_tunnel(self) -> bool:
        """Whether the protocol was switched, so that the bytes after it are not HTTP."""
        return bool(self.answers) and self.answers[-1].status == SWITCHED

    @property
    def finals(self) -> list[Response]:
        return [answer for answer in self.answers if not answer.is_interim]

    def feed(self, data: bytes) -> None:
        """Takes received bytes.

        Raises:
            Garbled: They are not a response.
        """
        self._bytes += data
        while self._step():
            pass

    def end(self) -> None:
        """The server has closed the connection.

        Raises:
            Garbled: It did so in the middle of an answer.
        """
        if self._head is not None and not _has_framing(self._head):
            self._finish(self._bytes)
            self._bytes = b""
        if self._head is not None or (self._bytes and not self.is_tunnel):
            raise MalformedResponse("the connection ends in the middle of an answer")

    def _step(self) -> bool:
        if self.is_tunnel:
            return False
        if self._head is None:
            end = self._bytes.find(b"\r\n\r\n")
            if end < 0:
                self._refuse_early()
                return False
            self._head = _read_head(self._bytes[:end])
            self._bytes = self._bytes[end + 4 :]
        return self._read_body(self._head)

    def _refuse_early(self) -> None:
        """Raises an error if the bytes cannot be the beginning of a response."""
        front = self._bytes[:5]
        if not b"HTTP/".startswith(front):
            raise MalformedResponse(f"begins with {self._bytes[:24]!r}")
        if len(self._bytes) > RESPONSE_HEAD_BYTES_MAX:
            raise MalformedResponse("a head without end")

    def _read_body(self, head: Response) -> bool:
        count = len(self.finals)
        method = self._methods[count] if count < len(self._methods) else "GET"
        if head.is_interim or head.status in WITHOUT_BODY or method == "HEAD":
            self._finish(b"")
            return bool(self._bytes)
        if head.has("Transfer-Encoding"):
            return self._read_chunks()
        if head.has("Content-Length"):
            size = int(head.value("Content-Length"))
            if len(self._bytes) < size:
                return False
            self._finish(self._bytes[:size])
            self._bytes = self._bytes[size:]
            return bool(self._bytes)
        if len(self._bytes) > BODY_BYTES_MAX:
            raise MalformedResponse("a body without end")
        return False

    def _read_chunks(self) -> bool:
        """From the first chunk each time: bodies of answers to cases are short."""
        at, body = 0, b""
        while (end := self._bytes.find(b"\r\n", at)) >= 0:
            found = CHUNK.fullmatch(self._bytes[at:end])
            if found is None:
                raise MalformedResponse(f"a chunk begins with {self._bytes[at:end][:24]!r}")
            size, at = int(found[1], 16), end + 2
            if size == 0:
                return self._read_trailers(at, body)
            if len(self._bytes) < at + size + 2:
                break
            if self._bytes[at + size : at + size + 2] != b"\r\n":
                raise MalformedResponse("a chunk is longer than its size")
            body += self._bytes[at : at + size]
            at += size + 2
        return False

    def _read_trailers(self, at: int, body: bytes) -> bool:
        while (end := self._bytes.find(b"\r\n", at)) >= 0:
            line, at = self._bytes[at:end], end + 2
            if not line:
                self._bytes = self._bytes[at:]
                self._finish(body)
                return bool(self._bytes)
            _read_field(line)
        return False

    def _finish(self, body: bytes) -> None:
        head = self._head
        assert head is not None, "a body follows its head"
        self.answers.append(
            Response(version=head.version, status=head.status, fields=head.fields, body=body)
        )
        self._head = None


def _has_framing(head: Response) -> bool:
    return head.has("Transfer-Encoding") or head.has("Content-Length")


def _read_head(head: bytes) -> Response:
    line, *rest = head.split(b"\r\n")
    found = STATUS_LINE.fullmatch(line)
    if found is None:
        raise MalformedResponse(f"the status line reads {line[:60]!r}")
    fields = tuple(_read_field(field) for field in rest)
    answer = Response(version=found[1].decode(), status=int(found[2]), fields=fields)
    _check_framing(answer)
    return answer


def _read_field(line: bytes) -> tuple[str, str]:
    found = FIELD.fullmatch(line)
    if found is None:
        raise MalformedResponse(f"a header line reads {line[:60]!r}")
    return found[1].decode("latin-1"), found[2].decode("latin-1").rstrip(" \t")


def _check_framing(answer: Response) -> None:
    """RFC 9112 sections 6.1 and 6.2: what a sender must not send."""
    coding, length = answer.value("Transfer-Encoding"), answer.value("Content-Length")
    if answer.has("Transfer-Encoding") and answer.has("Content-Length"):
        raise MalformedResponse("an answer has both Content-Length and Transfer-Encoding")
    if (answer.is_interim or answer.status == 204) and _has_framing(answer):
        raise MalformedResponse(f"an answer of {answer.status} speaks of a body")
    if answer.has("Content-Length") and not re.fullmatch(r"[0-9]{1,18}", length):
        raise MalformedResponse(f"Content-Length reads {length!r}")
    if answer.has("Transfer-Encoding") and coding.lower() != "chunked":
        raise MalformedResponse(f"Transfer-Encoding reads {coding!r}")


REQUEST_LINE = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+) ([\x21-\x7e\x80-\xff]+) HTTP/(1\.[01])")

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
    fields = tuple(map(_request_field, rest))
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
            self.requests[-1].trailers += (_request_field(line),)
        else:
            self.requests[-1].is_complete = True
        return True


def _request_field(line: bytes) -> tuple[str, str]:
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


HEADER = struct.Struct("<BHB")
SIZE = struct.Struct("<H")

# Fields of HTTP whose variables have no prefix.
FIELDS = {"CONTENT_TYPE": "Content-Type", "CONTENT_LENGTH": "Content-Length"}


# Parses requests that a proxy forwards in the uwsgi protocol.
# https://uwsgi-docs.readthedocs.io/en/latest/Protocol.html: a header of four bytes, CGI variables
# (RFC 3875 section 4.1), and the body. A packet is judged by the cases for HTTP, so its variables
# become the fields that they were made of.


def packet_head(data: bytes) -> tuple[ReceivedRequest, int] | None:
    """The request of a packet and its size without the body; None if it is incomplete.

    Raises:
        MalformedRequest: It is no packet of a request, or its variables contradict each other.
    """
    if len(data) < HEADER.size:
        return None
    modifier, length, _ = HEADER.unpack_from(data)
    if modifier != 0:
        raise MalformedRequest(f"a packet has the modifier {modifier}")
    size = HEADER.size + length
    if len(data) < size:
        return None
    pairs = list(_pairs(data[HEADER.size : size]))
    variables = dict(pairs)
    try:
        method, target = variables["REQUEST_METHOD"], variables["REQUEST_URI"]
        path, protocol = variables["PATH_INFO"], variables["SERVER_PROTOCOL"]
        variables["CONTENT_LENGTH"]
    except KeyError as error:
        raise MalformedRequest(f"a packet has no {error.args[0]}") from error
    if not protocol.startswith("HTTP/1."):
        raise MalformedRequest(f"SERVER_PROTOCOL reads {protocol[:20]!r}")
    if unquote_to_bytes(target.partition("?")[0].encode("latin-1")).decode("latin-1") != path:
        raise MalformedRequest(f"PATH_INFO is {path[:60]!r} and REQUEST_URI {target[:60]!r}")
    request = ReceivedRequest(
        method=method,
        target=target,
        version=protocol.removeprefix("HTTP/"),
        fields=tuple(_fields(pairs)),
    )
    return request, size


def _pairs(content: bytes) -> Iterator[tuple[str, str]]:
    texts = []
    at = 0
    while at < len(content):
        if at + SIZE.size > len(content):
            raise MalformedRequest("a packet ends within a length")
        (length,) = SIZE.unpack_from(content, at)
        at += SIZE.size
        if at + length > len(content):
            raise MalformedRequest("a variable is longer than its packet")
        texts.append(content[at : at + length].decode("latin-1"))
        at += length
    if len(texts) % 2:
        raise MalformedRequest(f"{texts[-1][:60]} has no value")
    yield from zip(texts[::2], texts[1::2], strict=True)


def _fields(pairs: list[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    for name, value in pairs:
        if name in FIELDS:
            if value:
                yield FIELDS[name], value
        elif name.startswith("HTTP_") and name.removeprefix("HTTP_") not in FIELDS:
            yield name.removeprefix("HTTP_").replace("_", "-").title(), value
