"""A client with one request at a time, which observes how the response arrives."""

import http.client
import math
import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from time import monotonic_ns

from jissoku.errors import JissokuError
from jissoku.model import Workload
from jissoku.system.address import Address, duplicate, tcp_info
from jissoku.targets import response

# Limit for one answer.
ANSWER_LIMIT_S = 5.0

# A target with fewer workers than this, each serving one connection at a time, delays the others.
SPARE_LIMIT_S = 1.0

# What browsers send.
ACCEPTS = b"Accept-Encoding: gzip, deflate, br, zstd"

# The errors of a connection that the target closed without an announcement.
RESETS = (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError)


class ProbeError(JissokuError):
    """A probe failed; `remedy` is how to enable it."""

    def __init__(self, message: str, *, result: str = "") -> None:
        super().__init__(message)
        self.remedy = result


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestTarget:
    """The bytes of a request, and what opens a connection, with a timeout in seconds."""

    connect: Callable[[float], socket.socket]
    request: bytes
    method: str = "GET"

    @classmethod
    def of(cls, address: Address, workload: Workload) -> "RequestTarget":
        request = response.request(address, workload)
        return cls(connect=address.connect, request=request, method=workload.method)

    @property
    def accepting_codings(self) -> "RequestTarget":
        """The same of a client that accepts compressed answers, unless it says what it accepts."""
        line, end, rest = self.request.partition(b"\r\n")
        head = end + rest.partition(b"\r\n\r\n")[0].lower()
        if b"\r\naccept-encoding:" in head:
            return self
        return replace(self, request=line + end + ACCEPTS + end + rest)


class Client(AbstractContextManager["Client"]):
    """One connection at a time; a new one is opened after the target closed the previous one.

    `fields` are those of the last answer.
    """

    def __init__(self, asking: RequestTarget, limit_s: float = ANSWER_LIMIT_S) -> None:
        self._asking = asking
        self._limit_s = limit_s
        self.socket: socket.socket | None = None
        self.opened = 0
        self.fields = http.client.HTTPMessage()

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self.socket is not None:
            self.socket.close()
            self.socket = None

    def open(self) -> socket.socket:
        if self.socket is None:
            self.socket = self._asking.connect(self._limit_s)
            self.socket.settimeout(self._limit_s)
            self.opened += 1
        return self.socket

    def send(self) -> None:
        """Sends the request; over a new connection if the previous one was closed."""
        try:
            self.open().sendall(self._asking.request)
        except (BrokenPipeError, ConnectionResetError):
            self.close()
            self.open().sendall(self._asking.request)

    def receive(self) -> tuple[int, bool]:
        """Reads an answer; its size without chunk framing, and whether it is the last."""
        connection = self.open()
        reader = http.client.HTTPResponse(connection, method=self._asking.method)
        try:
            reader.begin()
            fields = sum(len(name) + len(value) + 4 for name, value in reader.getheaders())
            size = len("HTTP/1.1 200 \r\n\r\n") + len(reader.reason) + fields + len(reader.read())
            is_last = reader.will_close
            self.fields = reader.headers
        finally:
            reader.close()
        if is_last:
            self.close()
        return size, is_last

    def request(self) -> tuple[int, bool]:
        """Sends the request; returns the latency in ns, and whether the answer is the last one.

        Raises OSError if the connection fails, http.client.HTTPException if that is no
        answer.
        """
        self.open()
        started = monotonic_ns()
        self.send()
        _, is_last = self.receive()
        return monotonic_ns() - started, is_last

    def request_again(self) -> tuple[int, bool]:
        """The same, repeated on a new connection if the target closed this one silently."""
        try:
            return self.request()
        except RESETS:
            self.close()
            return self.request()

    def request_counted(self) -> tuple[int, int]:
        """As `request_again`; segments and bytes of the answer, 0 if the kernel counts none."""
        was_open = self.socket is not None
        try:
            return self._counted()
        except RESETS:
            if not was_open:
                raise
            self.close()
            return self._counted()

    def _counted(self) -> tuple[int, int]:
        connection = self.open()
        before = tcp_info(connection)
        connection.sendall(self._asking.request)
        # The duplicate stays open after an answer that ends the connection.
        with duplicate(connection) as kept:
            self.receive()
            after = tcp_info(kept)
        if before is None or after is None:
            return 0, 0
        segments = after.data_segments_received - before.data_segments_received
        return segments, after.bytes_received - before.bytes_received


def answer_fields(asking: RequestTarget) -> http.client.HTTPMessage:
    with Client(asking) as client:
        client.request_again()
        return client.fields


@contextmanager
def held_clients(
    asking: RequestTarget, size: int, *, within_s: float = math.inf
) -> Iterator[list[Client]]:
    """Up to `size` open connections with one request on each; fewer if one is not answered.

    After `within_s` no further one is opened.
    """
    clients: list[Client] = []
    end_ns = monotonic_ns() + within_s * 1e9
    with ExitStack() as stack:
        for _ in range(size):
            if monotonic_ns() > end_ns:
                break
            limit_s = SPARE_LIMIT_S if clients else ANSWER_LIMIT_S
            client = stack.enter_context(Client(asking, limit_s))
            try:
                client.request()
            except TimeoutError:
                client.close()
                break
            except (OSError, http.client.HTTPException) as error:
                raise ProbeError(f"no answer: {error}") from error
            clients.append(client)
        if not clients:
            raise ProbeError("no answer within the limit")
        yield clients
