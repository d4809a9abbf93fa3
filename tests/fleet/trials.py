"""Trials of two recipes through an agent that is a process, in which a test makes a fault."""

import os
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from jissoku.cli.frame import version_line
from jissoku.design.schedule import PlannedTrial
from jissoku.fleet.connecting import connected
from jissoku.fleet.keys import CLIENT, ListenAddress, read_keys
from jissoku.fleet.remote import RemoteHost, RemoteObserver
from jissoku.measure.loadgen import TrialTiming
from jissoku.measure.trial import PreparedArm, Servers, TrialRunner, started_servers
from jissoku.model import Trial, TrialKind, Workload
from jissoku.system.interruption import Interruption
from jissoku.system.processes import all_processes
from jissoku.targets import catalogue
from jissoku.targets.prepare import PreparedTarget
from tests.conftest import JISSOKU

NAMES = ("jissoku", "http-server")
WORKLOAD = Workload(rate_rps=400, connections=4)
WINDOW = TrialTiming(100_000_000, 800_000_000)


def free_address() -> ListenAddress:
    """A port of this host at which nothing listens now."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return ListenAddress("127.0.0.1", taken.getsockname()[1])


@contextmanager
def agent_process(
    address: ListenAddress,
    keys: Path,
    before: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    options: Sequence[str] = (),
) -> Iterator[subprocess.Popen[str]]:
    """An agent that listens; `before` are the words that start it in another namespace."""
    words = [*before, *JISSOKU, "agent", "--listen", address.text, "--keys", str(keys)]
    words += options
    env = os.environ | dict(environment or {})
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env
    ) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline().startswith("Listening on ")
            yield process
        finally:
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGCONT)
                process.terminate()
            process.wait(60)


def with_entry(entry: str) -> set[int]:
    """The processes that have this in their environment."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if entry.encode() in path.read_bytes():
                found.add(int(path.parent.name))
    return found


def targets_of(agent: int) -> set[int]:
    """The processes of targets that an agent has started, by its process."""
    return with_entry(f"JISSOKU_TARGET={agent}-")


def load_generators(parent: int) -> set[int]:
    """The load generators that a process has started."""
    found = set()
    for pid, stat in all_processes().items():
        with suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if stat.parent == parent and not stat.has_exited and b"load" in words:
                found.add(pid)
    return found


def supervisor_of(agent: int) -> int:
    """The process that ends the targets of an agent that is killed."""
    mark = b"jissoku.targets.supervisor"
    (found,) = [
        pid
        for pid, stat in all_processes().items()
        if stat.parent == agent and mark in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    ]
    return found


@dataclass
class Bench:
    """The servers that a client has started through an agent, and the trial that they are for."""

    servers: Servers
    planned: PlannedTrial

    def measured(self, timing: TrialTiming = WINDOW) -> Trial:
        """One trial of both; HostLost if the agent is gone."""
        return self.servers.measure(self.planned, WORKLOAD, timing)


@contextmanager
def bench(
    address: ListenAddress, keys: Path, before: Sequence[str] = ()
) -> Iterator[tuple[subprocess.Popen[str], RemoteHost]]:
    """An agent, and a client of it."""
    with (
        agent_process(address, keys, before) as agent,
        connected(address, read_keys(keys, CLIENT), version_line()) as host,
    ):
        yield agent, host


@contextmanager
def started(host: RemoteHost, kind: TrialKind = TrialKind.PAIRED) -> Iterator[Bench]:
    """Both recipes, started on the agent's host."""
    prepared = [host.prepare(catalogue.recipes()[name], "") for name in NAMES]
    arms = [PreparedArm(one.arm(), one) for one in prepared if isinstance(one, PreparedTarget)]
    assert len(arms) == len(NAMES)
    planned = PlannedTrial(block=0, kind=kind, arms=NAMES, seed=1)
    with Interruption() as interruption:
        cores = host.assign_cores(None, None)
        runner = TrialRunner(arms, cores, interruption, host=host)
        with started_servers(runner, planned, WORKLOAD) as servers:
            assert servers.failure is None, servers.failure
            yield Bench(servers, planned)


def in_window(monkeypatch: pytest.MonkeyPatch, fault: Callable[[], object]) -> None:
    """Makes a fault once, when the window of the next load has opened."""
    left = [fault]

    def window_opened(_: RemoteObserver) -> None:
        if left:
            left.pop()()

    monkeypatch.setattr(RemoteObserver, "window_opened", window_opened)
