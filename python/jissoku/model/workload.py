"""The workload: requests, connections and rate."""

from enum import StrEnum

import msgspec


class ConnectionMode(StrEnum):
    """How long a connection lives."""

    KEEP_ALIVE = "keep-alive"
    CLOSE = "close"


class Transport(StrEnum):
    """Transport of the connections."""

    TCP = "tcp"
    UNIX = "unix"


class RawRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A whole request as it goes over the wire.

    Attributes:
        text: From its first byte to its last; `{PATH}` and `{HOST}` stand for the target's.
    """

    name: str
    text: bytes


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """Requests, connections and rate.

    Attributes:
        raw_requests: Sent in rotation on each connection, in place of what method, headers and body
            would make; all of them have one right answer.
        path: Path and query, as it stands in the request line.
        headers: Fields beside Host, as (name, value), in order.
        body: What is sent after the head; empty means that no body is sent.
        connections: Connections per arm.
        pipeline: Requests in flight on one connection.
        rate_rps: Requests per second and arm, evenly spaced (open loop); None is the closed loop,
            in which each connection sends its next request after the response.
        transport: Where targets listen that can listen on either.
    """

    path: str = "/"
    method: str = "GET"
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    raw_requests: tuple[RawRequest, ...] = ()
    connections: int = 64
    pipeline: int = 1
    connection_mode: ConnectionMode = ConnectionMode.KEEP_ALIVE
    rate_rps: int | None = None
    transport: Transport = Transport.TCP
