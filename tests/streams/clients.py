"""Clients that keep many connections, and send evenly paced work over them."""

import select
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

EVENT_END = b"\n\n"
PATIENCE_S = 10.0
RECEIVE_SIZE = 65_536

# What a client of 64 bytes sends and gets: a text frame, its mask zero (RFC 6455, section 5.2).
MESSAGE = b"m" * 64
SENT_FRAME = b"\x81" + bytes([0x80 | len(MESSAGE)]) + bytes(4) + MESSAGE
ECHO = b"\x81" + bytes([len(MESSAGE)]) + MESSAGE


class WrongAnswerError(Exception):
    """A server sent something else, or nothing for too long."""


class Connections:
    """Connections to one server, and how much each has received.

    Args:
        port: Of the server, on 127.0.0.1.
        count: How many.
        request: What each sends first.
        is_open: Whether what was received is the whole first response.
    """

    def __init__(
        self, port: int, count: int, request: bytes, is_open: Callable[[bytes], bool]
    ) -> None:
        self._poll = select.epoll()
        self._sockets: dict[int, socket.socket] = {}
        self._rest: dict[int, bytes] = {}
        for _ in range(count):
            one = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
            self._sockets[one.fileno()] = one
            one.sendall(request)
            first = b""
            while not is_open(first):
                received = one.recv(RECEIVE_SIZE)
                if not received:
                    raise WrongAnswerError(f"closed after {first[:200]!r}")
                first += received
            one.settimeout(0)
            self._poll.register(one.fileno(), select.EPOLLIN)
            self._rest[one.fileno()] = b""
        self._in_order = list(self._sockets.values())

    def send(self, index: int, message: bytes) -> None:
        """Sends on the connection of this index, modulo their number."""
        self._in_order[index % len(self._in_order)].send(message)

    def received(self, mark: bytes, wait_s: float) -> int:
        """How often a mark was received since the last call, after waiting for the first bytes."""
        found = 0
        for number, _ in self._poll.poll(wait_s):
            data = self._rest[number] + self._sockets[number].recv(RECEIVE_SIZE)
            if not data:
                raise WrongAnswerError("a connection was closed")
            found += data.count(mark)
            self._rest[number] = data[data.rfind(mark) + len(mark) :] if mark in data else data
        return found

    def close(self) -> None:
        """Closes all."""
        self._poll.close()
        for one in self._sockets.values():
            one.close()


@contextmanager
def event_streams(port: int, count: int) -> Iterator[Connections]:
    """Open streams of events."""
    request = b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n"
    found = Connections(port, count, request, lambda first: EVENT_END in first)
    with closing(found):
        yield found


@contextmanager
def web_sockets(port: int, count: int) -> Iterator[Connections]:
    """Open WebSockets, without compression."""
    request = (
        b"GET /echo HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    found = Connections(port, count, request, lambda first: b"\r\n\r\n" in first)
    with closing(found):
        yield found


def publish(port: int, streams: Connections, count: int, *, times: int, gap_s: float) -> int:
    """Publishes events evenly, and waits for each in all streams.

    Args:
        port: Of the server, on 127.0.0.1.
        streams: All that are open there.
        count: How many there are.
        times: How many events each gets.
        gap_s: Seconds between two events.

    Returns:
        How many events were received in all.
    """
    request = b"POST /publish HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as control:
        control.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        due = time.monotonic()
        for _ in range(times):
            while time.monotonic() < due:
                pass
            due += gap_s
            control.sendall(request)
            missing = count
            end = time.monotonic() + PATIENCE_S
            while missing > 0:
                missing -= streams.received(EVENT_END, 0.1)
                if time.monotonic() > end:
                    raise WrongAnswerError(f"{missing} of {count} events did not come")
            if missing < 0:
                raise WrongAnswerError(f"{-missing} events too many")
            _answer(control, b"%d\n" % count)
    return count * times


def _answer(control: socket.socket, body: bytes) -> None:
    received = b""
    while not received.endswith(body):
        more = control.recv(RECEIVE_SIZE)
        if not more:
            raise WrongAnswerError(f"answered {received!r}")
        received += more


def echo(sockets: Connections, *, times: int, gap_s: float) -> int:
    """Sends messages evenly, on one connection after the other, and waits for all echoes.

    Returns:
        How many were echoed.
    """
    missing = 0
    due = time.monotonic()
    for index in range(times):
        sockets.send(index, SENT_FRAME)
        missing += 1
        due += gap_s
        while time.monotonic() < due:
            missing -= sockets.received(ECHO, 0)
    end = time.monotonic() + PATIENCE_S
    while missing > 0:
        missing -= sockets.received(ECHO, 0.1)
        if time.monotonic() > end:
            raise WrongAnswerError(f"{missing} of {times} messages did not come back")
    return times
