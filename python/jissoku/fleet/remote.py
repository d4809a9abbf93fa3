"""The host of an agent, as a comparison uses it: `ServerHost` over one connection."""

import http.client
import random
import time
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

from jissoku.errors import HostLost, InputError, JissokuError, TargetError
from jissoku.fleet import wire
from jissoku.fleet.channel import Channel, GaveUp
from jissoku.fleet.clock import Translation, window_edges
from jissoku.fleet.config_wire import PREFIX, PrepareConfigured
from jissoku.fleet.counts import Spans, observation
from jissoku.fleet.inspection import RemoteInspector
from jissoku.fleet.installed import recipes
from jissoku.fleet.keys import ListenAddress
from jissoku.fleet.link import ANSWER_S, Link
from jissoku.fleet.repository import RemoteRepository
from jissoku.measure.conditions import expired_timers
from jissoku.measure.host import EmulatedNetwork, TargetLauncher
from jissoku.measure.inspection import Inspector
from jissoku.measure.knob_changes import TuningTarget, difference, target_of_file
from jissoku.measure.loadgen import Generate, LoadgenError, LoadSpec, generate_here
from jissoku.measure.machine import machine
from jissoku.measure.microbenchmark import ROUND_LIMIT_S, BenchmarkRound
from jissoku.measure.observation import Observation, Observer, Report, WindowTimes
from jissoku.model import (
    CoreAssignment,
    Knob,
    Recipe,
    Run,
    Transport,
    UnavailableTarget,
    Workload,
    plural,
    updated,
)
from jissoku.model.experiment import ConfigChange, Microbenchmark
from jissoku.model.run import LoadHost, NetworkPath
from jissoku.system import cores as core_lists
from jissoku.system.address import HOST, Address
from jissoku.system.cores import available_cores, partition_cores
from jissoku.system.interfaces import path_kind
from jissoku.targets.command import from_url, read_command
from jissoku.targets.launch import wait_until_ready
from jissoku.targets.prepare import PreparedTarget
from jissoku.targets.process import RunningTarget
from jissoku.targets.response import TargetResponse, send_request

# How long the longest things take that an agent does: a build, a start with its server behind it,
# the end of a target that does not stop.
PREPARE_S = 1500.0
READY_S = 60.0
STOP_S = 60.0


class RemoteHost(Link):
    """An agent's host, with targets."""

    is_local = False
    network: EmulatedNetwork | None = None
    generate: Generate = staticmethod(generate_here)
    at_its_end = "ends the targets"

    def __init__(self, address: ListenAddress, channel: Channel, welcome: wire.Welcome) -> None:
        """Takes over an open channel, after the agent's welcome."""
        super().__init__(address, channel, welcome)
        # Prepared targets that the agent has, with its number of each.
        self._prepared: list[tuple[PreparedTarget, int]] = []
        # Each with the target whose runtime has names for a sampler.
        self._named: list[tuple[PreparedTarget, PreparedTarget]] = []
        # Targets with knobs, by the agent's number and the names of these.
        self._switched: dict[tuple[int, tuple[str, ...]], PreparedTarget] = {}
        self._server_cores: tuple[int, ...] = ()
        self._assigned: CoreAssignment | None = None
        # Targets by their address, as URLs have it.
        self._targets: dict[str, int] = {}

    def prepare(self, recipe: Recipe, version: str) -> PreparedTarget | UnavailableTarget:
        sent = None if recipes().get(recipe.name) == recipe else recipe
        asked = wire.Prepare(recipe=recipe.name, version=version, sent=sent)
        found = self.ask(asked, wire.PrepareResult, PREPARE_S)
        return found.unavailable or self._known(found)

    def prepare_command(self, text: str) -> PreparedTarget:
        """Reads `NAME=COMMAND` there, if the agent allows commands."""
        command = read_command(text)
        if command.listens != "port":
            raise InputError(
                f"--cmd {command.name}: a Unix socket cannot be reached from another host; write"
                " {port}"
            )
        return self._known(self.ask(wire.PrepareCommand(text=text), wire.PrepareResult))

    def prepare_url(self, text: str) -> PreparedTarget:
        """A server that runs there already, if the agent's operator has named it."""
        prepared = from_url(text)
        assert prepared.address is not None, "it has a URL"
        asked = wire.PrepareUrl(name=prepared.name, url=prepared.address.url())
        found = self.ask(asked, wire.PrepareResult)
        if found.prepared is None:
            raise self._lose("offers no target")
        self._prepared.append((prepared, found.prepared.handle))
        return prepared

    def has_processes(self, prepared: PreparedTarget) -> bool:
        """The agent offers only what it can read."""
        del prepared
        return True

    def repository(self) -> RemoteRepository:
        """That of the folder in which the agent was started, if it allows commands."""
        return RemoteRepository(self.ask, self._known)

    def _known(self, found: wire.PrepareResult) -> PreparedTarget:
        """A target that the agent has prepared; from now on it can be started."""
        offered = found.prepared
        if offered is None:
            raise self._lose("offers no target")
        target = PreparedTarget(
            name=offered.name,
            origin=offered.origin,
            version=offered.version,
            capabilities=frozenset(offered.capabilities),
            description=offered.description,
            limitations=offered.limitations,
            binary_sha256=offered.binary_sha256,
            source_sha256=offered.source_sha256,
            start=offered.start,
            config=offered.config,
            compiles=offered.compiles,
            values={"program": offered.program},
        )
        self._prepared.append((target, offered.handle))
        return target

    def with_changes(
        self, prepared: PreparedTarget, changes: tuple[ConfigChange, ...], upstream: Transport
    ) -> PreparedTarget:
        """Changed by the agent, which makes those of its own experiments, or any it allows."""
        if not changes and upstream is Transport.TCP:
            return prepared
        number = self._number_of(prepared)
        asked = wire.PrepareChanged(prepared=number, changes=changes, upstream=upstream)
        return self._known(self.ask(asked, wire.PrepareResult))

    def prepare_benchmark(
        self, benchmark: Microbenchmark, prepared: PreparedTarget | None
    ) -> BenchmarkRound:
        """Run by the agent, which runs those of its own experiments, or any it allows."""
        number = None if prepared is None else self._number_of(prepared)
        asked = wire.PrepareBenchmark(benchmark=benchmark, prepared=number)
        found = self.ask(asked, wire.BenchmarkNumber)

        def run(cores: tuple[int, ...]) -> dict[str, float]:
            del cores  # It knows them.
            limit_s = ROUND_LIMIT_S + ANSWER_S
            return self.ask(wire.RunBenchmark(number=found.number), wire.Figures, limit_s).values

        return run

    def tuning_target(
        self, base: PreparedTarget, recipe: Recipe, knobs: Sequence[Knob]
    ) -> TuningTarget:
        """With knobs of the agent's own recipe."""
        self.production_cores()  # Whether a knob has an effect can depend on them.
        names = tuple(knob.name for knob in knobs)
        asked = wire.AskKnobs(prepared=self._number_of(base), names=names)
        return self._tuned(recipe.name, base, self.ask(asked, wire.Knobs))

    def tuning_target_of_file(
        self, base: PreparedTarget, recipe: Recipe, knobs: Sequence[Knob], file: Path, listen: str
    ) -> TuningTarget:
        """It is read and changed here, and its text is sent; what it names has to be there."""
        there = len(self.production_cores().server), PREFIX
        found = target_of_file(base, recipe, knobs, file, listen, there)

        @cache
        def prepared(names: tuple[str, ...]) -> PreparedTarget:
            return self._configured(base, found.prepared(names))

        changes = tuple(one.replace(HOST, "its host") for one in found.sandbox)
        return updated(found, prepared=prepared, sandbox=changes)

    def _configured(self, base: PreparedTarget, made: PreparedTarget) -> PreparedTarget:
        assert made.start is not None, "a configuration is run"
        asked = PrepareConfigured(
            prepared=self._number_of(base),
            name=made.name,
            command=made.start.command,
            config=made.config,
            is_tls=made.is_tls,
            upstreams=made.user_upstreams,
            folder=str(made.folder or ""),
        )
        return self._known(self.ask(asked, wire.PrepareResult))

    def tuning_target_of_command(
        self, base: PreparedTarget, recipes: Mapping[str, Recipe]
    ) -> TuningTarget | None:
        """With knobs of the recipes that the agent has."""
        del recipes
        self.production_cores()
        found = self.ask(wire.AskKnobs(prepared=self._number_of(base)), wire.Knobs)
        return self._tuned(base.name, base, found) if found.is_known else None

    def _tuned(self, name: str, base: PreparedTarget, found: wire.Knobs) -> TuningTarget:
        number = self._number_of(base)

        def switched(knobs: tuple[str, ...]) -> PreparedTarget:
            if not knobs:
                return base
            if (number, knobs) not in self._switched:
                asked = wire.PrepareSwitched(prepared=number, knobs=knobs)
                made = self._known(self.ask(asked, wire.PrepareResult))
                self._switched[number, knobs] = made
            return self._switched[number, knobs]

        return TuningTarget(
            name=name,
            knobs=found.knobs,
            skipped=found.skipped,
            prepared=switched,
            diff=lambda knobs: difference(base, switched(knobs)),
        )

    def assign_cores(self, server: str | None, generator: str | None) -> CoreAssignment:
        """Chosen once for a session: later calls have what the first one got."""
        if self._assigned is None:
            self._assigned = self._chosen_cores(server, generator)
        return self._assigned

    def _chosen_cores(self, server: str | None, generator: str | None) -> CoreAssignment:
        chosen = self.ask(wire.ChooseCores(given=server), wire.ChosenCores)
        self._server_cores = chosen.server
        mine = core_lists.parse(generator) if generator else available_cores()
        if self.is_same_machine and not generator:
            mine = partition_cores(available_cores()).generator
        is_shared = self.is_same_machine and bool(set(mine) & set(chosen.server))
        return CoreAssignment(server=chosen.server, generator=mine, shared=is_shared)

    def production_cores(self) -> CoreAssignment:
        """All that the agent gives to targets: the load has none of them."""
        return self.assign_cores(None, None)

    def full_load_cores(self) -> CoreAssignment:
        return self.production_cores()

    def remarks(self) -> tuple[str, ...]:
        path, trip_us = self._path(), self.clock().round_trip_ns / 1000
        over = "a network" if path is NetworkPath.WIRE else f"a {path} interface"
        load = f"The load came from a client of an agent, over {over}"
        return (f"{load}; the shortest round trip took {trip_us:,.0f} µs.",)

    def with_names(self, prepared: PreparedTarget) -> PreparedTarget:
        for known, named in self._named:
            if known is prepared:
                return named
        asked = wire.PrepareNamed(prepared=self._number_of(prepared))
        named = self._known(self.ask(asked, wire.PrepareResult))
        self._named.append((prepared, named))
        return named

    def _path(self) -> NetworkPath:
        return NetworkPath(path_kind(*self._channel.addresses()))

    def describe(self, run: Run) -> Run:
        load = LoadHost(
            machine=machine(), path=self._path(), round_trip_ns=self.clock().round_trip_ns
        )
        there = self._welcome
        return updated(run, machine=there.machine, boot=there.boot, load_host=load)

    def wait_for_idle_cores(
        self, cores: tuple[int, ...], give_up: Callable[[], bool]
    ) -> float | None:
        """Waits there for at most about a second."""
        del give_up
        asked = wire.AwaitIdleCores(cores=self._some(cores))
        return self.ask(asked, wire.IdleFraction).fraction

    def _some(self, cores: tuple[int, ...]) -> tuple[int, ...]:
        """Cores of the targets as a message has them: none are all of them."""
        return () if cores == self._server_cores else cores

    def launcher(
        self, seed: int | str, cores: tuple[int, ...], workers: int | None
    ) -> TargetLauncher:
        """Starts targets there, on the cores that were assigned or some of them."""
        return _RemoteLauncher(self, seed, self._some(cores), workers)

    def _number_of(self, prepared: PreparedTarget) -> int:
        """The agent's number of a target that it has prepared."""
        return next(number for known, number in self._prepared if known is prepared)

    def start(
        self,
        prepared: PreparedTarget,
        workload: Workload,
        *,
        seed: int,
        cores: tuple[int, ...],
        workers: int | None,
    ) -> RunningTarget:
        """Starts it on these of the targets' cores, or on all."""
        asked = wire.Start(
            prepared=self._number_of(prepared),
            workload=workload,
            seed=seed,
            cores=cores,
            workers=workers,
        )
        found = self.ask(asked, wire.Started, READY_S)
        own = Address(host=self._welcome.host, port=found.port, is_tls=found.is_tls)
        address = prepared.address or own
        self._targets[address.authority] = found.target
        is_ours = prepared.address is None
        return RemoteTarget(prepared.name, address, self, found.target, is_ours=is_ours)

    def wait_until_ready(
        self,
        running: RunningTarget,
        workload: Workload,
        give_up: Callable[[], bool],
        note: Callable[[str], object],
    ) -> TargetResponse:
        """The agent waits for an answer on its host; the one that counts comes over the network.

        A server that runs already is waited for from here only.
        """
        assert isinstance(running, RemoteTarget)
        if not running.is_ours:
            return self._first_answer(running, workload, give_up, note)
        asked = wire.AwaitReady(target=running.handle, workload=workload)
        try:
            self.ask(asked, wire.Answer, READY_S, give_up)
        except GaveUp as error:
            raise TargetError(f"waiting for {running.name} was given up") from error
        try:
            return send_request(running.address, workload)
        except (OSError, http.client.HTTPException) as error:
            self._round_trip()  # Without the host, that is the reason.
            raise TargetError(
                f"{running.name} answers on its own host, and not from this one at"
                f" {running.address.url()}: {error}; a firewall may be between both"
            ) from error

    def _first_answer(
        self,
        running: RunningTarget,
        workload: Workload,
        give_up: Callable[[], bool],
        note: Callable[[str], object],
    ) -> TargetResponse:
        try:
            return wait_until_ready(running, workload, give_up=give_up, note=note)
        except TargetError:
            self._round_trip()  # Without the host, that is the reason.
            raise

    def has_generated_code(self, running: RunningTarget) -> bool:
        assert isinstance(running, RemoteTarget)
        return self.ask(wire.AskCode(target=running.handle), wire.Answer).is_true

    def observed(self, spec: LoadSpec, cores: CoreAssignment) -> tuple[LoadSpec, Observer]:
        """The load without the time for watching idle targets, which is before it."""
        handles = [self._targets[urlsplit(url).netloc] for url in spec.urls]
        observed = wire.Observe(targets=tuple(handles), cores=self._some(cores.server))
        idle_ns = spec.timing.idle_watch_ns
        plain = updated(spec, timing=updated(spec.timing, idle_watch_ns=0), own_processes=())
        return plain, RemoteObserver(self, observed, idle_ns)

    def inspector(self, running: RunningTarget, cores: CoreAssignment) -> Inspector:
        """Reads there, on the agent's own cores."""
        del cores
        assert isinstance(running, RemoteTarget)
        return RemoteInspector(self.ask, running.handle)

    def syscall_costs(self) -> dict[str, float]:
        return self.ask(wire.AskCosts(), wire.Costs).ns


class _RemoteLauncher:
    def __init__(
        self, host: RemoteHost, seed: int | str, cores: tuple[int, ...], workers: int | None
    ) -> None:
        self._host = host
        self._rng = random.Random(seed)
        self._cores = cores
        self._workers = workers

    def start(
        self, prepared: PreparedTarget, workload: Workload, promised: Container[int] = ()
    ) -> RunningTarget:
        """Starts it on a port of the agent's choice, which knows the others."""
        del promised
        return self._host.start(
            prepared,
            workload,
            seed=self._rng.getrandbits(31),
            cores=self._cores,
            workers=self._workers,
        )


class RemoteTarget(RunningTarget):
    """A target that an agent has started, or a server that runs there and is not `is_ours`."""

    def __init__(
        self, name: str, address: Address, host: RemoteHost, handle: int, *, is_ours: bool = True
    ) -> None:
        super().__init__(name, address)
        self._host = host
        self.handle = handle
        self.is_ours = is_ours

    @property
    def root(self) -> int | None:
        """None: its processes are not on this machine."""
        return None

    def upstream_pids(self) -> list[int]:
        return []

    def is_alive(self) -> bool:
        return self.is_alive_after(0.0)

    def is_alive_after(self, limit_s: float) -> bool:
        return self._state(limit_s).is_alive

    def exit_description(self) -> str:
        return self._state().exit_description

    def output_tail(self) -> str:
        if self._stopped or self._host.lost:
            return self._last_output
        return self._state().output_tail

    def output_bytes(self) -> int:
        return self._state().output_bytes

    def stop(self) -> bool:
        """As that of a local target; an agent that has lost us ends it by itself."""
        if self._stopped or self._host.lost:
            return True
        with suppress(HostLost):
            self._last_output = self.output_tail()
            self._stopped = True
            return self._host.ask(wire.Stop(target=self.handle), wire.Answer, STOP_S).is_true
        return True

    def _state(self, limit_s: float = 0.0) -> wire.State:
        return self._host.ask(wire.AskState(target=self.handle, limit_s=limit_s), wire.State)


class RemoteObserver:
    """Observes targets on an agent's host; while load is measured, no message is sent."""

    def __init__(self, host: RemoteHost, observed: wire.Observe, idle_ns: int) -> None:
        """`idle_ns` is how long the targets are watched without load first."""
        self._host = host
        self._observed = observed
        self._idle_ns = idle_ns

    def start(self) -> None:
        """LoadgenError if the agent cannot observe the targets."""
        with _unobserved():
            self._before = self._host.clock()
            self._expired = expired_timers()
            self._host.ask(self._observed, wire.Answer)
        began_ns = time.monotonic_ns()
        time.sleep(self._idle_ns / 1e9)
        # The agent has just read a lot: the first quarter is left out.
        ended_ns = time.monotonic_ns()
        self._idle = (began_ns + (ended_ns - began_ns) // 4, ended_ns) if self._idle_ns else (0, 0)

    def network_loss(self) -> str:
        count = expired_timers() - self._expired
        if count <= 0:
            return ""
        return (
            f"the network is the likely reason: a retransmission timer of this host expired {count}"
            f" {plural(count, 'time')} meanwhile"
        )

    def window_opened(self) -> None:
        pass

    def window_closed(self) -> None:
        pass

    def finish(self, report: Report, times: WindowTimes) -> Observation:
        """LoadgenError if the edges of the window are unknown, or the targets were not observed."""
        if times.opened_ns is None or times.closed_ns is None:
            raise LoadgenError("the load generator has not reported the edges of its window")
        lasted_ns = max(target["duration_ns"] for target in report["targets"])
        open_ns, close_ns, slack_ns = window_edges(times.opened_ns, times.closed_ns, lasted_ns)
        idle = self._idle if self._idle_ns else (open_ns, open_ns)
        spans = Spans.of(report, open_ns, close_ns, idle)
        with _unobserved():
            translation = Translation(before=self._before, after=self._host.clock())
            at_ns = tuple(map(translation.there_ns, spans.instants_ns()))
            counters = self._host.ask(wire.EndObservation(at_ns=at_ns), wire.Counters)
            return observation(report, spans, counters, translation, slack_ns)


@contextmanager
def _unobserved() -> Iterator[None]:
    """What the agent could not observe is one load without a result, and no end of the run."""
    try:
        yield
    except (HostLost, LoadgenError):
        raise
    except JissokuError as error:
        raise LoadgenError(f"the targets were not observed: {error}") from error
