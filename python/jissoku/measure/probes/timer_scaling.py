"""The cost of waiting requests: a load with idle connections, and with waiting requests."""

import http.client
import resource
import socket
import statistics
import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from time import monotonic_ns, sleep

from jissoku.measure.probes.client import ANSWER_LIMIT_S, Client, ProbeError, RequestTarget
from jissoku.model.observed import TimerObservation

# Connections that are held open, first idle and then with a waiting request.
HELD = 16_000
HELD_MIN = 1_000
HELD_DELAY_MS = 60_000

# Bytes that are read of a response whose rest is not needed.
ANSWER_SIZE_MAX = 65_536

# Descriptors for everything else.
SPARE = 200

# The median of this many loads is used: while twenty other processes competed for two virtual
# cores, the cost in one load, relative to the copy's, was 0.96 to 1.10 with timers in a wheel.
LOADS = 5

# To detect whether delays are supported, and the resolution of the timer.
ISOLATED_DELAY_MS = 20
ISOLATED_REQUESTS = 10
NS_PER_MS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadCost:
    """CPU time per request of a few connections that request short delays.

    Attributes:
        control_ns: That of a second copy of the target under the same load at the same time,
            without other connections: other load of the machine affects both. None without a copy.
    """

    target_ns: float
    control_ns: float | None

    @property
    def relative(self) -> float:
        """Relative to the copy's, or absolute without a copy."""
        return self.target_ns / (self.control_ns or 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimerProbe:
    """How a delay is requested.

    Attributes:
        asking: The probing client's request for a response delayed by this many milliseconds.
        load: Loads the target and its copy.
    """

    asking: Callable[[int], RequestTarget]
    load: Callable[[], LoadCost]


def observe_timers(waiting: TimerProbe) -> TimerObservation:
    """Requests delayed responses: alone, with many idle connections, and with waiting requests.

    Raises:
        ProbeError: The target has no delayed response, or holds too few connections.
    """
    late = _lateness_ns(waiting)
    asking = waiting.asking(HELD_DELAY_MS)
    with _held(waiting.asking(0)) as connections:
        idle = _median(waiting)
        for connection in connections:
            connection.sendall(asking.request)
        busy = _median(waiting)
        return TimerObservation(
            waiting=len(connections),
            cpu_ns_idle=idle.target_ns,
            cpu_ns_waiting=busy.target_ns,
            control_ns_idle=idle.control_ns or 0.0,
            control_ns_waiting=busy.control_ns or 0.0,
            lateness_ns=late,
        )


def _median(waiting: TimerProbe) -> LoadCost:
    costs = sorted((waiting.load() for _ in range(LOADS)), key=lambda cost: cost.relative)
    return costs[len(costs) // 2]


@contextmanager
def _held(asking: RequestTarget) -> Iterator[list[socket.socket]]:
    """Opens many idle connections, as many as the limit of descriptors allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    count = min(HELD, hard - SPARE)
    if count < HELD_MIN:
        raise ProbeError(f"only {hard:,} descriptors are allowed", result="ulimit -n 20000")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, count + SPARE), hard))
    try:
        with ExitStack() as stack:
            yield [stack.enter_context(_connected(asking)) for _ in range(count)]
    except OSError as error:
        raise ProbeError(f"it does not hold {count:,} connections: {error}") from error
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _connected(asking: RequestTarget) -> socket.socket:
    """Opens a connection with one request, because servers soon close one without any."""
    connection = asking.connect(ANSWER_LIMIT_S)
    # Closed with a reset, so that thousands of ports are not left in TIME_WAIT.
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.sendall(asking.request)
    connection.recv(ANSWER_SIZE_MAX)
    return connection


def _lateness_ns(waiting: TimerProbe) -> int:
    """The lateness of a delayed answer, minus that of our own sleep of the same length."""
    delay_ns = ISOLATED_DELAY_MS * NS_PER_MS
    at_once, waited, slept = [], [], []
    try:
        with (
            Client(waiting.asking(0)) as prompt,
            Client(waiting.asking(ISOLATED_DELAY_MS)) as delayed,
        ):
            for _ in range(ISOLATED_REQUESTS):
                at_once.append(prompt.request_again().latency_ns)
                waited.append(delayed.request_again().latency_ns)
                slept.append(_slept_ns(delay_ns))
    except (OSError, http.client.HTTPException) as error:
        raise ProbeError(f"/delay?ms={ISOLATED_DELAY_MS} is not answered: {error}") from error
    if statistics.median(waited) < delay_ns:
        raise ProbeError(
            "it has no /delay?ms=N that waits", result="serve that part of the contract"
        )
    if statistics.median(at_once) >= delay_ns:
        raise ProbeError(
            f"its answers take {statistics.median(at_once) / NS_PER_MS:.0f} ms when no delay is "
            "given on the command line",
            result="take away what delays them",
        )
    return max(0, int(statistics.median(waited) - statistics.median(slept)))


def _slept_ns(delay_ns: int) -> int:
    started = monotonic_ns()
    sleep(delay_ns / 1e9)
    return monotonic_ns() - started
