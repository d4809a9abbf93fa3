"""How answers come over the wire: in how many segments, after what wait, and until which one."""

import http.client
import socket
import struct
from time import monotonic_ns

from jissoku.model.observed import WireObservation
from jissoku.observe.probes.client import Client, ProbeError, RequestTarget

# Enough to tell a wait that comes each time from one that came once.
SAMPLES = 40

# As many answers on one connection as tell a limit that costs from one that does not.
ANSWERS_MAX = 1_001
CLOSE_LIMIT_NS = 3_000_000_000

# Offsets into struct tcp_info (linux/tcp.h): the advertised segment size, and data segments that
# came in.
ADVMSS_AT = 84
DATA_SEGS_IN_AT = 152
INFO_SIZE = 160


def observe_wire(asking: RequestTarget) -> WireObservation:
    """Asks one thing at a time.

    Raises:
        ProbeError: The answers did not come.
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
        raise ProbeError(f"a lone client got no answer: {error}") from error


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
                # Sending put it back into the mood to wait.
                _acknowledge(connection)
            is_same = client.socket is connection
            # The socket outlives an answer that ends it, so that it can still be asked.
            with (client.socket or connection).dup() as kept:
                size, _ = client.receive()
                latencies.append(monotonic_ns() - started)
                after = _segments(kept)
            if before is not None and after is not None and is_same:
                segments.append(after - before)
    return tuple(latencies), tuple(segments), size


def _until_close(asking: RequestTarget) -> tuple[int | None, int]:
    """After how many answers a connection ended, and how many were asked for."""
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
            if client.opened > 1:  # It had ended without a word.
                return count - 1, count
            if monotonic_ns() > deadline:
                return None, count
    return None, ANSWERS_MAX


def _segment_size(asking: RequestTarget) -> int:
    with Client(asking) as client:
        connection = client.open()
        if not _is_tcp(connection):
            return 0
        info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, INFO_SIZE)
        return int(struct.unpack_from("I", info, ADVMSS_AT)[0])


def _segments(connection: socket.socket) -> int | None:
    if not _is_tcp(connection):
        return None
    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, INFO_SIZE)
    if len(info) < INFO_SIZE:  # A kernel older than 4.6 does not count them.
        return None
    return int(struct.unpack_from("I", info, DATA_SEGS_IN_AT)[0])


def _acknowledge(connection: socket.socket) -> None:
    if _is_tcp(connection):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)


def _is_tcp(connection: socket.socket) -> bool:
    return connection.family != socket.AF_UNIX
