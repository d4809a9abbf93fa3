"""The path from a load host to the servers' host, by the handshakes of connections.

A handshake of TCP is answered by the kernel of the servers' host, however busy its programs are,
and timed by the kernel of this one, however late its programs run. So its duration is that of the
path, with the queues that it has at that moment, and nothing that programs do is in it.
"""

import socket
import statistics
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from jissoku.fleet.load_wire import Echo, PathTimes
from jissoku.system.address import tcp_info

# Before a load, and how often during it: a hundredth of the packets of a slow server's load.
IDLE_ECHOES = 8
INTERVAL_S = 0.1

# Of a path that is tried without load, and the time between two: an agent that is slow to accept
# them would have its kernel drop those that are too many, which is no loss of the path.
PROBES, PROBE_INTERVAL_S = 20, 0.02

# One that takes longer was lost.
LIMIT_S = 1.0


def round_trip_ns(echo: Echo) -> int | None:
    """How long the handshake with a port took, which is closed then; None: it was not answered."""
    with suppress(OSError), socket.create_connection((echo.host, echo.port), LIMIT_S) as connection:
        found = tcp_info(connection)
        return None if found is None else found.round_trip_us * 1_000
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class PathSeen:
    """What some handshakes have shown of a path.

    Attributes:
        floor_ns: The shortest round trip; None if none was answered.
        lost: How many were not answered in time, of `PROBES`.
        failure: Why none was answered.
    """

    floor_ns: int | None
    lost: int
    failure: str = ""


def probe(echo: Echo) -> PathSeen:
    """Tries a path, one handshake after the other; gives up at the first if nothing listens."""
    try:
        socket.create_connection((echo.host, echo.port), LIMIT_S).close()
    except OSError as error:
        return PathSeen(floor_ns=None, lost=PROBES, failure=error.strerror or str(error))
    found: list[int] = []
    for _ in range(PROBES):
        found += _known([round_trip_ns(echo)])
        time.sleep(PROBE_INTERVAL_S)
    return PathSeen(floor_ns=min(found, default=None), lost=PROBES - len(found))


class PathProbe:
    """Measures a path before a load, from `measure_idle`, and during it, from `start` to `stop`."""

    def __init__(self, echo: Echo | None) -> None:
        """`echo` None: nothing is measured."""
        self._echo = echo
        self._idle_ns: list[int] = []
        self._loaded_ns: list[int] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="path", daemon=True)

    def measure_idle(self) -> None:
        if self._echo is not None:
            self._idle_ns += _known(round_trip_ns(self._echo) for _ in range(IDLE_ECHOES))

    def start(self, after_s: float) -> None:
        """Begins to measure after this time, when there is load."""
        if self._echo is not None:
            self._after_s = after_s
            self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def times(self) -> PathTimes:
        return PathTimes(
            idle_ns=min(self._idle_ns, default=None),
            loaded_ns=round(statistics.median(self._loaded_ns)) if self._loaded_ns else None,
        )

    def _run(self) -> None:
        assert self._echo is not None
        self._stopping.wait(self._after_s)
        while not self._stopping.is_set():
            self._loaded_ns += _known([round_trip_ns(self._echo)])
            self._stopping.wait(INTERVAL_S)


def _known(found: Iterable[int | None]) -> Iterator[int]:
    return (one for one in found if one is not None)
