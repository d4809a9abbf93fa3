"""Parses responses, and the requests that a proxy forwards, as strictly as RFC 9112 specifies them.

A proxy writes every head anew, so anything unusual in one is an error. This shares no code with any
server or with the load generator, and takes bytes as they come.
"""

import re
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar
from urllib.parse import unquote_to_bytes

# No case has a longer answer; longer ones are not held in memory.
RESPONSE_HEAD_BYTES_MAX = 256 * 1024
REQUEST_HEAD_BYTES_MAX = 1 << 20
BODY_BYTES_MAX = 64 * 1024 * 1024

STATUS_LINE = re.compile(rb"HTTP/(1\.[01]) ([1-9][0-9]{2}) ([\t\x20-\x7e\x80-\xff]*)")
REQUEST_LINE = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+) ([\x21-\x7e\x80-\xff]+) HTTP/(1\.[01])")
FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\t\x20-\x7e\x80-\xff]*)")
CHUNK = re.compile(rb"([0-9A-Fa-f]{1,16})(?:[ \t]*;[\t\x20-\x7e\x80-\xff]*)?")

SWITCHED = 101

# What is left of a body, where that is not a number of bytes.
CHUNKS, TRAILERS, TO_THE_END = "chunks", "trailers", "to the end"


class MalformedMessage(Exception):  # noqa: N818 - describes what was sent
    """The received bytes are not a response, or not a request."""


@dataclass(slots=True, kw_only=True)
class Message:
    """A request or a response; the body grows until it `is_complete`.

    `raw` has its bytes, and after a change of protocol what followed them.
    """

    version: str
    fields: tuple[tuple[str, str], ...]
    body: bytes = b""
    trailers: tuple[tuple[str, str], ...] = ()
    raw: bytearray = field(default_factory=bytearray)
    is_complete: bool = False

    def has(self, name: str) -> bool:
        return any(key.lower() == name.lower() for key, _ in self.fields)

    def value(self, name: str) -> str:
        """The values of a field, joined by commas; "" if there is none."""
        return ", ".join(value for key, value in self.fields if key.lower() == name.lower())


@dataclass(slots=True, kw_only=True)
class Response(Message):
    status: int
    reason: str = ""

    @property
    def is_interim(self) -> bool:
        """Whether a final answer is still to come (RFC 9110 section 15.2)."""
        return self.status < 200

    @property
    def announces_end(self) -> bool:
        """Whether the response announces the end of the connection (RFC 9112 section 9.3)."""
        options = {option.strip().lower() for option in self.value("Connection").split(",")}
        return "close" in options or (self.version == "1.0" and "keep-alive" not in options)


@dataclass(slots=True, kw_only=True)
class ReceivedRequest(Message):
    """One request; `connection` is the number of its connection, from 0."""

    method: str
    target: str
    connection: int = 0


M = TypeVar("M", bound=Message)

# Reads the head at the start of some bytes, and its size; None if it is incomplete.
HeadReader = Callable[[bytes], tuple[M, int] | None]


class MessageReader(Generic[M]):
    """Splits a stream into messages; the last one may be incomplete."""

    def __init__(self, read_head: HeadReader[M]) -> None:
        self._read_head = read_head
        self.messages: list[M] = []
        self._bytes = bytearray()
        # Whether the protocol was switched, so that the bytes after the last message are not HTTP.
        self.is_tunnel = False
        self._left: int | str = 0

    @property
    def pending(self) -> M | None:
        return self.messages[-1] if self.messages and not self.messages[-1].is_complete else None

    def feed(self, data: bytes) -> None:
        """Takes received bytes; MalformedMessage if they are none."""
        self._bytes += data
        while not (self.is_tunnel and self.messages) and self._step():
            pass
        if self.is_tunnel and self.messages:
            self._take(len(self._bytes))

    def _framing(self, head: M) -> int | str:
        """What is left of a message after its head."""
        raise NotImplementedError

    def _step(self) -> bool:
        """Reads one part of a message; whether there was a whole one."""
        message = self.pending
        if message is None:
            found = self._read_head(bytes(self._bytes))
            if found is None:
                return False
            message, size = found
            self._left = self._framing(message)
            self.messages.append(message)
            self._take(size)
        elif self._left == CHUNKS:
            return self._chunk(message)
        elif self._left == TRAILERS:
            return self._trailer(message)
        elif not self._bytes:
            return False
        elif isinstance(self._left, int):
            taken = self._take(min(self._left, len(self._bytes)))
            message.body += taken
            self._left -= len(taken)
        else:
            message.body += self._take(len(self._bytes))
            if len(message.body) > BODY_BYTES_MAX:
                raise MalformedMessage("a body without end")
        message.is_complete = self._left == 0
        return True

    def _take(self, size: int) -> bytes:
        taken = bytes(self._bytes[:size])
        del self._bytes[:size]
        self.messages[-1].raw += taken
        return taken

    def _chunk(self, message: M) -> bool:
        end = self._bytes.find(b"\r\n")
        if end < 0:
            return False
        line = bytes(self._bytes[:end])
        found = CHUNK.fullmatch(line)
        if found is None:
            raise MalformedMessage(f"a chunk begins with {line[:24]!r}")
        size = int(found[1], 16)
        if size == 0:
            self._take(end + 2)
            self._left = TRAILERS
            return True
        if len(self._bytes) < end + size + 4:
            return False
        if self._bytes[end + 2 + size : end + size + 4] != b"\r\n":
            raise MalformedMessage("a chunk is longer than its size")
        message.body += self._take(end + size + 4)[end + 2 : -2]
        return True

    def _trailer(self, message: M) -> bool:
        end = self._bytes.find(b"\r\n")
        if end < 0:
            return False
        if line := self._take(end + 2)[:-2]:
            message.trailers += (_field(line),)
        else:
            message.is_complete = True
        return True


class ResponseReader(MessageReader[Response]):
    def __init__(self, methods: Sequence[str]) -> None:
        """`methods` are those of the requests in order; requests after them count as GET."""
        super().__init__(_response_head)
        self._methods = methods

    @property
    def answers(self) -> list[Response]:
        return [answer for answer in self.messages if answer.is_complete]

    @property
    def finals(self) -> list[Response]:
        return [answer for answer in self.answers if not answer.is_interim]

    def end(self) -> None:
        """The server has closed the connection; MalformedMessage if that cuts an answer."""
        pending = self.pending
        if pending is not None and self._left == TO_THE_END:
            pending.is_complete = True
        elif pending is not None or self._bytes:
            raise MalformedMessage("the connection ends in the middle of an answer")

    def _framing(self, head: Response) -> int | str:
        is_bodiless = head.is_interim or head.status == 204
        left = _framing(head, "an answer", bodiless=head.status if is_bodiless else 0)
        count = len(self.finals)
        method = self._methods[count] if count < len(self._methods) else "GET"
        self.is_tunnel = head.status == SWITCHED
        if is_bodiless or head.status == 304 or method == "HEAD":
            return 0
        return TO_THE_END if left is None else left


def _response_head(data: bytes) -> tuple[Response, int] | None:
    if b"\r\n\r\n" not in data and not b"HTTP/".startswith(data[:5]):
        raise MalformedMessage(f"begins with {data[:24]!r}")
    head = _head(data, STATUS_LINE, "status", RESPONSE_HEAD_BYTES_MAX)
    if head is None:
        return None
    (version, status, reason), fields, size = head
    return Response(version=version, status=int(status), reason=reason, fields=fields), size


def http_head(data: bytes) -> tuple[ReceivedRequest, int] | None:
    """The head of a request of HTTP/1.1 and its size; None if it is incomplete."""
    head = _head(data, REQUEST_LINE, "request", REQUEST_HEAD_BYTES_MAX)
    if head is None:
        return None
    (method, target, version), fields, size = head
    return ReceivedRequest(method=method, target=target, version=version, fields=fields), size


class RequestReader(MessageReader[ReceivedRequest]):
    def __init__(self, read_head: HeadReader[ReceivedRequest] = http_head) -> None:
        super().__init__(read_head)

    def _framing(self, head: ReceivedRequest) -> int | str:
        return _framing(head, "a request") or 0


def _head(
    data: bytes, pattern: re.Pattern[bytes], what: str, bytes_max: int
) -> tuple[list[str], tuple[tuple[str, str], ...], int] | None:
    """The parts of the first line, the fields, and the size."""
    end = data.find(b"\r\n\r\n")
    if end < 0:
        if len(data) > bytes_max:
            raise MalformedMessage("a head without end")
        return None
    line, *rest = data[:end].split(b"\r\n")
    found = pattern.fullmatch(line)
    if found is None:
        raise MalformedMessage(f"the {what} line reads {line[:60]!r}")
    return [text.decode("latin-1") for text in found.groups()], tuple(map(_field, rest)), end + 4


def _field(line: bytes) -> tuple[str, str]:
    found = FIELD.fullmatch(line)
    if found is None:
        raise MalformedMessage(f"a header line reads {line[:60]!r}")
    return found[1].decode("latin-1"), found[2].decode("latin-1").rstrip(" \t")


def _framing(head: Message, what: str, *, bodiless: int = 0) -> int | str | None:
    """The length of a body (RFC 9112 sections 6.1 to 6.3); None if the head does not give it.

    `bodiless` is a status that has none; 0: the message may have one.
    """
    coding, length = head.value("Transfer-Encoding"), head.value("Content-Length")
    has_coding, has_length = head.has("Transfer-Encoding"), head.has("Content-Length")
    if has_coding and has_length:
        raise MalformedMessage(f"{what} has both Content-Length and Transfer-Encoding")
    if bodiless and (has_coding or has_length):
        raise MalformedMessage(f"{what} of {bodiless} speaks of a body")
    if has_length and not re.fullmatch(r"[0-9]{1,18}", length):
        raise MalformedMessage(f"Content-Length reads {length!r}")
    if has_coding and coding.lower() != "chunked":
        raise MalformedMessage(f"Transfer-Encoding reads {coding!r}")
    return CHUNKS if has_coding else int(length) if has_length else None


HEADER = struct.Struct("<BHB")
SIZE = struct.Struct("<H")

# Fields of HTTP whose variables have no prefix.
FIELDS = {"CONTENT_TYPE": "Content-Type", "CONTENT_LENGTH": "Content-Length"}


# Parses requests that a proxy forwards in the uwsgi protocol.
# https://uwsgi-docs.readthedocs.io/en/latest/Protocol.html: a header of four bytes, CGI variables
# (RFC 3875 section 4.1), and the body. A packet is judged by the cases for HTTP, so its variables
# become the fields that they were made of.


def packet_head(data: bytes) -> tuple[ReceivedRequest, int] | None:
    """The request of a packet and its size without the body; None if it is incomplete."""
    if len(data) < HEADER.size:
        return None
    modifier, length, _ = HEADER.unpack_from(data)
    if modifier != 0:
        raise MalformedMessage(f"a packet has the modifier {modifier}")
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
        raise MalformedMessage(f"a packet has no {error.args[0]}") from error
    if not protocol.startswith("HTTP/1."):
        raise MalformedMessage(f"SERVER_PROTOCOL reads {protocol[:20]!r}")
    if unquote_to_bytes(target.partition("?")[0].encode("latin-1")).decode("latin-1") != path:
        raise MalformedMessage(f"PATH_INFO is {path[:60]!r} and REQUEST_URI {target[:60]!r}")
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
            raise MalformedMessage("a packet ends within a length")
        (length,) = SIZE.unpack_from(content, at)
        at += SIZE.size
        if at + length > len(content):
            raise MalformedMessage("a variable is longer than its packet")
        texts.append(content[at : at + length].decode("latin-1"))
        at += length
    if len(texts) % 2:
        raise MalformedMessage(f"{texts[-1][:60]} has no value")
    yield from zip(texts[::2], texts[1::2], strict=True)


def _fields(pairs: list[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    for name, value in pairs:
        if name in FIELDS:
            if value:
                yield FIELDS[name], value
        elif name.startswith("HTTP_") and name.removeprefix("HTTP_") not in FIELDS:
            yield name.removeprefix("HTTP_").replace("_", "-").title(), value
