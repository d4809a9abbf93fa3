"""What an agent does for one client: prepares, starts, observes and ends targets.

A client names recipes of this installation, and nothing else of this host: no path, no address to
listen on, and no command or server unless the agent was started with options that allow it.
Whatever was started ends with the session, and at its own time in any case.
"""

import random
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import Any

import msgspec

from jissoku.errors import InputError, JissokuError, TargetError
from jissoku.fleet import wire
from jissoku.fleet.inspection import Inspections
from jissoku.fleet.installed import Installed
from jissoku.fleet.loads import Loads
from jissoku.fleet.meter import Meter
from jissoku.fleet.permissions import Permissions
from jissoku.fleet.preparing import NO_SOCKET, Preparations
from jissoku.fleet.repository import Checkouts
from jissoku.measure.inspection import LocalInspector
from jissoku.measure.machine import boot, machine
from jissoku.measure.observation import LocalObserver, ObservedTargets
from jissoku.measure.sampler import remove_perf_maps
from jissoku.model import CoreAssignment, Transport, Workload
from jissoku.system.cores import (
    QuietCores,
    available_cores,
    partition_cores,
    pin_process,
    shared_with_agent,
)
from jissoku.system.processes import has_generated_code, process_tree
from jissoku.targets import launch
from jissoku.targets.launch import Launcher
from jissoku.targets.process import RunningTarget

# A target ends after this time, whatever its client does: no step of a comparison takes as long.
TARGET_LIFE_S = 1800.0

# Targets that run at once; a comparison starts one for each arm.
TARGETS_MAX = 64

# How long a question about a target's end may wait.
STATE_LIMIT_S = 2.0

# Instants whose counters can be asked for at once.
INSTANTS_MAX = 100_000


@dataclass(slots=True)
class _Running:
    """A target with what ends it; with names, its runtime leaves files for samplers."""

    target: RunningTarget
    end: threading.Timer
    has_names: bool
    ending: threading.Lock = field(default_factory=threading.Lock)

    def stop(self) -> bool:
        """Ends it once, for its session or its timer, the first of both."""
        self.end.cancel()
        with self.ending:
            if self.has_names:
                remove_perf_maps(self.target)
            return self.target.stop()


class Session:
    """The targets of one client. `close` ends everything, and can be called by another thread."""

    def __init__(
        self,
        host: str,
        *,
        is_same_machine: bool,
        permissions: Permissions,
        give_up: Callable[[], bool] = lambda: False,
    ) -> None:
        """Targets listen on the IP address `host`.

        `is_same_machine`: the load comes from this machine, too, which the client's half of the
        cores is left to. `give_up` is asked while something is waited for.
        """
        self._host = host
        self._is_same_machine = is_same_machine
        self._give_up = give_up
        self._preparations = Preparations(permissions)
        self._checkouts = Checkouts(permissions, self._preparations)
        self._inspections = Inspections(self._inspector)
        self._installed = Installed(
            permissions, self._preparations, lambda: self._cores_of_targets(())
        )
        self._running: dict[int, _Running] = {}
        self._started = 0
        self._usable = available_cores()
        self._loads = Loads(
            host,
            permissions.load_to,
            self._usable,
            is_same_machine=is_same_machine,
            give_up=give_up,
        )
        self._cores: tuple[int, ...] = ()
        self._agent_cores: tuple[int, ...] = ()
        self._quiet: dict[tuple[int, ...], QuietCores] = {}
        self._observing: tuple[LocalObserver, Meter, tuple[int, ...]] | None = None
        self._held = ExitStack()

    def welcome(self) -> wire.Welcome:
        return wire.Welcome(machine=machine(), boot=boot(), host=self._host)

    def handle(self, request: wire.Request) -> msgspec.Struct:
        """The result of a request; JissokuError if it is refused or fails."""
        answers: dict[type, Callable[[Any], msgspec.Struct]] = {
            wire.AskTime: self._time,
            wire.ChooseCores: self._choose_cores,
            wire.AwaitIdleCores: self._wait_for_idle_cores,
            wire.Start: self._start,
            wire.AwaitReady: self._wait_until_ready,
            wire.AskState: self._state,
            wire.AskCode: self._code,
            wire.Stop: self._stop,
            wire.Observe: self._observe,
            wire.EndObservation: self._end_observation,
            **self._preparations.answers(),
            **self._checkouts.answers(),
            **self._inspections.answers(),
            **self._installed.answers(),
            **self._loads.answers(),
        }
        return answers[type(request)](request)

    def close(self) -> None:
        """Ends all targets; the first that cannot be ended is a TargetError, after all others."""
        failed: list[TargetError] = []
        self._discard_observation()
        self._inspections.discard()
        self._loads.close()
        for running in list(self._running.values()):
            try:
                running.stop()
            except TargetError as error:
                failed.append(error)
        self._running = {}
        self._checkouts.close()
        self._held.close()
        if failed:
            raise failed[0]

    def _time(self, asked: wire.AskTime) -> wire.TimeThere:
        del asked
        return wire.TimeThere(at_ns=time.monotonic_ns())

    def _choose_cores(self, asked: wire.ChooseCores) -> wire.ChosenCores:
        """All but the last physical core, or the first half beside the load; one is for us."""
        if self._cores:
            raise InputError("the cores are chosen already")
        half = (
            partition_cores(self._usable).server
            if self._is_same_machine and not asked.given
            else None
        )
        self._cores, self._agent_cores = shared_with_agent(self._usable, asked.given, half)
        self._held.enter_context(pin_process(self._agent_cores))
        return wire.ChosenCores(server=self._cores, agent=self._agent_cores)

    def _wait_for_idle_cores(self, asked: wire.AwaitIdleCores) -> wire.IdleFraction:
        cores = self._cores_of_targets(asked.cores)
        quiet = self._quiet.setdefault(cores, QuietCores(cores))
        return wire.IdleFraction(fraction=quiet.wait(give_up=self._give_up))

    def _cores_of_targets(self, asked: tuple[int, ...]) -> tuple[int, ...]:
        """Those of the targets that were asked for, or all."""
        if not self._cores:
            raise InputError("no cores are chosen")
        if not set(asked) <= set(self._cores):
            raise InputError(f"the cores of targets are {', '.join(map(str, self._cores))} here")
        return asked or self._cores

    def _start(self, asked: wire.Start) -> wire.Started:
        cores = self._cores_of_targets(asked.cores)
        prepared = self._preparations.target(asked.prepared)
        if len(self._running) >= TARGETS_MAX:
            raise InputError(f"{TARGETS_MAX} targets run already")
        _require_tcp(asked.workload)
        if prepared.address is None and not prepared.listen.tcp:
            raise InputError(f"{prepared.name}: {NO_SOCKET}")
        launcher = Launcher(
            cores=cores,
            rng=random.Random(asked.seed),
            workers=asked.workers,
            host=self._host,
        )
        promised = {one.target.address.port for one in self._running.values()}
        target = launcher.start(prepared, asked.workload, promised)
        self._started += 1
        end = threading.Timer(TARGET_LIFE_S, self._end_in_time, (self._started,))
        end.daemon = True
        has_names = asked.prepared in self._preparations.named
        self._running[self._started] = _Running(target, end, has_names)
        end.start()
        address = target.address
        return wire.Started(target=self._started, port=address.port, is_tls=address.is_tls)

    def _end_in_time(self, number: int) -> None:
        running = self._running.get(number)
        if running is not None:
            with suppress(TargetError):
                running.stop()

    def _wait_until_ready(self, asked: wire.AwaitReady) -> wire.Answer:
        _require_tcp(asked.workload)
        target = self._target(asked.target)
        launch.wait_until_ready(target, asked.workload, give_up=self._give_up)
        return wire.Answer(is_true=True)

    def _state(self, asked: wire.AskState) -> wire.State:
        target = self._target(asked.target)
        return wire.State(
            is_alive=target.is_alive_after(min(max(0.0, asked.limit_s), STATE_LIMIT_S)),
            exit_description=target.exit_description(),
            output_tail=target.output_tail(),
            output_bytes=target.output_bytes(),
        )

    def _code(self, asked: wire.AskCode) -> wire.Answer:
        pids = process_tree(self._target(asked.target).root)
        return wire.Answer(is_true=has_generated_code(pids))

    def _stop(self, asked: wire.Stop) -> wire.Answer:
        self._target(asked.target)
        self._inspections.discard(asked.target)
        return wire.Answer(is_true=self._running.pop(asked.target).stop())

    def _inspector(self, number: int) -> LocalInspector:
        """Reads of a target; what reads runs on the agent's cores."""
        own = self._agent_cores
        shared = not set(own).isdisjoint(self._cores)
        cores = CoreAssignment(server=self._cores, generator=own, shared=shared)
        return LocalInspector(self._target(number).root, cores)

    def _target(self, number: int) -> RunningTarget:
        if number not in self._running:
            raise InputError(f"no target {number} runs here")
        return self._running[number].target

    def _observe(self, asked: wire.Observe) -> wire.Answer:
        self._discard_observation()
        numbers = asked.targets
        targets = [self._target(number) for number in numbers]
        cores = self._cores_of_targets(asked.cores)
        roots = [_root(target) for target in targets]
        others = [one.target.root for key, one in self._running.items() if key not in numbers]
        for one in self._running.values():
            others += one.target.upstream_pids()
        observer = LocalObserver(
            ObservedTargets(
                roots=tuple(roots),
                ports=tuple(target.address.port for target in targets),
                bystanders=tuple(pid for pid in others if pid is not None),
                cores=cores,
            )
        )
        observer.start()
        meter = Meter(roots, cores)
        self._observing = observer, meter, cores
        meter.start()
        return wire.Answer(is_true=True)

    def _end_observation(self, asked: wire.EndObservation) -> wire.Counters:
        at_ns = asked.at_ns
        if self._observing is None:
            raise InputError("nothing is observed")
        if len(at_ns) > INSTANTS_MAX:
            raise InputError(f"at most {INSTANTS_MAX:,} instants can be asked for at once")
        observer, meter, cores = self._observing
        observer.read_memory()
        self._discard_observation()
        if not meter.cpu.covers(at_ns):
            raise JissokuError(
                "the CPU time of the targets was not read all the time: the agent had no core"
            )
        arms = len(meter.cpu.values[0])
        waits = meter.waits.at(at_ns) if meter.knows_waits else None
        ticks = meter.ticks.at(at_ns)
        is_apart = set(self._agent_cores).isdisjoint(self._cores)
        return wire.Counters(
            host=observer.counted(),
            cpu_ns=_fixed(meter.cpu.at(at_ns)),
            beyond_ns=meter.beyond_ns(),
            wait_ns=None if waits is None else _fixed(waits[:arms]),
            runs=None if waits is None else _fixed(waits[arms:]),
            idle_ns=tuple(ticks[0]),
            kernel_ns=tuple(ticks[1]),
            gap_ns=meter.cpu.gap_ns(at_ns),
            cores=len(cores) if is_apart else 0,
        )

    def _discard_observation(self) -> None:
        if self._observing is not None:
            self._observing[1].stop()
        self._observing = None


def _root(target: RunningTarget) -> int:
    """Its first process, or the one that listens; TargetError if that has gone."""
    found = target.root
    if found is None:
        raise TargetError(f"no process of {target.name} listens any more")
    return found


def _fixed(series: list[list[int]]) -> tuple[tuple[int, ...], ...]:
    return tuple(map(tuple, series))


def _require_tcp(workload: Workload) -> None:
    if workload.transport is not Transport.TCP:
        raise InputError(NO_SOCKET)
