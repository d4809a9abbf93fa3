"""What probes and profiles read of a target through an agent, and what of it is refused."""

import math
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from jissoku.errors import InputError
from jissoku.fleet import wire
from jissoku.fleet.remote import RemoteHost, RemoteTarget
from jissoku.measure.client import Client, ProbeError, RequestTarget
from jissoku.measure.inspection import Inspector
from jissoku.measure.sampler import RUNTIME_ENVIRONMENT, ProfilerError
from jissoku.model import CoreAssignment, Workload
from jissoku.system.processes import all_processes
from jissoku.targets import catalogue
from jissoku.targets.prepare import PreparedTarget
from jissoku.targets.process import RunningTarget
from tests.fleet.conftest import RunningAgent

needs_strace = pytest.mark.skipif(shutil.which("strace") is None, reason="there is no strace")

CORES = CoreAssignment(server=(0,), generator=(0,), shared=True)


@pytest.fixture
def host(agent: RunningAgent) -> Iterator[RemoteHost]:
    with agent.client() as found:
        found.assign_cores(None, None)
        yield found


@pytest.fixture
def running(host: RemoteHost) -> Iterator[RunningTarget]:
    """A server of a recipe, which answers."""
    with started(host, prepared(host)) as found:
        yield found


@pytest.fixture
def inspector(host: RemoteHost, running: RunningTarget) -> Inspector:
    return host.inspector(running, CORES)


def prepared(host: RemoteHost) -> PreparedTarget:
    found = host.prepare(catalogue.recipes()["http-server"], "")
    assert isinstance(found, PreparedTarget)
    return found


def started(host: RemoteHost, target: PreparedTarget, cores: tuple[int, ...] = ()) -> RunningTarget:
    running = host.start(target, Workload(), seed=1, cores=cores, workers=None)
    host.wait_until_ready(running, Workload(), lambda: False, str)
    return running


def ask_often(running: RunningTarget, count: int = 20) -> None:
    with Client(RequestTarget.of(running.address, Workload())) as client:
        for _ in range(count):
            client.request_again()


def tracers() -> set[int]:
    """The processes of strace that the agent of this process has started."""
    found = set()
    for pid, stat in all_processes().items():
        with suppress(OSError):
            if stat.parent == os.getpid() and not stat.has_exited:
                name = Path(f"/proc/{pid}/comm").read_text().strip()
                found |= {pid} if name == "strace" else set()
    return found


def test_processes_threads_and_memory_are_those_of_the_target(
    running: RunningTarget, inspector: Inspector
) -> None:
    assert running.root is None, "its processes are not known here"
    assert inspector.rss_bytes() > 1_000_000
    (process, *_) = inspector.processes()
    assert any("http_server.py" in word for word in process.arguments)
    before = {thread.tid: thread.cpu_ns for thread in inspector.threads()}
    ask_often(running)
    after = {thread.tid: thread.cpu_ns for thread in inspector.threads()}
    assert sum(after.values()) > sum(before.values())


@needs_strace
def test_system_calls_are_traced(running: RunningTarget, inspector: Inspector) -> None:
    with inspector.traced() as trace:
        assert not trace.calls
        ask_often(running)
    sent = [call for call in trace.calls if call.name in {"sendto", "sendmsg", "write", "writev"}]
    assert len(sent) >= 20
    assert not tracers()


def test_without_strace_a_probe_says_what_the_host_needs(
    inspector: Inspector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jissoku.system.strace.shutil.which", lambda _: None)
    with (
        pytest.raises(ProbeError, match="on the agent's host: strace is not installed") as failed,
        inspector.traced(),
    ):
        pytest.fail("it has no strace")
    assert failed.value.remedy == "sudo apt-get install strace"


@needs_strace
def test_what_was_begun_ends_with_its_target(host: RemoteHost, running: RunningTarget) -> None:
    assert isinstance(running, RemoteTarget)
    host.ask(wire.BeginTrace(target=running.handle), wire.Answer)
    assert tracers()
    running.stop()
    assert not tracers()


@needs_strace
def test_what_was_begun_ends_with_the_session(agent: RunningAgent) -> None:
    with agent.client() as host:
        host.assign_cores(None, None)
        running = started(host, prepared(host))
        assert isinstance(running, RemoteTarget)
        host.ask(wire.BeginTrace(target=running.handle), wire.Answer)
        assert tracers()
    deadline = time.monotonic() + 20
    while tracers():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_threads_are_looked_at_in_the_window(running: RunningTarget, inspector: Inspector) -> None:
    with inspector.waits() as waits:
        waits.on_window("open")
        ask_often(running)
        time.sleep(0.3)
        waits.on_window("close")
        seen = waits.observation()
    assert seen.looks > 0
    assert any("python" in thread.name for thread in seen.threads), seen


def test_cpu_time_is_sampled(running: RunningTarget, inspector: Inspector) -> None:
    try:
        with inspector.sampler(limit_s=5, frequency=997) as sampler:
            sampler.on_window("open")
            ask_often(running, 500)
            sampler.on_window("close")
            samples = sampler.samples()
    except ProfilerError as error:
        pytest.skip(str(error))
    assert samples.samples > 0
    assert samples.frames


def test_a_target_with_names_is_prepared_once_and_by_its_number(host: RemoteHost) -> None:
    plain = prepared(host)
    named = host.with_names(plain)
    assert named is host.with_names(plain)
    assert plain.start is not None
    assert named.start is not None
    assert not plain.start.environment.keys() & RUNTIME_ENVIRONMENT.keys()
    assert named.start.environment.keys() >= RUNTIME_ENVIRONMENT.keys()
    for number in (2, -1, 10**9):
        with pytest.raises(InputError, match="nothing was prepared as number"):
            host.ask(wire.PrepareNamed(prepared=number), wire.PrepareResult)


def test_a_target_runs_on_cores_of_the_targets_only(host: RemoteHost) -> None:
    target = prepared(host)
    (first, *_) = host._server_cores
    with started(host, target, (first,)) as running:
        assert running.is_alive()
    with pytest.raises(InputError, match="the cores of targets are "):
        host.start(target, Workload(), seed=1, cores=(first, 9999), workers=None)


def test_what_is_too_long_for_a_message_is_a_failed_probe(
    inspector: Inspector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "MESSAGE_BYTES_MAX", 100)
    with pytest.raises(ProbeError, match="is larger than a message may be"):
        inspector.processes()
    monkeypatch.undo()
    assert inspector.processes(), "that does not end the session"


def test_requests_of_probes_without_their_condition_are_refused(
    host: RemoteHost, running: RunningTarget
) -> None:
    assert isinstance(running, RemoteTarget)

    def refused(request: wire.Request, match: str) -> None:
        with pytest.raises(InputError, match=match):
            host.ask(request, wire.Answer)

    for number in (0, -1, os.getpid(), 10**9):
        for kind in (wire.AskMemory, wire.AskThreads, wire.AskProcesses):
            refused(kind(target=number), f"no target {number} runs here")
        refused(wire.BeginTrace(target=number), f"no target {number} runs here")
        refused(wire.BeginWaits(target=number), f"no target {number} runs here")
        sampling = wire.BeginSampling(target=number, frequency=99, limit_s=1.0)
        refused(sampling, f"no target {number} runs here")
    refused(wire.AtWindow(is_open=True), "nothing that has a window was begun")
    for ended in (wire.EndTrace(), wire.EndWaits(), wire.EndSampling()):
        refused(ended, "nothing of this kind was begun")
    for frequency, limit_s in (
        *((0, 1.0), (-1, 1.0), (10**9, 1.0)),
        *((99, 0.0), (99, -1.0), (99, 1e9), (99, math.inf), (99, math.nan)),
    ):
        sampling = wire.BeginSampling(target=running.handle, frequency=frequency, limit_s=limit_s)
        refused(sampling, "at most")
    with host.inspector(running, CORES).waits():
        refused(wire.EndTrace(), "nothing of this kind was begun")
    assert host.clock().round_trip_ns > 0, "a refusal does not end the session"


def test_costs_of_system_calls_are_those_of_the_host(host: RemoteHost) -> None:
    costs = host.syscall_costs()
    assert costs["write"] > 0
    assert costs["connection"] > costs["write"]
