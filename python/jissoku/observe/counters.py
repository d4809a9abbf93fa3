"""What requests make a server do: system calls by name, connections and segments, per request.

Counted in trials of their own: watching every call slows a server several times over, so nothing is
timed here. The requests go out one at a time from a client of our own, so their number is exact.
"""

import http.client
import socket
import struct
from collections import Counter
from contextlib import closing
from dataclasses import dataclass

import psutil

from jissoku.model import CounterReadings
from jissoku.observe.strace import Trace

REQUESTS = 400
CONNECTIONS = 4
REQUEST_LIMIT_S = 5.0

# struct tcp_info of linux/tcp.h: data segments that came in, and bytes received.
SEGMENTS_AT = 152
BYTES_AT = 128
TCP_INFO_BYTES = 160


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestSpec:
    """What is asked, and where.

    Attributes:
        address: Host and port, or the path of a Unix socket.
        target: Path and query.
    """

    address: tuple[str, int] | str
    target: str
    fields: tuple[tuple[str, str], ...] = ()
    method: str = "GET"
    body: bytes = b""


class RequestFailed(Exception):  # noqa: N818 - caught by the one who drives the probe
    """The server did not answer the probe's requests; the message says what came instead."""


def count_requests(root: int, asked: RequestSpec) -> CounterReadings:
    """Asks a running server some hundred times, and counts what its processes did meanwhile.

    Args:
        root: Its first process; all its descendants are watched.

    Raises:
        CannotAsk: A request was not answered.
    """
    with closing(_Client(asked)) as client:
        # What is done once only, such as a first look at a file, is not counted.
        client.send_requests(CONNECTIONS)
        client.close()
        return _count_traced(root, client)


def _count_traced(root: int, client: "_Client") -> CounterReadings:
    trace = Trace(_process_tree(root))
    try:
        reason = trace.attached()
        client.send_requests(REQUESTS)
    finally:
        found = trace.ended()
    return _counter_readings(client, {} if reason else found, reason)


def _counter_readings(client: "_Client", syscalls: dict[str, int], reason: str) -> CounterReadings:
    per_request = {name: number / REQUESTS for name, number in sorted(syscalls.items())}
    for name, number in client.counters().items():
        per_request[name] = number / REQUESTS
    if not syscalls and not reason:
        reason = "strace counted no call at all, which cannot be: it was not let watch"
    return CounterReadings(requests=REQUESTS, per_request=per_request, syscalls_reason=reason)


def _process_tree(root: int) -> list[int]:
    try:
        first = psutil.Process(root)
        return [root, *(child.pid for child in first.children(recursive=True))]
    except psutil.NoSuchProcess as error:
        raise RequestFailed("it died before it was watched") from error


class _Client:
    """Asks one request after the other, in turn over a few connections that it keeps open."""

    def __init__(self, asked: RequestSpec) -> None:
        self._asked = asked
        self._open: list[_Connection] = []
        self._turn = 0
        self._seen: Counter[str] = Counter()

    def send_requests(self, requests: int) -> None:
        """Sends this many requests; the server decides when a connection ends."""
        for _ in range(requests):
            if len(self._open) < CONNECTIONS:
                self._open.append(_Connection(self._asked.address))
            connection = self._open[self._turn % len(self._open)]
            self._turn += 1
            try:
                self._one(connection)
            except (OSError, http.client.HTTPException) as error:
                raise RequestFailed(f"{self._asked.target} was not answered: {error}") from error

    def _one(self, connection: "_Connection") -> None:
        """Asks once; anew where the server has ended the connection without a word before."""
        was_open = connection.sock is not None
        try:
            self._exchange(connection)
        except (ConnectionResetError, BrokenPipeError):
            if not was_open:
                raise
            connection.close()
            self._exchange(connection)

    def _exchange(self, connection: "_Connection") -> None:
        if connection.sock is None:
            connection.connect()
            self._seen["connections"] += 1
        asked = self._asked
        segments, received = connection.received()
        connection.request(asked.method, asked.target, asked.body or None, dict(asked.fields))
        # Kept, since the answer that ends a connection takes the socket with it.
        with connection.sock.dup() as kept:
            connection.getresponse().read()
            segments_now, received_now = _received(kept)
        self._seen["segments"] += segments_now - segments
        self._seen["bytes"] += received_now - received

    def close(self) -> None:
        """Closes every connection and counts from nought."""
        for connection in self._open:
            connection.close()
        self._open.clear()
        self._seen.clear()
        self._turn = 0

    def counters(self) -> dict[str, int]:
        """Connections opened, and over TCP segments and bytes that came in."""
        # An answer without a segment cannot be: this is a Unix socket, or the kernel does not say.
        if not self._seen["segments"]:
            return {"connections": self._seen["connections"]}
        return {name: self._seen[name] for name in ("connections", "segments", "bytes")}


class _Connection(http.client.HTTPConnection):
    """A connection over TCP or a Unix socket."""

    def __init__(self, address: tuple[str, int] | str) -> None:
        host, port = ("localhost", 80) if isinstance(address, str) else address
        super().__init__(host, port, timeout=REQUEST_LIMIT_S)
        self._address = address

    def connect(self) -> None:
        if isinstance(self._address, str):
            self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self.sock.settimeout(REQUEST_LIMIT_S)
            try:
                self.sock.connect(self._address)
            except OSError:
                self.close()
                raise
        else:
            super().connect()

    def received(self) -> tuple[int, int]:
        """Segments with data and bytes that came in so far."""
        return _received(self.sock)


def _received(connection: socket.socket) -> tuple[int, int]:
    if connection.family == socket.AF_UNIX:
        return 0, 0
    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCP_INFO_BYTES)
    if len(info) < SEGMENTS_AT + 4:
        return 0, 0
    (segments,) = struct.unpack_from("=I", info, SEGMENTS_AT)
    (received,) = struct.unpack_from("=Q", info, BYTES_AT)
    return segments, received
