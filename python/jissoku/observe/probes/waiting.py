"""What it costs a target to let requests wait: one load beside idle, and beside waiting others."""

import http.client
import resource
import socket
import statistics
import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from jissoku.model.observed import Timers
from jissoku.observe.probes.client import ANSWER_LIMIT_S, Asking, Client, ProbeError

# Connections that are held, first idle and then waiting: all else is the same.
HELD = 16_000
HELD_MIN = 1_000
HELD_DELAY_MS = 60_000

# Of an answer that nobody reads to its end.
ANSWER_SIZE_MAX = 65_536

# Descriptors for everything else.
SPARE = 200

# Of so many the cheapest counts: whatever else runs on the machine only adds.
LOADS = 2

# To see whether there is a timer at all, and how fine it is.
LONE_DELAY_MS = 20
LONE_ASKED = 10
NS_PER_MS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """How a delay is asked for.

    Attributes:
        asking: The probing client's way to ask for an answer after so many milliseconds.
        load: CPU time per request of a few connections that ask for short delays.
    """

    asking: Callable[[int], Asking]
    load: Callable[[], float]


def look(waiting: Waiting) -> Timers:
    """Asks for delayed answers: alone, then beside many idle connections, then beside waiting ones.

    Raises:
        ProbeError: The target has no delay that can be asked for, or holds too few connections.
    """
    late = _late(waiting)
    asking = waiting.asking(HELD_DELAY_MS)
    with _held(waiting.asking(0)) as connections:
        idle = min(waiting.load() for _ in range(LOADS))
        for connection in connections:
            connection.sendall(asking.request)
        busy = min(waiting.load() for _ in range(LOADS))
        return Timers(waiting=len(connections), cpu_ns_idle=idle, cpu_ns_waiting=busy, late_ns=late)


@contextmanager
def _held(asking: Asking) -> Iterator[list[socket.socket]]:
    """Many connections that say nothing, as far as there are descriptors for them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    count = min(HELD, hard - SPARE)
    if count < HELD_MIN:
        raise ProbeError(f"only {hard:,} descriptors are allowed", remedy="ulimit -n 20000")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, count + SPARE), hard))
    try:
        with ExitStack() as stack:
            yield [stack.enter_context(_connected(asking)) for _ in range(count)]
    except OSError as error:
        raise ProbeError(f"it does not hold {count:,} connections: {error}") from error
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _connected(asking: Asking) -> socket.socket:
    """A connection that has been answered once: one that never asked is soon given up."""
    connection = asking.connect(ANSWER_LIMIT_S)
    # Reset at its end, so that thousands of ports are not left waiting for whoever comes next.
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.sendall(asking.request)
    connection.recv(ANSWER_SIZE_MAX)
    return connection


def _late(waiting: Waiting) -> int:
    try:
        with Client(waiting.asking(0)) as client:
            at_once = statistics.median(client.ask_again().latency_ns for _ in range(LONE_ASKED))
        with Client(waiting.asking(LONE_DELAY_MS)) as client:
            waited = statistics.median(client.ask_again().latency_ns for _ in range(LONE_ASKED))
    except (OSError, http.client.HTTPException) as error:
        raise ProbeError(f"/delay?ms={LONE_DELAY_MS} is not answered: {error}") from error
    delay_ns = LONE_DELAY_MS * NS_PER_MS
    if waited < delay_ns:
        raise ProbeError(
            "it has no /delay?ms=N that waits", remedy="serve that part of the contract"
        )
    if at_once >= delay_ns:
        raise ProbeError(
            f"its answers take {at_once / NS_PER_MS:.0f} ms when no delay is asked for",
            remedy="take away what delays them",
        )
    return int(waited - delay_ns)
