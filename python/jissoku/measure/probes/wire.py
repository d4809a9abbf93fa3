"""How responses arrive: the number of segments, their delays, and the end of the connection."""

import http.client
import socket
from time import monotonic_ns

from jissoku.measure.probes.client import Client, ProbeError, RequestTarget
from jissoku.model.observed import WireObservation
from jissoku.system.address import duplicate, tcp_info

# Enough to distinguish a wait at each request from a single one.
SAMPLES = 40

# A limit of requests per connection above this costs too little to be reported.
ANSWERS_MAX = 1_001
CLOSE_LIMIT_NS = 3_000_000_000


def observe_wire(asking: RequestTarget) -> WireObservation:
    """Sends one request at a time.

    Raises:
        ProbeError: A request was not answered.
    """
    try:
        plain, segments, size = _series(asking, acknowledges=False)
        prompt: tuple[int, ...] = ()
        if segments:
            prompt, _, _ = _series(asking, acknowledges=True)
        until, asked = _until_close(asking)
        return WireObservation(
            latency_ns=plain,
            latency_ns_acknowledged=prompt,
            segments=segments,
            segment_size=_segment_size(asking),
            answer_size=size,
            answers_until_close=until,
            answers_asked=asked,
        )
    except (OSError, http.client.HTTPException) as error:
        raise ProbeError(f"a single client got no answer: {error}") from error


def _series(
    asking: RequestTarget, *, acknowledges: bool
) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    latencies, segments, size = [], [], 0
    with Client(asking) as client:
        for _ in range(SAMPLES):
            opened = client.opened
            connection = client.open()
            before = _segments(connection) if client.opened == opened else 0
            started = monotonic_ns()
            if acknowledges:
                _acknowledge(connection)
            client.send()
            if acknowledges:
                # Sending has re-enabled delayed acknowledgements.
                _acknowledge(connection)
            is_same = client.socket is connection
            # The duplicate stays open after an answer that ends the connection, for its counters.
            with duplicate(client.socket or connection) as kept:
                size, _ = client.receive()
                latencies.append(monotonic_ns() - started)
                after = _segments(kept)
            if before is not None and after is not None and is_same:
                segments.append(after - before)
    return tuple(latencies), tuple(segments), size


def _until_close(asking: RequestTarget) -> tuple[int | None, int]:
    """The number of responses after which a connection ended, and the number of requests."""
    deadline = monotonic_ns() + CLOSE_LIMIT_NS
    with Client(asking) as client:
        for count in range(1, ANSWERS_MAX + 1):
            try:
                if client.request().is_last:
                    return count, count
            except (http.client.RemoteDisconnected, ConnectionError):
                if count == 1:
                    raise
                return count - 1, count
            if client.opened > 1:  # It was closed without an announcement.
                return count - 1, count
            if monotonic_ns() > deadline:
                return None, count
    return None, ANSWERS_MAX


def _segment_size(asking: RequestTarget) -> int:
    with Client(asking) as client:
        info = tcp_info(client.open())
        return info.segment_bytes if info else 0


def _segments(connection: socket.socket) -> int | None:
    info = tcp_info(connection)
    return info.data_segments_received if info else None


def _acknowledge(connection: socket.socket) -> None:
    if connection.family != socket.AF_UNIX:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
