"""What the agent of a load host does for a client: sends load, to the hosts that it may.

A load generator is started and connects, then says that it is armed, and waits for the time at
which all of them begin. From there on it ends by itself, whatever becomes of the client.
"""

import subprocess
import threading
import time
from collections.abc import Callable, Collection
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import msgspec

from jissoku.errors import InputError
from jissoku.fleet import wire
from jissoku.fleet.load_wire import (
    Arm,
    Armed,
    Begin,
    ChooseLoadCores,
    DropLoad,
    EndLoad,
    LoadCores,
    LoadResult,
)
from jissoku.fleet.path import PathProbe
from jissoku.measure.loadgen import (
    Generated,
    LoadSpec,
    Share,
    command,
    files_of,
    monitored,
    seconds_at_most,
)
from jissoku.measure.observation import LocalObserver, ObservedTargets
from jissoku.model import CoreAssignment
from jissoku.model.run import NetworkPath
from jissoku.system.cores import partition_cores, pin_process, pin_thread, shared_with_agent
from jissoku.system.interfaces import path_kind

# The longest load, in seconds; no step of a comparison takes as long.
LOAD_MAX_S = 900.0

# Targets and load generators of one load, and connections of this one.
URLS_MAX = 64
SHARES_MAX = 1024
CONNECTIONS_MAX = 100_000

# How often a wait for a load generator asks whether its client is gone.
LOOK_S = 0.2

REFUSED = (
    "it sends no load{there}: with `jissoku agent --load-to HOST` its operator lets clients send"
    " load from it to that host"
)


@dataclass(slots=True)
class _Load:
    """A load generator that was started; `held` ends it, and what belongs to it."""

    process: subprocess.Popen[str]
    result: "Future[Generated]"
    observer: LocalObserver
    path: PathProbe
    held: ExitStack


class Loads:
    """The loads of one client, one after the other."""

    def __init__(
        self,
        here: str,
        allowed: Collection[str],
        usable: tuple[int, ...],
        *,
        is_same_machine: bool,
        give_up: Callable[[], bool],
    ) -> None:
        """Load may go to the `allowed` addresses, from the `usable` cores; `here` is our address.

        `is_same_machine`: the client is on this machine, and so are targets. `give_up` is asked
        while something is waited for.
        """
        self._here = here
        self._allowed = frozenset(allowed)
        self._usable = usable
        self._is_same_machine = is_same_machine
        self._give_up = give_up
        self._cores: tuple[int, ...] = ()
        self._held = ExitStack()
        self._load: _Load | None = None

    def answers(self) -> dict[type, Callable[[Any], msgspec.Struct]]:
        """What answers each request."""
        return {
            ChooseLoadCores: self._choose_cores,
            Arm: self._arm,
            Begin: self._begin,
            EndLoad: self._end,
            DropLoad: self._drop,
        }

    def close(self) -> None:
        """Ends the load generator; it can be called by another thread."""
        self._discard()
        self._held.close()

    def _choose_cores(self, asked: ChooseLoadCores) -> LoadCores:
        """All but the last physical core, which is the agent's, or the load's half of a machine."""
        if asked.server not in self._allowed:
            raise InputError(REFUSED.format(there=" there" if self._allowed else ""))
        if self._cores:
            raise InputError("the cores are chosen already")
        half = (
            partition_cores(self._usable).generator
            if self._is_same_machine and not asked.given
            else None
        )
        self._cores, own = shared_with_agent(self._usable, asked.given, half)
        self._held.enter_context(pin_process(own))
        path = NetworkPath(path_kind(self._here, asked.server))
        return LoadCores(generator=self._cores, path=path)

    def _check(self, spec: LoadSpec, share: Share) -> None:
        """InputError for a load that no comparison asks for, or that may not go there."""
        for url in spec.urls:
            parts = urlsplit(url)
            if parts.scheme not in {"http", "https"} or parts.hostname not in self._allowed:
                raise InputError(REFUSED.format(there=" there"))
        if not self._cores:
            raise InputError("no cores are chosen")
        if not 0 <= share.number < share.of <= SHARES_MAX:
            raise InputError(f"a load has between 1 and {SHARES_MAX} shares")
        if not 1 <= share.connections(spec.workload.connections) <= CONNECTIONS_MAX:
            raise InputError(f"a share has between 1 and {CONNECTIONS_MAX:,} connections")
        if len(spec.urls) > URLS_MAX or seconds_at_most(spec) > LOAD_MAX_S:
            raise InputError("the load is too long, or has too many targets")

    def _arm(self, asked: Arm) -> Armed:
        self._discard()
        self._check(asked.spec, asked.share)
        if asked.echo is not None and asked.echo.host not in self._allowed:
            raise InputError(REFUSED.format(there=" there"))
        load, armed = self._started(asked)
        self._load = load
        while not armed.wait(LOOK_S):
            if load.result.done() or self._give_up():
                break
        if armed.is_set():
            load.path.measure_idle()
            return Armed(is_armed=True)
        load.process.kill()
        said = load.result.result()
        self._discard()
        return Armed(is_armed=False, stderr=said.stderr, code=said.code)

    def _started(self, asked: Arm) -> tuple[_Load, threading.Event]:
        armed = threading.Event()
        cores = CoreAssignment(server=(), generator=self._cores)
        with ExitStack() as held:
            words = command(
                asked.spec, held.enter_context(files_of(asked.spec)), cores, asked.share
            )
            with pin_thread(self._cores):  # The process inherits it.
                pipe = subprocess.PIPE
                started = subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
            process = held.enter_context(started)
            held.callback(process.kill)
            watchdog = threading.Timer(seconds_at_most(asked.spec), process.kill)
            watchdog.daemon = True
            held.callback(watchdog.cancel)
            watchdog.start()
            observed = ObservedTargets(
                roots=(), ports=(), bystanders=(process.pid,), cores=self._cores
            )
            observer, path = LocalObserver(observed), PathProbe(asked.echo)
            observer.start()
            reader = held.enter_context(ThreadPoolExecutor(1))
            result = reader.submit(monitored, process, observer, on_armed=armed.set)
            held.callback(path.stop)
            # The reader's end waits for that of the process.
            held.callback(process.kill)
            return _Load(process, result, observer, path, held.pop_all()), armed

    def _begin(self, asked: Begin) -> wire.Answer:
        load = self._running()
        assert load.process.stdin is not None
        try:
            load.process.stdin.write(f"{asked.start_ns}\n")
            load.process.stdin.close()
        except OSError:
            pass  # It has ended; its result says why.
        load.path.start(max(0, asked.start_ns - time.monotonic_ns()) / 1e9)
        return wire.Answer(is_true=True)

    def _end(self, asked: EndLoad) -> LoadResult:
        del asked
        load = self._running()
        while not load.result.done() and not self._give_up():
            wait([load.result], LOOK_S)
        if not load.result.done():
            load.process.kill()
        load.path.stop()
        said = load.result.result()
        found = LoadResult(
            report=said.report,
            stderr=said.stderr,
            code=said.code,
            wait_fraction=said.wait_fraction,
            host=load.observer.counted(),
            path=load.path.times(),
        )
        self._discard()
        return found

    def _drop(self, asked: DropLoad) -> wire.Answer:
        del asked
        self._discard()
        return wire.Answer(is_true=True)

    def _running(self) -> _Load:
        if self._load is None:
            raise InputError("no load is armed")
        return self._load

    def _discard(self) -> None:
        load, self._load = self._load, None
        if load is not None:
            load.held.close()
