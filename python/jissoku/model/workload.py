"""The workload, and a load: requests, connections, and a rate of a fixed grid."""

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


STEPS = (1, 2, 5)


# A load: the request rate during a measurement, from a fixed grid. CPU time per request depends on
# the rate. All runs use the same grid of rates (1-2-5), so that two runs are comparable; arms are
# compared at a rate that both reach, never at different rates.


class LoadLevel(StrEnum):
    """Name of a load."""

    LIGHT = "light"
    MEDIUM = "medium"
    HEAVY = "heavy"
    GIVEN = "given"  # the rate given with -R
    FULL = "full"  # the closed loop


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """Requests per second to the server's cores while one arm is under load.

    Attributes:
        rate_rps: None: closed loop.
        level: Light, middle or heavy for rates of the grid.
    """

    rate_rps: int | None
    level: LoadLevel

    @property
    def text(self) -> str:
        """As in `5,000 requests/s (medium load)`."""
        if self.rate_rps is None:
            return "full load (closed loop)"
        text = f"{self.rate_rps:,} requests/s"
        return text if self.level is LoadLevel.GIVEN else f"{text} ({self.level} load)"


FULL_LOAD = Load(rate_rps=None, level=LoadLevel.FULL)


def rate_grid(low_rps: int, high_rps: int) -> tuple[int, ...]:
    """The rates 1, 2, 5 times a power of ten from `low_rps` to `high_rps`, both included."""
    found = []
    scale = 1
    while scale <= high_rps:
        found += [step * scale for step in STEPS if low_rps <= step * scale <= high_rps]
        scale *= 10
    return tuple(found)
