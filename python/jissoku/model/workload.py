"""What is asked of a target."""

from dataclasses import dataclass
from enum import StrEnum


class Reuse(StrEnum):
    """How long a connection lives."""

    KEEP_ALIVE = "keep-alive"
    CLOSE = "close"


class Transport(StrEnum):
    """What connections are made of."""

    TCP = "tcp"
    UNIX = "unix"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A whole request as it goes over the wire.

    Attributes:
        text: From its first byte to its last; `{PATH}` and `{HOST}` stand for the target's.
    """

    name: str
    text: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What is asked and how often.

    Attributes:
        shapes: Sent in rotation on each connection, in place of what method, headers and body
            would make; all of them have one right answer.
        path: Path and query, as it stands in the request line.
        headers: Fields beside Host, as (name, value), in order.
        body: What is sent after the head; empty means that no body is sent.
        connections: Connections per arm; in a duet each arm has so many.
        pipeline: Requests in flight on one connection.
        rate_rps: Requests per second and arm, evenly spaced (open loop); None is the closed loop,
            in which every connection asks again as soon as it was answered.
        transport: Where targets listen that can listen on either.
    """

    path: str = "/"
    method: str = "GET"
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    shapes: tuple[Shape, ...] = ()
    connections: int = 64
    pipeline: int = 1
    reuse: Reuse = Reuse.KEEP_ALIVE
    rate_rps: int | None = None
    transport: Transport = Transport.TCP
