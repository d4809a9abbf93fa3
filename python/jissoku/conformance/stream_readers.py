"""Mutated requests, drawn from a seed, and what several parsers read of what a proxy sent for them.

Each parser returns the complete requests in order. A parser that rejects a request stops there,
which is safe. If two parsers continue and find different requests, request smuggling is possible.
"""

import importlib.util
import itertools
import random
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from importlib.resources import files
from io import BytesIO
from typing import Any

from jissoku.conformance.messages import MalformedMessage, RequestReader

_TEXT = files("jissoku.conformance").joinpath("mutations.toml").read_text(encoding="utf-8")
_DATA = tomllib.loads(_TEXT)
BASES: tuple[bytes, ...] = tuple(text.encode("latin-1") for text in _DATA["bases"])
TOKENS: tuple[bytes, ...] = tuple(text.encode("latin-1") for text in _DATA["tokens"])


def mutated_requests(count: int, seed: int) -> Iterator[bytes]:
    rng = random.Random(seed)
    for number in range(count):
        data = rng.choice(BASES)
        for _ in range(rng.randint(1, 3)):
            data = _changed(data, rng)
        yield data.replace(b"%", b"q%05dq" % number)


def _changed(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data) + 1)
    kind = rng.randrange(6)
    if kind == 0:
        return data[:at] + rng.choice(TOKENS) + data[at:]
    if kind == 1:
        # At the start of a line most tokens have a meaning.
        lines = data.split(b"\r\n")
        lines.insert(rng.randrange(len(lines)), rng.choice(TOKENS).removesuffix(b"\r\n"))
        return b"\r\n".join(lines)
    if kind == 2:
        return data[:at] + data[at + rng.randint(1, 3) :]
    if kind == 3:
        return data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]
    if kind == 4:
        lines = data.split(b"\r\n")
        lines.insert(rng.randrange(len(lines)), rng.choice(lines))
        return b"\r\n".join(lines)
    return data[:at] + data[at : at + 1].swapcase() + data[at + 1 :]


# Method, target and body.
Request = tuple[str, str, bytes]


@dataclass(frozen=True, slots=True)
class Reading:
    """What one parser found, and why it stopped before the end; empty if it did not."""

    requests: tuple[Request, ...]
    refused: str = ""


def agree(one: Reading, other: Reading) -> bool:
    """Whether two readings agree as far as neither refused."""
    first, second = sorted((one, other), key=lambda reading: len(reading.requests))
    if first.requests != second.requests[: len(first.requests)]:
        return False
    return len(first.requests) == len(second.requests) or bool(first.refused)


def difference(readings: Mapping[str, Reading]) -> str:
    """The first request that two parsers read differently; empty if all agree."""
    for (name, one), (other_name, other) in itertools.combinations(readings.items(), 2):
        if not agree(one, other):
            pairs = itertools.zip_longest(one.requests, other.requests)
            first, second = next(pair for pair in pairs if pair[0] != pair[1])
            return f"{name} {_shown(first)}, {other_name} {_shown(second)}"
    return ""


def _shown(request: Request | None) -> str:
    return "nothing" if request is None else f"{request[0]} {request[1]!r} {request[2][:60]!r}"


def read_strict(data: bytes) -> Reading:
    reader, refused = RequestReader(), ""
    try:
        reader.feed(data)
    except MalformedMessage as error:
        refused = str(error)
    found = [(one.method, one.target, one.body) for one in reader.messages if one.is_complete]
    return Reading(tuple(found), refused)


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
                    return Reading(tuple(found), "the connection ends")
                connection.start_next_cycle()
            else:
                return Reading(tuple(found))
    except h11.RemoteProtocolError as error:
        return Reading(tuple(found), str(error))


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
    return Reading(tuple(collector.found), refused)


def read_gunicorn(data: bytes) -> Reading:
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
                return Reading(tuple(found))
            found.append((request.method, request.uri, body))
            if request.should_close():
                return Reading(tuple(found), "the connection ends")
    except errors.NoMoreData:
        return Reading(tuple(found))
    except (errors.ParseException, ValueError) as error:
        return Reading(tuple(found), str(error) or type(error).__name__)
    return Reading(tuple(found))


class _Handler(BaseHTTPRequestHandler):
    """The parsing part of the standard library's server; the base class would serve a socket."""

    def __init__(self, data: bytes) -> None:
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
    handler = _Handler(data)
    found: list[Request] = []
    while True:
        try:
            request = handler.read()
        except ValueError as error:
            return Reading(tuple(found), str(error))
        if request is None:
            return Reading(tuple(found))
        if isinstance(request, str):
            return Reading(tuple(found), request)
        found.append(request)


READERS: dict[str, Callable[[bytes], Reading]] = {
    "strict": read_strict,
    "http.server": read_http_server,
    "h11": read_h11,
    "httptools": read_httptools,
    "gunicorn": read_gunicorn,
}


def stream_readers() -> dict[str, Callable[[bytes], Reading]]:
    """The parsers that are installed, by name."""
    return {
        name: read
        for name, read in READERS.items()
        if name == "strict" or importlib.util.find_spec(name) is not None
    }
