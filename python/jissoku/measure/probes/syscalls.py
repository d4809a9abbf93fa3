"""The system calls of a target under load (`strace(1)` on all its threads), and their cost."""

import http.client
import os
import socket
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from time import monotonic_ns

from jissoku.measure.probes.client import (
    Client,
    ProbeError,
    RequestTarget,
    close_clients,
    open_clients,
)
from jissoku.model.observed import SyscallObservation
from jissoku.system import strace, strace as trace
from jissoku.system.strace import StraceError

CONNECTIONS = 16
ROUNDS = 50

# Connections that are opened one at a time, to count the workers that wake up for each.
ISOLATED_CONNECTIONS = 200


def observe_syscalls(asking: RequestTarget, pids: Iterable[int]) -> SyscallObservation:
    """Traces a target while it answers: first on open connections, then on new ones.

    Raises:
        ProbeError: strace is not installed or may not attach, or the target did not answer.
    """
    pids = sorted(pids)
    if not pids:
        raise ProbeError(
            "its processes cannot be found", result="run it here, as a recipe or with --cmd"
        )
    try:
        seen, requests, connections, slowdown = _steady(asking, pids)
        lone = _isolated(asking, pids)
    except (OSError, http.client.HTTPException) as error:
        raise ProbeError(f"no answer while it was traced: {error}") from error
    everything, again = trace.counts(seen)
    return SyscallObservation(
        requests=requests,
        connections=connections,
        counts=dict(everything),
        eagain=dict(again),
        empty_waits=trace.empty_waits(seen),
        opened=dict(trace.paths(seen, trace.OPENS)),
        path_queries=dict(trace.paths(seen, trace.PATH_QUERIES)),
        logged=dict(trace.written(seen)),
        upstream_connections=trace.upstream_connections(seen),
        isolated_connections=ISOLATED_CONNECTIONS,
        spurious_wakeups=trace.spurious_wakeups(lone),
        slowdown=slowdown,
    )


def _steady(asking: RequestTarget, pids: list[int]) -> tuple[list[trace.Call], int, int, float]:
    clients = open_clients(asking, CONNECTIONS)
    try:
        plain_ns = _rounds(clients)
        before = sum(client.opened for client in clients)
        with _traced(pids) as seen:
            traced_ns = _rounds(clients)
        connections = sum(client.opened for client in clients) - before
    finally:
        close_clients(clients)
    if not seen:
        raise ProbeError(
            "strace traced no call",
            result="look again, unless the kernel answers in its place",
        )
    return seen, len(clients) * ROUNDS, connections, traced_ns / plain_ns


def _rounds(clients: list[Client]) -> int:
    """Sends rounds of requests, one on each connection; returns the duration."""
    started = monotonic_ns()
    for _ in range(ROUNDS):
        for client in clients:
            client.send()
        for client in clients:
            try:
                client.receive()
            except (http.client.RemoteDisconnected, ConnectionError):
                client.close()
                client.request()
    return monotonic_ns() - started


def _isolated(asking: RequestTarget, pids: list[int]) -> list[trace.Call]:
    with _traced(pids) as seen:
        for _ in range(ISOLATED_CONNECTIONS):
            with Client(asking) as client:
                client.request()
    return seen


@contextmanager
def _traced(pids: list[int]) -> Iterator[list[trace.Call]]:
    """Traces all threads of some processes; the list is filled when the trace ends."""
    seen: list[trace.Call] = []
    try:
        with strace.traced(pids, strace.CALLS) as found:
            yield seen
    except StraceError as error:
        raise ProbeError(str(error), result=error.hint) from error
    seen += trace.calls(found.text.splitlines())


PRICING_ROUNDS = 9
CALLS = 2_000

# Of the empty call, whose cost is the smallest, so that the clock's resolution does not matter.
EMPTY_CALLS = 50_000

# Fewer, because each leaves a port in TIME_WAIT.
PRICED_CONNECTIONS = 50


# Measures what system calls cost on this machine: a loop of calls, minus the loop without them. The
# cost of a call includes the interpreter's overhead for it, and is an upper bound.


def empty_syscall_ns() -> float:
    """The cost of a system call that does nothing: entering the kernel and returning, in ns.

    Both functions are built into the interpreter, take nothing and return a number, so their
    difference is the call alone.
    """
    return max(1.0, _cost(os.getppid, EMPTY_CALLS) - _cost(sys.getrecursionlimit, EMPTY_CALLS))


def syscall_costs() -> dict[str, float]:
    """Measures frequent system calls.

    Returns:
        Nanoseconds per call by its name, and per connection under `connection`.
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
