"""The workload: requests, connections and rate."""

from enum import StrEnum

import msgspec

# What a WebSocket sends if nothing else is asked for.
MESSAGE = b"a message of thirty-two bytes..."


class ConnectionMode(StrEnum):
    """Whether connections are reused."""

    KEEP_ALIVE = "keep-alive"
    CLOSE = "close"


class Transport(StrEnum):
    """Transport of the connections."""

    TCP = "tcp"
    UNIX = "unix"


class RawRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A complete request, byte for byte.

    Attributes:
        text: All its bytes; `{PATH}` and `{HOST}` are replaced by the target's.
    """

    name: str
    text: bytes


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """Requests, connections and rate.

    Attributes:
        raw_requests: Sent in rotation on each connection, instead of a request made of method,
            headers and body; all of them have the same expected answer.
        path: Path and query, as in the request line.
        headers: Fields beside Host, as (name, value), in order.
        body: The request body; empty: none.
        websocket: Each connection becomes a WebSocket, on which messages are sent in place of
            requests, and the target has to send each back; a message is the body, or 32 bytes.
        connections: Connections per arm.
        pipeline: Requests in flight on one connection.
        rate_rps: Requests per second and arm, evenly spaced (open loop); None is the closed loop,
            in which each connection sends its next request after the response.
        transport: The transport of targets that support both.
    """

    path: str = "/"
    method: str = "GET"
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    websocket: bool = False
    raw_requests: tuple[RawRequest, ...] = ()
    connections: int = 64
    pipeline: int = 1
    connection_mode: ConnectionMode = ConnectionMode.KEEP_ALIVE
    rate_rps: int | None = None
    transport: Transport = Transport.TCP

    @property
    def message(self) -> bytes:
        """The message of a WebSocket."""
        return self.body or MESSAGE

    @property
    def is_text(self) -> bool:
        """Whether that message is a text; else it is binary."""
        try:
            self.message.decode()
        except UnicodeDecodeError:
            return False
        return True
