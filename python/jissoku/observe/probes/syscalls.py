"""The system calls of a target: `strace(1)` on all its threads, under a load of a few clients."""

import http.client
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from time import monotonic_ns

from jissoku.model.observed import SyscallObservation
from jissoku.observe.probes.client import (
    Client,
    ProbeError,
    RequestTarget,
    close_clients,
    open_clients,
)
from jissoku.system import strace, strace_output as trace
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
