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

from jissoku.model.observed import Calls
from jissoku.observe.probes import trace
from jissoku.observe.probes.client import Asking, Client, ProbeError, crowd, disperse

CONNECTIONS = 16
ROUNDS = 50

# Connections that come one by one, to see who wakes up for each.
LONE = 200

# How long strace may take to attach, and to let go.
ATTACH_LIMIT_NS = 10_000_000_000
DETACH_LIMIT_S = 10.0
LOOK_AGAIN_MS = 5

INSTALL = "sudo apt-get install strace"


def look(asking: Asking, pids: Iterable[int]) -> Calls:
    """Traces a target while it answers: first on open connections, then on new ones.

    Raises:
        ProbeError: There is no strace, it may not attach, or the target gave no answers.
    """
    pids = sorted(pids)
    if not pids:
        raise ProbeError(
            "its processes cannot be found", remedy="run it here, as a recipe or with --cmd"
        )
    try:
        seen, requests, connections, slowdown = _steady(asking, pids)
        lone = _lone(asking, pids)
    except (OSError, http.client.HTTPException) as error:
        raise ProbeError(f"an answer did not come under the trace: {error}") from error
    everything, again = trace.counts(seen)
    return Calls(
        requests=requests,
        connections=connections,
        counts=dict(everything),
        again=dict(again),
        waits_empty=trace.waits_empty(seen),
        opened=dict(trace.paths(seen, trace.OPENS)),
        looked_up=dict(trace.paths(seen, trace.LOOKS)),
        logged=dict(trace.written(seen)),
        hops=trace.hops(seen),
        lone=LONE,
        vain=trace.vain(lone),
        slowdown=slowdown,
    )


def _steady(asking: Asking, pids: list[int]) -> tuple[list[trace.Call], int, int, float]:
    clients = crowd(asking, CONNECTIONS)
    try:
        plain_ns = _rounds(clients)
        before = sum(client.opened for client in clients)
        with _traced(pids) as output:
            traced_ns = _rounds(clients)
        connections = sum(client.opened for client in clients) - before
    finally:
        disperse(clients)
    seen = list(trace.calls(output))
    if not seen:
        raise ProbeError(
            "strace saw no call at all",
            remedy="look again, unless the kernel answers in its place",
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
                client.ask()
    return monotonic_ns() - started


def _lone(asking: Asking, pids: list[int]) -> list[trace.Call]:
    with _traced(pids) as output:
        for _ in range(LONE):
            with Client(asking) as client:
                client.ask()
    return list(trace.calls(output))


@contextmanager
def _traced(pids: list[int]) -> Iterator[list[str]]:
    """Has all threads of some processes traced; the list is filled with what was written."""
    program = shutil.which("strace")
    if program is None:
        raise ProbeError("there is no strace on this machine", remedy=INSTALL)
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
            if ends.poll(LOOK_AGAIN_MS):
                said = tracer.stderr.read().decode(errors="replace").strip().splitlines()
                raise ProbeError(
                    f"strace cannot attach: {said[-1] if said else 'it ended'}",
                    remedy="run as the target's user or root, with kernel.yama.ptrace_scope=0",
                )
            if monotonic_ns() > deadline:
                raise ProbeError("strace did not attach in time", remedy="look again")
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
