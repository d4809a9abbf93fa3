"""The system calls of a target: `strace(1)` on all its threads while a few clients ask."""

import http.client
import os
import select
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic_ns

from jissoku.model.observed import SyscallObservation
from jissoku.observe.probes import trace
from jissoku.observe.probes.client import (
    Client,
    ProbeError,
    RequestTarget,
    close_clients,
    open_clients,
)

CONNECTIONS = 16
ROUNDS = 50

# Connections that come one by one, to see who wakes up for each.
ISOLATED_CONNECTIONS = 200

# How long strace may take to attach, and to let go.
ATTACH_LIMIT_NS = 10_000_000_000
DETACH_LIMIT_S = 10.0
POLL_MS = 5

INSTALL = "sudo apt-get install strace"


def observe_syscalls(asking: RequestTarget, pids: Iterable[int]) -> SyscallObservation:
    """Traces a target while it answers: first on open connections, then on new ones.

    Raises:
        ProbeError: There is no strace, it may not attach, or the target gave no answers.
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
        raise ProbeError(f"an answer did not come under the trace: {error}") from error
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
        with _traced(pids) as output:
            traced_ns = _rounds(clients)
        connections = sum(client.opened for client in clients) - before
    finally:
        close_clients(clients)
    seen = list(trace.calls(output))
    if not seen:
        raise ProbeError(
            "strace saw no call at all",
            result="look again, unless the kernel answers in its place",
        )
    return seen, len(clients) * ROUNDS, connections, traced_ns / plain_ns


def _rounds(clients: list[Client]) -> int:
    """Asks on all connections at once, again and again; how long that took."""
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
    with _traced(pids) as output:
        for _ in range(ISOLATED_CONNECTIONS):
            with Client(asking) as client:
                client.request()
    return list(trace.calls(output))


@contextmanager
def _traced(pids: list[int]) -> Iterator[list[str]]:
    """Has all threads of some processes traced; the list is filled with what was written."""
    program = shutil.which("strace")
    if program is None:
        raise ProbeError("strace is not installed", result=INSTALL)
    lines: list[str] = []
    with tempfile.TemporaryDirectory(prefix="jissoku-", ignore_cleanup_errors=True) as folder:
        path = Path(folder) / "trace"
        command = [program, "-f", "-y", "-a", "1", "-s", "48", "-o", str(path)]
        for pid in pids:
            command += ["-p", str(pid)]
        with subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        ) as tracer:
            try:
                _await(tracer, pids)
                yield lines
            finally:
                tracer.terminate()
                try:
                    tracer.communicate(timeout=DETACH_LIMIT_S)
                except subprocess.TimeoutExpired:
                    tracer.kill()
        lines += path.read_text(errors="replace").splitlines() if path.exists() else []


def _await(tracer: subprocess.Popen[bytes], pids: list[int]) -> None:
    """Waits until strace holds every thread."""
    deadline = monotonic_ns() + ATTACH_LIMIT_NS
    assert tracer.stderr is not None
    ends = select.poll()
    handle = os.pidfd_open(tracer.pid)
    try:
        ends.register(handle, select.POLLIN)
        while not _is_held(tracer.pid, pids):
            if ends.poll(POLL_MS):
                said = tracer.stderr.read().decode(errors="replace").strip().splitlines()
                raise ProbeError(
                    f"strace cannot attach: {said[-1] if said else 'it ended'}",
                    result="run as the target's user or root, with kernel.yama.ptrace_scope=0",
                )
            if monotonic_ns() > deadline:
                raise ProbeError("strace did not attach in time", result="look again")
    finally:
        os.close(handle)


def _is_held(tracer: int, pids: list[int]) -> bool:
    for pid in pids:
        for status in Path(f"/proc/{pid}/task").glob("*/status"):
            try:
                text = status.read_text()
            except OSError:
                continue  # It ended meanwhile.
            if f"\nTracerPid:\t{tracer}\n" not in text:
                return False
    return True
