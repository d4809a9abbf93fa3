"""Probes of a running target. Each disturbs it, so none is used in a measurement."""

import http.client
import resource
import socket
import statistics
import struct
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from time import monotonic_ns, sleep

from jissoku.errors import HostLost, JissokuError
from jissoku.measure.client import (
    ANSWER_LIMIT_S,
    Client,
    ProbeError,
    RequestTarget,
    answer_fields,
    held_clients,
)
from jissoku.measure.host import HostLoad
from jissoku.measure.inspection import Inspector, Trace, not_here
from jissoku.measure.loadgen import LoadgenError
from jissoku.model import ArmMeasurement, MachineConditions, plural
from jissoku.model.explanation import (
    LoadObservation,
    MemoryObservation,
    SyscallObservation,
    TimerObservation,
    WaitObservation,
    WireObservation,
)
from jissoku.system import processes, strace
from jissoku.system.address import duplicate, tcp_info

# Idle connections whose memory is measured.
IDLE_CONNECTIONS = 400

# With fewer connections the memory of each is too uncertain, because memory is counted in pages.
IDLE_CONNECTIONS_MIN = 50

# Single requests: enough to distinguish a wait at each request from a single one.
SAMPLES = 40

# A limit of requests per connection above this costs too little to be reported.
ANSWERS_MAX = 1_001
CLOSE_LIMIT_NS = 3_000_000_000

# Under the trace of system calls, each round one request on each connection.
CONNECTIONS = 16
ROUNDS = 50

# A slow target is asked no longer than this in one probe, unless less often than these minima.
SLOW_LIMIT_NS = 1_500_000_000
SAMPLES_MIN, ROUNDS_MIN, ISOLATED_MIN = 10, 5, 50

# Connections that are opened one at a time, to count the workers that wake up for each.
ISOLATED_CONNECTIONS = 200

# Connections that are held open, first idle and then with a waiting request.
HELD = 16_000
HELD_MIN = 1_000
HELD_DELAY_MS = 60_000

# Bytes that are read of a response whose rest is not needed.
ANSWER_SIZE_MAX = 65_536

# Descriptors for everything but these connections.
SPARE = 200

# The median of this many loads is used: while twenty other processes competed for two virtual
# cores, the cost in one load, relative to the copy's, was 0.96 to 1.10 with timers in a wheel.
LOADS = 5

# To detect whether delays are supported, and the resolution of the timer.
NO_DELAYS = "no /delay?ms=N answers after N ms"
ADD_DELAYS = "add that path"
ISOLATED_DELAY_MS = 20
ISOLATED_REQUESTS = 10


def observe_memory(asking: RequestTarget, inspector: Inspector) -> MemoryObservation:
    # The first answers of a process allocate pages that are independent of connections.
    with held_clients(asking, 1):
        pass
    before = inspector.rss_bytes()
    if not before:
        raise not_here()
    limit_s = SLOW_LIMIT_NS / 1e9
    with held_clients(asking, IDLE_CONNECTIONS, within_s=limit_s) as clients:
        held = sum(client.socket is not None for client in clients)
        after = inspector.rss_bytes()
    if held < IDLE_CONNECTIONS_MIN:
        raise ProbeError(
            f"no more than {held} {plural(held, 'connection')} could be held after {limit_s:g} s",
            result=f"let it hold {IDLE_CONNECTIONS_MIN} at a time",
        )
    return MemoryObservation(connections=held, rss_bytes_before=before, rss_bytes_after=after)


def observe_load(load: HostLoad, inspector: Inspector) -> LoadObservation:
    spec = load.spec
    before = inspector.threads()
    (measurement, *_), conditions = _run_load(load)
    return LoadObservation(
        connections=spec.workload.connections,
        cores=len(load.cores.server),
        requests=measurement.requests,
        duration_ns=measurement.duration_ns,
        cpu_ns=measurement.cpu_ns,
        cpu_user_fraction=measurement.cpu_user_fraction,
        latency_ns_p50=measurement.latency_ns.p50,
        latency_ns_p99=measurement.latency_ns.p99,
        rate_rps_offered=measurement.rate_rps_offered,
        generator_busy_fraction=conditions.generator_busy_fraction,
        tcp_retransmits=conditions.tcp_retransmits,
        listen_overflows=measurement.turned_away(conditions),
        threads=processes.usage_between(before, inspector.threads()),
        # Not between the two readings: the load generator starts after the first one, which takes
        # seconds when other processes use its core.
        threads_ns=spec.timing.warmup_ns + measurement.duration_ns,
        processes=inspector.processes(),
        generator_cpu_cores=conditions.generator_cpu_cores,
        kernel_cpu_ns=conditions.kernel_cpu_ns,
    )


def observe_waits(load: HostLoad, inspector: Inspector) -> WaitObservation:
    """Loads one arm, and looks again and again at what its threads wait for."""
    with inspector.waits() as waits:
        _run_load(load, waits.on_window)
        return waits.observation()


def observe_costs(load: HostLoad) -> tuple[float, ...]:
    """Runs one load and returns each arm's CPU time per request in nanoseconds."""
    measurements, _ = _run_load(load)
    found = [one.cpu_ns / one.requests for one in measurements if one.cpu_ns is not None]
    if len(found) < len(measurements):
        raise ProbeError("its CPU time cannot be read", result="run it here")
    return tuple(found)


def _run_load(
    load: HostLoad, on_window: Callable[[str], object] = str
) -> tuple[tuple[ArmMeasurement, ...], MachineConditions]:
    try:
        return load.run(on_window)
    except LoadgenError as error:
        raise ProbeError(f"the load generator measured nothing: {error}") from error
    except HostLost:
        raise
    except JissokuError as error:
        raise ProbeError(f"the load was not observed: {error}") from error


def observe_wire(asking: RequestTarget) -> WireObservation:
    try:
        plain, segments, size = _series(asking, acknowledges=False)
        prompt: tuple[int, ...] = ()
        if segments:
            prompt, _, _ = _series(asking, acknowledges=True)
        until, asked = _until_close(asking)
        with Client(asking) as client:
            info = tcp_info(client.open())
            client.request_again()
        coding = answer_fields(asking.accepting_codings).get("Content-Encoding", "")
        return WireObservation(
            latency_ns=plain,
            latency_ns_acknowledged=prompt,
            segments=segments,
            segment_size=info.segment_bytes if info else 0,
            answer_size=size,
            answers_until_close=until,
            answers_asked=asked,
            server=client.fields.get("Server", ""),
            powered_by=client.fields.get("X-Powered-By", ""),
            compresses="" if "Content-Encoding" in client.fields else coding,
        )
    except (OSError, http.client.HTTPException) as error:
        raise ProbeError(f"a single client got no answer: {error}") from error


def _series(
    asking: RequestTarget, *, acknowledges: bool
) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    latencies: list[int] = []
    segments: list[int] = []
    size = 0
    with Client(asking) as client:
        started_ns = monotonic_ns()
        while len(latencies) < SAMPLES and not _is_enough(started_ns, len(latencies), SAMPLES_MIN):
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


def _is_enough(started_ns: int, count: int, least: int) -> bool:
    """Whether a slow target has been asked for long enough, and often enough."""
    return count >= least and monotonic_ns() - started_ns > SLOW_LIMIT_NS


def _until_close(asking: RequestTarget) -> tuple[int | None, int]:
    """The number of responses after which a connection ended, and the number of requests."""
    deadline = monotonic_ns() + CLOSE_LIMIT_NS
    with Client(asking) as client:
        for count in range(1, ANSWERS_MAX + 1):
            try:
                if client.request()[1]:
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


def _segments(connection: socket.socket) -> int | None:
    info = tcp_info(connection)
    return info.data_segments_received if info else None


def _acknowledge(connection: socket.socket) -> None:
    if connection.family != socket.AF_UNIX:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)


def observe_syscalls(asking: RequestTarget, inspector: Inspector) -> SyscallObservation:
    """Traces a target while it answers: first on open connections, then on new ones."""
    try:
        trace, requests, connections, slowdown = _steady(asking, inspector)
        lone, isolated = _isolated(asking, inspector)
    except (OSError, http.client.HTTPException) as error:
        raise ProbeError(f"no answer while it was traced: {error}") from error
    seen = trace.calls
    everything, again = strace.counts(seen)
    opened = strace.paths(seen, strace.OPENS)
    connects = strace.connects(seen)
    trips: Counter[str] = Counter()
    for name, count in strace.round_trips(seen).items():
        trips[connects.sockets.get(name) or trace.peers.get(name, "")] += count
    return SyscallObservation(
        requests=requests,
        connections=connections,
        counts=dict(everything),
        eagain=dict(again),
        empty_waits=strace.empty_waits(seen),
        opened=dict(opened),
        path_queries=dict(strace.paths(seen, strace.PATH_QUERIES)),
        logged=dict(strace.written(seen)),
        connected=dict(connects.streams),
        round_trips=dict(trips),
        transactions=dict(strace.transactions(seen)),
        synced=dict(strace.synced(seen)),
        name_lookups=max(opened[strace.HOSTS], connects.name_queries),
        isolated_connections=isolated,
        spurious_wakeups=strace.spurious_wakeups(lone),
        slowdown=slowdown,
    )


def _steady(asking: RequestTarget, inspector: Inspector) -> tuple[Trace, int, int, float]:
    with held_clients(asking, CONNECTIONS) as clients:
        rounds = min(ROUNDS, max(ROUNDS_MIN, SLOW_LIMIT_NS // _rounds(clients, 1)))
        plain_ns = _rounds(clients, rounds)
        before = sum(client.opened for client in clients)
        with inspector.traced() as trace:
            traced_ns = _rounds(clients, rounds)
        connections = sum(client.opened for client in clients) - before
    if not trace.calls:
        raise ProbeError(
            "strace traced no call", result="look again, unless the kernel answers in its place"
        )
    return trace, len(clients) * rounds, connections, traced_ns / plain_ns


def _rounds(clients: list[Client], rounds: int) -> int:
    """Sends rounds of requests, one on each connection; returns the duration."""
    started = monotonic_ns()
    for _ in range(rounds):
        for client in clients:
            client.send()
        for client in clients:
            try:
                client.receive()
            except (http.client.RemoteDisconnected, ConnectionError):
                client.close()
                client.request()
    return monotonic_ns() - started


def _isolated(asking: RequestTarget, inspector: Inspector) -> tuple[list[strace.Call], int]:
    count = 0
    with inspector.traced() as trace:
        started_ns = monotonic_ns()
        while count < ISOLATED_CONNECTIONS and not _is_enough(started_ns, count, ISOLATED_MIN):
            with Client(asking) as client:
                client.request()
            count += 1
            sleep(0.003)  # A thread that is still awake would accept the next before others wake.
    return trace.calls, count


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadCost:
    """CPU time per request of a few connections that request short delays.

    `control_ns` is that of a second copy of the target under the same load at the same time,
    without other connections: other load of the machine affects both. None without a copy.
    """

    target_ns: float
    control_ns: float | None

    @property
    def relative(self) -> float:
        """Relative to the copy's, or absolute without a copy."""
        return self.target_ns / (self.control_ns or 1.0)


def observe_timers(
    asking: Callable[[int], RequestTarget],
    load: Callable[[], LoadCost],
    check: Callable[[], object],
) -> TimerObservation:
    """Requests delayed responses: alone, with many idle connections, and with waiting requests.

    `asking` is the request for a response delayed by some milliseconds, `load` loads the target
    and its copy, and `check` is called before each connection: an interruption can end it.
    """
    late = _lateness_ns(asking)
    with _held(asking(0), check) as connections:
        idle = _costs(load)
        for connection in connections:
            connection.sendall(asking(HELD_DELAY_MS).request)
        busy = _costs(load)
        median_idle, median_busy = idle[LOADS // 2], busy[LOADS // 2]
        return TimerObservation(
            waiting=len(connections),
            cpu_ns_idle=median_idle.target_ns,
            cpu_ns_waiting=median_busy.target_ns,
            control_ns_idle=median_idle.control_ns or 0.0,
            control_ns_waiting=median_busy.control_ns or 0.0,
            costs_idle=tuple(cost.relative for cost in idle),
            costs_waiting=tuple(cost.relative for cost in busy),
            lateness_ns=late,
        )


def _costs(load: Callable[[], LoadCost]) -> list[LoadCost]:
    """Those of some loads, the lowest relative cost first."""
    return sorted((load() for _ in range(LOADS)), key=lambda cost: cost.relative)


@contextmanager
def _held(asking: RequestTarget, check: Callable[[], object]) -> Iterator[list[socket.socket]]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    count = min(HELD, hard - SPARE)
    if count < HELD_MIN:
        raise ProbeError(f"only {hard:,} descriptors are allowed", result="ulimit -n 20000")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, count + SPARE), hard))
    try:
        with ExitStack() as stack:
            found = []
            for _ in range(count):
                check()
                found.append(stack.enter_context(_idle_connection(asking)))
            yield found
    except OSError as error:
        raise ProbeError(f"it does not hold {count:,} connections: {error}") from error
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _idle_connection(asking: RequestTarget) -> socket.socket:
    """Opens a connection with one request, because servers soon close one without any."""
    connection = asking.connect(ANSWER_LIMIT_S)
    # Closed with a reset, so that thousands of ports are not left in TIME_WAIT.
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.sendall(asking.request)
    connection.recv(ANSWER_SIZE_MAX)
    return connection


def _lateness_ns(asking: Callable[[int], RequestTarget]) -> int:
    """The lateness of a delayed answer, minus that of our own sleep of the same length."""
    delay_ns = ISOLATED_DELAY_MS * 1_000_000
    at_once, waited, slept = [], [], []
    try:
        with Client(asking(0)) as prompt, Client(asking(ISOLATED_DELAY_MS)) as delayed:
            for _ in range(ISOLATED_REQUESTS):
                at_once.append(prompt.request_again()[0])
                waited.append(delayed.request_again()[0])
                started_ns = monotonic_ns()
                sleep(delay_ns / 1e9)
                slept.append(monotonic_ns() - started_ns)
    except (OSError, http.client.HTTPException) as error:
        raise ProbeError(NO_DELAYS, result=ADD_DELAYS) from error
    if not statistics.median(at_once) < delay_ns <= statistics.median(waited):
        raise ProbeError(NO_DELAYS, result=ADD_DELAYS)
    return max(0, int(statistics.median(waited) - statistics.median(slept)))
