"""Reads what a proxy sent on one connection, with several parsers of requests.

Each returns the complete requests in order. A parser that rejects a request stops there, which is
safe. If two parsers continue and find different requests, request smuggling is possible.
"""

import importlib.util
import itertools
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from io import BytesIO
from typing import Any
from urllib.parse import unquote_to_bytes

from jissoku.conformance.gateway.request_reader import (
    MalformedRequest,
    ReceivedRequest,
    RequestReader,
)

# Method, target and body.
Request = tuple[str, str, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What one parser found.

    Attributes:
        refused: Why it stopped before the end; empty if it did not.
    """

    requests: tuple[Request, ...]
    refused: str = ""


def stream_readers() -> dict[str, Callable[[bytes], Reading]]:
    """The parsers that are installed, by name."""
    readers: dict[str, Callable[[bytes], Reading]] = {
        "strict": read_strict,
        "http.server": read_http_server,
    }
    if importlib.util.find_spec("h11") is not None:
        readers["h11"] = read_h11
    if importlib.util.find_spec("httptools") is not None:
        readers["httptools"] = read_httptools
    if importlib.util.find_spec("gunicorn") is not None:
        readers["gunicorn"] = read_gunicorn
    return readers


def read_alike(one: Reading, other: Reading) -> bool:
    """Whether two readings agree as far as neither refused."""
    first, second = sorted((one, other), key=lambda reading: len(reading.requests))
    if first.requests != second.requests[: len(first.requests)]:
        return False
    return len(first.requests) == len(second.requests) or bool(first.refused)


def difference(readings: Mapping[str, Reading]) -> str:
    """The first request that two parsers read differently; empty if all agree."""
    for (name, one), (other_name, other) in itertools.combinations(readings.items(), 2):
        if not read_alike(one, other):
            pairs = itertools.zip_longest(one.requests, other.requests)
            first, second = next(pair for pair in pairs if pair[0] != pair[1])
            return f"{name} {_shown(first)}, {other_name} {_shown(second)}"
    return ""


def _shown(request: Request | None) -> str:
    return "nothing" if request is None else f"{request[0]} {request[1]!r} {request[2][:60]!r}"


def read_strict(data: bytes) -> Reading:
    """Parses with the reader of this package."""
    reader, refused = RequestReader(), ""
    try:
        reader.feed(data)
    except MalformedRequest as error:
        refused = str(error)
    found = [(one.method, one.target, one.body) for one in reader.requests if one.is_complete]
    return Reading(requests=tuple(found), refused=refused)


def read_h11(data: bytes) -> Reading:
    """Parses with h11, which uvicorn and hypercorn use."""
    h11: Any = importlib.import_module("h11")
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=1 << 20)
    connection.receive_data(data)
    found: list[Request] = []
    head, body = None, b""
    try:
        while True:
            event = connection.next_event()
            if isinstance(event, h11.Request):
                head, body = event, b""
            elif isinstance(event, h11.Data):
                body += bytes(event.data)
            elif isinstance(event, h11.EndOfMessage) and head is not None:
                found.append((head.method.decode(), head.target.decode("latin-1"), body))
                connection.send(h11.Response(status_code=200, headers=[("Content-Length", "0")]))
                connection.send(h11.EndOfMessage())
                if connection.our_state is not h11.DONE:
                    return Reading(requests=tuple(found), refused="the connection ends")
                connection.start_next_cycle()
            else:
                return Reading(requests=tuple(found))
    except h11.RemoteProtocolError as error:
        return Reading(requests=tuple(found), refused=str(error))


class _Collector:
    """The callbacks of httptools, which requires these names."""

    def __init__(self) -> None:
        self.found: list[Request] = []
        self.parser: Any = None
        self._target, self._body = b"", b""

    def on_message_begin(self) -> None:
        self._target, self._body = b"", b""

    def on_url(self, url: bytes) -> None:
        self._target += url

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        method = self.parser.get_method().decode()
        self.found.append((method, self._target.decode("latin-1"), self._body))


def read_httptools(data: bytes) -> Reading:
    """Parses with httptools, which binds llhttp, the parser of Node."""
    httptools: Any = importlib.import_module("httptools")
    collector = _Collector()
    collector.parser = httptools.HttpRequestParser(collector)
    refused = ""
    try:
        collector.parser.feed_data(data)
    except httptools.HttpParserUpgrade:
        # It treats such a request as complete after its head.
        collector.found.pop()
        refused = "the protocol changes"
    except httptools.HttpParserError as error:
        refused = str(error) or type(error).__name__
    return Reading(requests=tuple(collector.found), refused=refused)


def read_gunicorn(data: bytes) -> Reading:
    """Parses with gunicorn's parser in Python."""
    config: Any = importlib.import_module("gunicorn.config").Config()
    errors: Any = importlib.import_module("gunicorn.http.errors")
    # gunicorn prefers a parser in C if that is installed; this one is the parser in Python.
    config.set("http_parser", "python")
    new_parser: Any = importlib.import_module("gunicorn.http.parser").RequestParser
    parser = new_parser(config, iter([data]), ("127.0.0.1", 0))
    found: list[Request] = []
    try:
        for request in parser:
            body = request.body.read()
            lengths = [int(value) for name, value in request.headers if name == "CONTENT-LENGTH"]
            if lengths and len(body) < lengths[0]:
                return Reading(requests=tuple(found))
            found.append((request.method, request.uri, body))
            if request.should_close():
                return Reading(requests=tuple(found), refused="the connection ends")
    except errors.NoMoreData:
        return Reading(requests=tuple(found))
    except (errors.ParseException, ValueError) as error:
        return Reading(requests=tuple(found), refused=str(error) or type(error).__name__)
    return Reading(requests=tuple(found))


class _Handler(BaseHTTPRequestHandler):
    """The parsing part of the standard library's server."""

    def __init__(self, data: bytes) -> None:
        # The base class would serve a socket.
        self.rfile = BytesIO(data)
        self.wfile = BytesIO()
        self.client_address = ("", 0)
        self.close_connection = False

    def read(self) -> Request | str | None:
        """One request, or the reason of its rejection, or None at the end."""
        self.raw_requestline = self.rfile.readline(65537)
        if not self.raw_requestline:
            return None
        if not self.parse_request():
            return "refused"
        body = self._body()
        # After parsing, it replaces several slashes at the start by one.
        target = self.requestline.split()[1]
        return None if body is None else (self.command, target, body)

    def _body(self) -> bytes | None:
        """Reads a body by Transfer-Encoding, else by Content-Length; None if it is truncated."""
        if "chunked" not in self.headers.get("Transfer-Encoding", "").lower():
            size = int(self.headers.get("Content-Length", "0"))
            body = self.rfile.read(size)
            return body if len(body) == size else None
        body = b""
        while size := int(self.rfile.readline().split(b";")[0] or b"-1", 16):
            if size < 0:
                return None
            body += self.rfile.read(size)
            self.rfile.readline()
        while self.rfile.readline() not in {b"\r\n", b"\n", b""}:
            pass
        return body

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - the base class's
        """Reports nothing."""


def read_http_server(data: bytes) -> Reading:
    """Parses with the server of Python's standard library."""
    handler = _Handler(data)
    found: list[Request] = []
    while True:
        try:
            request = handler.read()
        except ValueError as error:
            return Reading(requests=tuple(found), refused=str(error))
        if request is None:
            return Reading(requests=tuple(found))
        if isinstance(request, str):
            return Reading(requests=tuple(found), refused=request)
        found.append(request)


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
