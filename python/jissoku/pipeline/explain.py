"""Why a target is as fast as it is: one probe after the other, then the rules.

Each probe has a fresh start of the target. Nothing here is a measurement that a verdict could rest
on: the probes disturb what they look at.
"""

import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import TypeVar

from jissoku.errors import TargetError
from jissoku.explain import diff, findings
from jissoku.interruption import Interrupted, Interruption
from jissoku.model import Cores, Part, Transport, Workload
from jissoku.model.finding import Explanation
from jissoku.model.observed import Load, Lost, Observed, Timers
from jissoku.observe import cores, memory
from jissoku.observe.probes import calls, idle, load, prices, waiting, wire
from jissoku.observe.probes.client import Asking, ProbeError
from jissoku.observe.stopwatch import Lap
from jissoku.targets import answer, process, ready
from jissoku.targets.address import free_port
from jissoku.targets.owner import owner
from jissoku.targets.prepare import Prepared
from jissoku.targets.process import Placement, Running

Seen = TypeVar("Seen")

WARMUP_NS = 300_000_000
WINDOW_NS = 1_500_000_000

# Few at once, each soon due, so that the timers are looked at often.
SHORT_DELAYS = Workload(path="/delay?ms=1", connections=8)
DELAYS_WARMUP_NS = 100_000_000
DELAYS_WINDOW_NS = 700_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Whom to look at, and what is asked of it.

    Attributes:
        floor: The floor, where it can answer what is asked; its cost is the part of the kernel.
    """

    prepared: Prepared
    workload: Workload
    floor: Prepared | None = None
    seed: int = 0


def explain(question: Question, note: Callable[[str], None]) -> Explanation | None:
    """Looks at a target in every way there is, and names the causes that were found.

    Returns:
        None if somebody interrupted it; nothing that was started is left.

    Raises:
        TargetError: It cannot be started, dies, or gives no good answer.
    """
    with Interruption() as interruption:
        try:
            observed = _Observer(question, note, interruption).look()
        except Interrupted:
            return None
        except TargetError:
            if interruption.asked:
                return None
            raise
    found = findings(observed)
    prepared = question.prepared
    settings = [setting for finding in found for setting in finding.settings]
    changes = [
        diff(config.text, settings, prepared.name.partition("-")[0], config.name)
        for config in prepared.config
        if config.name.endswith(".conf")
    ]
    return Explanation(
        target=prepared.name,
        version=prepared.version,
        path=question.workload.path,
        observed=observed,
        findings=found,
        changes="".join(changes),
    )


class _Observer:
    """Starts the target for each probe, and keeps what was seen and what was lost."""

    def __init__(
        self, question: Question, note: Callable[[str], None], interruption: Interruption
    ) -> None:
        self._question = question
        self._note = note
        self._interruption = interruption
        self._rng = random.Random(question.seed)
        everything = cores.allowed()
        apart = cores.split(everything)
        # The target may use every core, as it would in earnest: fewer workers than cores show.
        self._cores = Cores(server=everything, stopwatch=apart.stopwatch, shared=True)
        # Whatever else runs on a core then slows both down that are compared.
        self._one_core = apart.server[:1]
        self._lost: list[Lost] = []

    def look(self) -> Observed:
        """All probes, one after the other."""
        of_wire = self._try("the wire", lambda up: wire.look(self._asking(up)))
        of_calls = self._try(
            "system calls", lambda up: calls.look(self._asking(up), self._pids(up))
        )
        of_load = self._try("load", lambda up: self._load(up, self._question.workload))
        of_memory = self._try(
            "memory", lambda up: idle.look(self._asking(up), lambda: self._pids(up))
        )
        of_timers = (
            self._try("timers", self._timers, on=self._one_core) if self._may_wait() else None
        )
        of_floor = self._floor()
        self._note("Looking at what calls cost here.")
        return Observed(
            wire=of_wire,
            calls=of_calls,
            load=of_load,
            memory=of_memory,
            timers=of_timers,
            floor_cpu_ns=of_floor.cpu_ns_per_request if of_floor else None,
            floor_together_ns=of_floor.together_ns_per_request if of_floor else None,
            prices_ns=prices.look(),
            lost=tuple(self._lost),
        )

    def _try(
        self, name: str, probe: Callable[[Running], Seen], on: tuple[int, ...] = ()
    ) -> Seen | None:
        self._note(f"Looking at {name}.")
        with self._up(self._question.prepared, on or self._cores.server) as running:
            try:
                return probe(running)
            except ProbeError as error:
                self._interruption.check()
                if not running.alive():
                    message = f"{running.name} {running.death()} while it was looked at"
                    raise TargetError(message, stderr=running.stderr_tail()) from error
                self._lose(name, str(error), error.remedy)
                return None

    def _lose(self, probe: str, reason: str, remedy: str = "") -> None:
        self._lost.append(Lost(probe=probe, reason=reason, remedy=remedy))

    @contextmanager
    def _up(self, prepared: Prepared, on: tuple[int, ...]) -> Iterator[Running]:
        """Starts it on some cores, with a worker for each."""
        self._interruption.check()
        on_unix = self._question.workload.transport is Transport.UNIX or not prepared.listen.tcp
        placement = Placement(
            port=None if on_unix else free_port(self._rng),
            cores=on,
            workers=len(on),
            seed=self._rng.getrandbits(31),
        )
        with process.start(prepared, placement) as running:
            ready.wait(running, self._question.workload, give_up=lambda: self._interruption.asked)
            yield running
            self._interruption.check()

    def _asking(self, running: Running, path: str | None = None) -> Asking:
        workload = self._question.workload
        asked = replace(workload, path=workload.path if path is None else path)
        return Asking(
            connect=running.address.connect,
            request=answer.request(running.address, asked),
            method=asked.method,
        )

    @staticmethod
    def _root(running: Running) -> int | None:
        return running.pid or owner(running.address)

    def _pids(self, running: Running) -> set[int]:
        root = self._root(running)
        return memory.members(root, memory.everyone()) if root is not None else set()

    def _load(self, running: Running, workload: Workload) -> Load:
        lap = Lap(
            arms=(running.name,),
            urls=(running.address.url(workload.path),),
            roots=(self._root(running),),
            body=None,
            status=200,
            workload=workload,
            warmup_ns=WARMUP_NS,
            window_ns=WINDOW_NS,
            seed=self._question.seed,
        )
        return load.look(lap, self._cores, started=self._interruption.waits_for)

    def _may_wait(self) -> bool:
        """Whether it is worth asking for a delay; recipes say so, others are asked."""
        parts = self._question.prepared.parts
        if parts and Part.DELAY not in parts:
            self._lose("timers", "the target does not serve /delay", "")
            return False
        return True

    def _timers(self, running: Running) -> Timers:
        def asking(delay_ms: int) -> Asking:
            return self._asking(running, f"/delay?ms={delay_ms}")

        with ExitStack() as stack:
            copy = self._copy(running, stack)
            return waiting.look(
                waiting.Waiting(asking=asking, load=lambda: self._cost(running, copy))
            )

    def _copy(self, running: Running, stack: ExitStack) -> Running | None:
        """A second one of it; None where there can be only one, or somebody else started it."""
        if running.pid is None:
            return None
        try:
            return stack.enter_context(self._up(self._question.prepared, self._one_core))
        except TargetError:
            self._interruption.check()
            return None

    def _cost(self, running: Running, copy: Running | None) -> waiting.Cost:
        both = [running] if copy is None else [running, copy]
        lap = Lap(
            arms=("target", "copy")[: len(both)],
            urls=tuple(one.address.url(SHORT_DELAYS.path) for one in both),
            roots=tuple(self._root(one) for one in both),
            body=None,
            status=200,
            workload=SHORT_DELAYS,
            warmup_ns=DELAYS_WARMUP_NS,
            window_ns=DELAYS_WINDOW_NS,
            seed=self._question.seed,
        )
        costs = load.costs(lap, self._cores, started=self._interruption.waits_for)
        return waiting.Cost(target_ns=costs[0], aside_ns=costs[-1] if copy else None)

    def _floor(self) -> Load | None:
        floor = self._question.floor
        if floor is None:
            self._lose("the floor", "it does not answer what is asked here", "ask for / or /42")
            return None
        self._note("Looking at the floor.")
        with self._up(floor, self._cores.server) as running:
            try:
                return self._load(running, self._question.workload)
            except ProbeError as error:
                self._lose("the floor", str(error))
                return None
