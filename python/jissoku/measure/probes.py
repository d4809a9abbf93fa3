"""Probes of a running target. Each disturbs it, so none is used in a measurement."""

import http.client
import os
import resource
import socket
import statistics
import struct
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from threading import Event
from time import monotonic_ns, sleep

from jissoku.measure import loadgen
from jissoku.measure.client import (
    ANSWER_LIMIT_S,
    Client,
    ProbeError,
    RequestTarget,
    answer_fields,
    held_clients,
)
from jissoku.measure.loadgen import LoadgenError, LoadSpec
from jissoku.model import ArmMeasurement, CoreAssignment, MachineConditions
from jissoku.model.explanation import (
    LoadObservation,
    MemoryObservation,
    SyscallObservation,
    ThreadWaits,
    TimerObservation,
    WaitObservation,
    WireObservation,
)
from jissoku.model.wording import plural
from jissoku.system import processes, strace, waiting
from jissoku.system.address import Peers, duplicate, tcp_info
from jissoku.system.processes import process_tree
from jissoku.system.strace import StraceError
from jissoku.system.waiting import python_functions

# Idle connections whose memory is measured.
IDLE_CONNECTIONS = 400

# With fewer connections the memory of each is too uncertain, because memory is counted in pages.
IDLE_CONNECTIONS_MIN = 50

Started = Callable[[subprocess.Popen[str]], object]

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

# Looks at the target's threads: without load, and how long between two.
LOOKS_AT_REST, LOOK_S = 10, 0.01

# To measure the cost of a system call.
PRICING_ROUNDS = 9
CALLS = 2_000

# Of the empty call, whose cost is the smallest, so that the clock's resolution does not matter.
EMPTY_CALLS = 50_000

# Fewer connections, because each leaves a port in TIME_WAIT.
PRICED_CONNECTIONS = 50

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
NS_PER_MS = 1_000_000


def observe_memory(asking: RequestTarget, pids: Callable[[], set[int]]) -> MemoryObservation:
    """Opens many connections, sends one request on each, and leaves them idle."""
    # The first answers of a process allocate pages that are independent of connections.
    with held_clients(asking, 1):
        pass
    before = processes.rss_bytes(pids())
    if not before:
        raise ProbeError(
            "its processes cannot be found", result="run it here, as a recipe or with --cmd"
        )
    limit_s = SLOW_LIMIT_NS / 1e9
    with held_clients(asking, IDLE_CONNECTIONS, within_s=limit_s) as clients:
        held = sum(client.socket is not None for client in clients)
        after = processes.rss_bytes(pids())
    if held < IDLE_CONNECTIONS_MIN:
        raise ProbeError(
            f"no more than {held} {plural(held, 'connection')} could be held after {limit_s:g} s",
            result=f"let it hold {IDLE_CONNECTIONS_MIN} at a time",
        )
    return MemoryObservation(connections=held, rss_bytes_before=before, rss_bytes_after=after)


def observe_load(spec: LoadSpec, cores: CoreAssignment, *, started: Started) -> LoadObservation:
    """Loads one arm, and reads the target's threads before and after."""
    root = spec.roots[0]
    pids = process_tree(root)
    before = processes.thread_usage(pids)
    (measurement, *_), conditions = _run_load(spec, cores, started)
    pids = process_tree(root)
    return LoadObservation(
        connections=spec.workload.connections,
        cores=len(cores.server),
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
        threads=processes.usage_between(before, processes.thread_usage(pids)),
        # Not between the two readings: the load generator starts after the first one, which takes
        # seconds when other processes use its core.
        threads_ns=spec.warmup_ns + measurement.duration_ns,
        processes=processes.process_infos(pids),
        generator_cpu_cores=conditions.generator_cpu_cores,
        kernel_cpu_ns=conditions.kernel_cpu_ns,
    )


def observe_waits(spec: LoadSpec, cores: CoreAssignment, *, started: Started) -> WaitObservation:
    """Loads one arm, and looks again and again at what its threads wait for."""
    root = spec.roots[0]
    peers = Peers()
    if root is None or not process_tree(root):
        raise ProbeError(
            "its processes cannot be found", result="run it here, as a recipe or with --cmd"
        )
    at_rest = _Looks(root, peers)
    for _ in range(LOOKS_AT_REST):
        at_rest.look()
        sleep(LOOK_S)
    loaded = _Looks(root, peers)
    with python_functions(root, cores.generator) as functions, ThreadPoolExecutor(1) as pool:
        window, closed = Event(), Event()

        def look_on() -> None:
            window.wait()
            while not closed.wait(LOOK_S):
                loaded.look()

        looking = pool.submit(look_on)
        try:
            _run_load(
                spec,
                cores,
                started,
                on_window=lambda edge: (window if edge == "open" else closed).set(),
            )
        finally:
            closed.set()
            window.set()
        looking.result()
    rests = {thread: places.most_common(1)[0][0] for thread, places in at_rest.found.items()}
    return WaitObservation(
        looks=loaded.count,
        threads=tuple(
            ThreadWaits(
                pid=pid,
                tid=tid,
                name=name,
                rest=rests.get((pid, tid, name), ""),
                looks=places.total(),
                places={place: count for place, count in places.most_common() if place},
                functions=functions.get(tid, {}),
            )
            for (pid, tid, name), places in sorted(loaded.found.items())
        ),
    )


class _Looks:
    """How often each thread of a target was met at each place; an empty one is a core."""

    def __init__(self, root: int | None, peers: Peers) -> None:
        self._root = root
        self._peers = peers
        self.count = 0
        self.found: dict[tuple[int, int, str], Counter[str]] = defaultdict(Counter)

    def look(self) -> None:
        self.count += 1
        for thread, place in waiting.places(process_tree(self._root), self._peers).items():
            self.found[thread][place] += 1


def observe_costs(spec: LoadSpec, cores: CoreAssignment, *, started: Started) -> tuple[float, ...]:
    """Runs one load and returns each arm's CPU time per request in nanoseconds."""
    measurements, _ = _run_load(spec, cores, started)
    found = [
        measurement.cpu_ns / measurement.requests
        for measurement in measurements
        if measurement.cpu_ns is not None
    ]
    if len(found) < len(measurements):
        raise ProbeError("its CPU time cannot be read", result="run it here")
    return tuple(found)


def _run_load(
    spec: LoadSpec,
    cores: CoreAssignment,
    started: Started,
    on_window: Callable[[str], object] = str,
) -> tuple[tuple[ArmMeasurement, ...], MachineConditions]:
    try:
        return loadgen.run_load(spec, cores, started=started, on_window=on_window)
    except LoadgenError as error:
        raise ProbeError(f"the load generator measured nothing: {error}") from error


def observe_wire(asking: RequestTarget) -> WireObservation:
    """Sends one request at a time."""
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


def _segments(connection: socket.socket) -> int | None:
    info = tcp_info(connection)
    return info.data_segments_received if info else None


def _acknowledge(connection: socket.socket) -> None:
    if connection.family != socket.AF_UNIX:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)


def observe_syscalls(asking: RequestTarget, pids: Iterable[int]) -> SyscallObservation:
    """Traces a target while it answers: first on open connections, then on new ones."""
    pids = sorted(pids)
    if not pids:
        raise ProbeError(
            "its processes cannot be found", result="run it here, as a recipe or with --cmd"
        )
    try:
        seen, requests, connections, slowdown = _steady(asking, pids)
        lone, isolated = _isolated(asking, pids)
    except (OSError, http.client.HTTPException) as error:
        raise ProbeError(f"no answer while it was traced: {error}") from error
    everything, again = strace.counts(seen)
    opened = strace.paths(seen, strace.OPENS)
    connects = strace.connects(seen)
    peers = Peers()
    trips: Counter[str] = Counter()
    for name, count in strace.round_trips(seen).items():
        trips[connects.sockets.get(name) or peers.of(name)] += count
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


def _steady(asking: RequestTarget, pids: list[int]) -> tuple[list[strace.Call], int, int, float]:
    with held_clients(asking, CONNECTIONS) as clients:
        rounds = min(ROUNDS, max(ROUNDS_MIN, SLOW_LIMIT_NS // _rounds(clients, 1)))
        plain_ns = _rounds(clients, rounds)
        before = sum(client.opened for client in clients)
        with _traced(pids) as seen:
            traced_ns = _rounds(clients, rounds)
        connections = sum(client.opened for client in clients) - before
    if not seen:
        raise ProbeError(
            "strace traced no call", result="look again, unless the kernel answers in its place"
        )
    return seen, len(clients) * rounds, connections, traced_ns / plain_ns


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


def _isolated(asking: RequestTarget, pids: list[int]) -> tuple[list[strace.Call], int]:
    count = 0
    with _traced(pids) as seen:
        started_ns = monotonic_ns()
        while count < ISOLATED_CONNECTIONS and not _is_enough(started_ns, count, ISOLATED_MIN):
            with Client(asking) as client:
                client.request()
            count += 1
            sleep(0.003)  # A thread that is still awake would accept the next before others wake.
    return seen, count


@contextmanager
def _traced(pids: list[int]) -> Iterator[list[strace.Call]]:
    """Traces all threads of some processes; the list is filled when the trace ends."""
    seen: list[strace.Call] = []
    try:
        with strace.traced(pids, strace.CALLS) as found:
            yield seen
    except StraceError as error:
        raise ProbeError(str(error), result=error.hint) from error
    seen += strace.calls(found.text.splitlines())


def empty_syscall_ns() -> float:
    """The cost of a system call that does nothing: entering the kernel and returning, in ns.

    Both functions are built into the interpreter, take nothing and return a number, so their
    difference is the call alone.
    """
    return max(1.0, _cost(os.getppid, EMPTY_CALLS) - _cost(sys.getrecursionlimit, EMPTY_CALLS))


def syscall_costs() -> dict[str, float]:
    """Nanoseconds per frequent system call by its name, and per connection (`connection`).

    A loop of calls minus the loop without them: an upper bound, with the interpreter's overhead.
    """
    listener = socket.create_server(("127.0.0.1", 0))
    client = socket.create_connection(listener.getsockname())
    accepted, _ = listener.accept()
    null = os.open(os.devnull, os.O_WRONLY)
    accepted.settimeout(0)
    try:
        functions: dict[str, Callable[[], object]] = {
            "getpid": os.getppid,
            "getpeername": accepted.getpeername,
            "getsockname": accepted.getsockname,
            "fstat": lambda: os.fstat(null),
            "openat": lambda: os.close(os.open(sys.executable, os.O_RDONLY)),
            "newfstatat": lambda: os.stat(sys.executable),  # noqa: PTH116 - the call itself is measured
            "setsockopt": lambda: accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
            "getsockopt": lambda: accepted.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR),
            "write": lambda: os.write(null, b"x"),
        }
        empty = _cost(lambda: None)
        costs = {name: max(0.0, _cost(call) - empty) for name, call in functions.items()}
        return costs | {"connection": _cost(lambda: _connect(listener), PRICED_CONNECTIONS)}
    finally:
        os.close(null)
        for each in (client, accepted, listener):
            each.close()


def _connect(listener: socket.socket) -> None:
    """Opens and closes a connection, both ends of it."""
    client = socket.socket()
    client.connect(listener.getsockname())
    accepted, _ = listener.accept()
    # The client closes first, so that TIME_WAIT holds its port and not the listener's.
    client.close()
    accepted.close()


def _cost(function: Callable[[], object], count: int = CALLS) -> float:
    """Nanoseconds per call in the cheapest round: other load on the machine only adds to it."""
    costs = []
    for _ in range(PRICING_ROUNDS):
        started = monotonic_ns()
        for _ in range(count):
            function()
        costs.append((monotonic_ns() - started) / count)
    return min(costs)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadCost:
    """CPU time per request of a few connections that request short delays.

    Attributes:
        control_ns: The cost of a second copy of the target under the same load at the same time,
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

    Args:
        asking: The probing client's request for a response delayed by this many milliseconds.
        load: Loads the target and its copy.
        check: Called before each connection, so that an interruption can end it.
    """
    late = _lateness_ns(asking)
    delayed = asking(HELD_DELAY_MS)
    with _held(asking(0), check) as connections:
        idle = _median(load)
        for connection in connections:
            connection.sendall(delayed.request)
        busy = _median(load)
        return TimerObservation(
            waiting=len(connections),
            cpu_ns_idle=idle.target_ns,
            cpu_ns_waiting=busy.target_ns,
            control_ns_idle=idle.control_ns or 0.0,
            control_ns_waiting=busy.control_ns or 0.0,
            lateness_ns=late,
        )


def _median(load: Callable[[], LoadCost]) -> LoadCost:
    costs = sorted((load() for _ in range(LOADS)), key=lambda cost: cost.relative)
    return costs[len(costs) // 2]


@contextmanager
def _held(asking: RequestTarget, check: Callable[[], object]) -> Iterator[list[socket.socket]]:
    """Opens many idle connections, as many as the limit of descriptors allows."""
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
    delay_ns = ISOLATED_DELAY_MS * NS_PER_MS
    at_once, waited, slept = [], [], []
    try:
        with Client(asking(0)) as prompt, Client(asking(ISOLATED_DELAY_MS)) as delayed:
            for _ in range(ISOLATED_REQUESTS):
                at_once.append(prompt.request_again().latency_ns)
                waited.append(delayed.request_again().latency_ns)
                slept.append(_slept_ns(delay_ns))
    except (OSError, http.client.HTTPException) as error:
        raise ProbeError(NO_DELAYS, result=ADD_DELAYS) from error
    if not statistics.median(at_once) < delay_ns <= statistics.median(waited):
        raise ProbeError(NO_DELAYS, result=ADD_DELAYS)
    return max(0, int(statistics.median(waited) - statistics.median(slept)))


def _slept_ns(delay_ns: int) -> int:
    started = monotonic_ns()
    sleep(delay_ns / 1e9)
    return monotonic_ns() - started
