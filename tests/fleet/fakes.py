"""A host of targets that is another one by its word only: nothing is started, and no load is sent.

Its targets respond at once. `LocalHost` does what a test does not replace.
"""

from collections import Counter
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager

import pytest

from jissoku.errors import HostLost
from jissoku.measure.client import RequestTarget
from jissoku.measure.host import LocalHost
from jissoku.measure.inspection import Counts, LocalInspector
from jissoku.measure.loadgen import LoadSpec
from jissoku.measure.observation import HostObservation, Observation, Report, WindowTimes
from jissoku.model import (
    ArmMeasurement,
    CoreAssignment,
    Machine,
    MachineConditions,
    Origin,
    Recipe,
    Run,
    StartCommand,
    Workload,
    updated,
)
from jissoku.model.run import LoadHost, NetworkPath
from jissoku.system.address import Address
from jissoku.system.cores import available_cores
from jissoku.targets.prepare import PreparedTarget
from jissoku.targets.process import RunningTarget
from jissoku.targets.response import TargetResponse
from tests.inference import factories

# The cores of its targets, which this machine need not have.
CORES = (10, 11, 12, 13)

LOST = "the agent on srv:7470 has closed the connection, and ends the targets"

ANSWER = TargetResponse(
    status=200,
    reason="OK",
    fields=(("Content-Type", "text/plain"),),
    body=b"Hello, World!",
    keeps_alive=True,
)


class FakeTarget(RunningTarget):
    def __init__(self, prepared: PreparedTarget, host: "FakeHost") -> None:
        port = 18_000 + len(host.started)
        super().__init__(prepared.name, Address(host="192.0.2.1", port=port))
        self._host = host
        self.prepared = prepared

    @property
    def root(self) -> int | None:
        return None

    def is_alive(self) -> bool:
        return self.is_alive_after(0.0)

    def is_alive_after(self, limit_s: float) -> bool:
        del limit_s
        self._host.require()
        return True


class FakeObserver:
    """Has seen a quiet host."""

    def start(self) -> None:
        """Nothing."""

    def window_opened(self) -> None:
        """Nothing."""

    def window_closed(self) -> None:
        """Nothing."""

    def network_loss(self) -> str:
        return ""

    def finish(self, report: Report, times: WindowTimes) -> Observation:
        del report, times
        host = HostObservation(arms=(), steal_fraction=0.0, foreign_fraction=0.0, major_faults=0)
        return Observation(host=host)


class FakeInspector(LocalInspector):
    """Counts 400 calls of two kinds, one of which a knob of nginx avoids."""

    def __init__(self, running: RunningTarget, cores: CoreAssignment) -> None:
        super().__init__(running.root, cores)
        assert isinstance(running, FakeTarget)
        self._texts = [config.text for config in running.prepared.config]

    @contextmanager
    def counted(self) -> Iterator[Counts]:
        counts = Counts()
        yield counts
        opens = 0 if any("open_file_cache " in text for text in self._texts) else 400
        counts.calls = {"read": 400, "openat": opens}


class FakeHost(LocalHost):
    """Attributes: what was started, with its cores and workers; the cores that were observed.

    It is lost when load number `lost_at` begins, the first being 0.
    """

    is_local = False

    def __init__(self, lost_at: int = 1_000_000) -> None:
        super().__init__()
        self.lost_at = lost_at
        self.started: list[tuple[str, tuple[int, ...], int | None]] = []
        self.observed_cores: list[tuple[int, ...]] = []
        self.prepared: list[str] = []

    def require(self) -> None:
        """HostLost after the load at which it is lost has begun."""
        if self.lost:
            raise HostLost(self.lost)

    def prepare(self, recipe: Recipe, version: str) -> PreparedTarget:
        del version
        self.require()
        self.prepared.append(recipe.name)
        return PreparedTarget(
            name=recipe.name,
            origin=Origin.COMMAND,
            version=f"{recipe.name} 1.0",
            capabilities=frozenset(recipe.capabilities),
            start=recipe.start,
            config=recipe.config,
            compiles=False,
        )

    def prepare_command(self, text: str) -> PreparedTarget:
        name, _, command = text.partition("=")
        start = StartCommand(command=tuple(command.split()))
        return PreparedTarget(
            name=name, origin=Origin.COMMAND, version="1", start=start, compiles=False
        )

    @property
    def lost(self) -> str:  # type: ignore[override]
        return LOST if len(self.observed_cores) > self.lost_at else ""

    def assign_cores(self, server: str | None, generator: str | None) -> CoreAssignment:
        del server, generator
        return CoreAssignment(server=CORES, generator=available_cores()[-1:])

    def full_load_cores(self) -> CoreAssignment:
        return self.assign_cores(None, None)

    def machine(self) -> Machine:
        return updated(factories.MACHINE, cpu_model="the processor there")

    def describe(self, run: Run) -> Run:
        load = LoadHost(machine=run.machine, path=NetworkPath.WIRE, round_trip_ns=150_000)
        return updated(run, machine=self.machine(), load_host=load)

    def wait_for_idle_cores(self, cores: tuple[int, ...], give_up: Callable[[], bool]) -> float:
        del cores, give_up
        self.require()
        return 1.0

    def launcher(
        self, seed: int | str, cores: tuple[int, ...], workers: int | None
    ) -> "FakeLauncher":
        del seed
        return FakeLauncher(self, cores, workers)

    def wait_until_ready(
        self,
        running: RunningTarget,
        workload: Workload,
        give_up: Callable[[], bool],
        note: Callable[[str], object],
    ) -> TargetResponse:
        del running, workload, give_up, note
        self.require()
        return ANSWER

    def has_generated_code(self, running: RunningTarget) -> bool:
        del running
        return False

    def inspector(self, running: RunningTarget, cores: CoreAssignment) -> FakeInspector:
        self.require()
        return FakeInspector(running, cores)

    def observed(self, spec: LoadSpec, cores: CoreAssignment) -> tuple[LoadSpec, FakeObserver]:
        self.observed_cores.append(cores.server)
        self.require()
        return spec, FakeObserver()


class FakeLauncher:
    def __init__(self, host: FakeHost, cores: tuple[int, ...], workers: int | None) -> None:
        self._host = host
        self._cores = cores
        self._workers = workers

    def start(
        self, prepared: PreparedTarget, workload: Workload, promised: Container[int] = ()
    ) -> RunningTarget:
        del workload, promised
        self._host.require()
        self._host.started.append((prepared.name, self._cores, self._workers))
        return FakeTarget(prepared, self._host)


def fake_load(
    spec: LoadSpec, cores: CoreAssignment, *_: object, **__: object
) -> tuple[tuple[ArmMeasurement, ...], MachineConditions]:
    """In place of `run_load`: what a load generator reports of a server that is alike at any load.

    A rate that was asked for is answered, and the highest one differs a little from load to load.
    """
    del cores
    rate = spec.workload.rate_rps
    found = [
        factories.arm_measurement(
            name,
            requests=rate or 20_000 + (spec.seed + 7 * number) % 97,
            cpu_ns=100_000_000 + 1_000 * ((spec.seed + 31 * number) % 997),
            rate_rps_offered=None if rate is None else float(rate),
        )
        for number, name in enumerate(spec.arms)
    ]
    return tuple(found), factories.QUIET


def fake_requests(_: RequestTarget, requests: int) -> Counter[str]:
    """In place of requests that are sent one by one."""
    return Counter(requests=requests, connections=4, segments=requests, bytes=200 * requests)


def without_load(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets trials use `fake_load`, and take the first answer for granted."""
    monkeypatch.setattr("jissoku.measure.trial.run_load", fake_load)
    monkeypatch.setattr("jissoku.measure.host.run_load", fake_load)
    monkeypatch.setattr("jissoku.measure.pilot.send_request", lambda *_: ANSWER)
    monkeypatch.setattr("jissoku.measure.trial.verify", lambda *_: None)
    monkeypatch.setattr("jissoku.targets.launch.verify", lambda *_: None)
    monkeypatch.setattr("jissoku.measure.counting._send_requests", fake_requests)
