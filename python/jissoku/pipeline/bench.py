"""One trial: servers up, answers verified, stopwatch run, everything down again.

Whatever goes wrong with a target becomes a Failure in the trial's record, with the target's own
words.
"""

import dataclasses
import http.client
import random
from collections.abc import Container, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from jissoku.design.schedule import Planned
from jissoku.errors import TargetError
from jissoku.interruption import Interruption
from jissoku.model import (
    Arm,
    Conditions,
    Cores,
    Failure,
    Lane,
    Origin,
    Stage,
    Transport,
    Trial,
    Workload,
)
from jissoku.observe import stopwatch
from jissoku.observe.stopwatch import Lap, StopwatchError
from jissoku.targets import answer, contract, process, ready
from jissoku.targets.address import free_port
from jissoku.targets.answer import Answer, Expected
from jissoku.targets.owner import owner
from jissoku.targets.prepare import Prepared
from jissoku.targets.process import Placement, Running
from jissoku.targets.scrub import scrub


@dataclass(frozen=True, slots=True)
class Contestant:
    """An arm, and how to start it here."""

    arm: Arm
    prepared: Prepared


@dataclass(frozen=True, slots=True)
class Window:
    """How long a trial warms up and measures, in nanoseconds."""

    warmup_ns: int
    window_ns: int


@dataclass(frozen=True, slots=True)
class _Server:
    """A target that runs, and what it answered."""

    running: Running
    answer: Answer


class _Failed(Exception):  # noqa: N818 - carries a record, and never leaves this file
    def __init__(self, stage: Stage, arm: str, error: Exception, words: str = "") -> None:
        super().__init__(str(error))
        said = words or getattr(error, "stderr", "")
        self.failure = Failure(stage=stage, arm=arm, reason=scrub(str(error)), stderr=scrub(said))


class Bench:
    """Starts targets on the server cores and measures them from the stopwatch's."""

    def __init__(
        self,
        contestants: Sequence[Contestant],
        cores: Cores,
        interruption: Interruption,
        *,
        workers: int | None = None,
    ) -> None:
        """Nothing is started yet; without `workers` there is one for each core of the server."""
        self._contestants = {contestant.arm.name: contestant for contestant in contestants}
        self._cores = cores
        self._workers = len(cores.server) if workers is None else workers
        self._interruption = interruption
        self._expected: dict[str, Expected] = {}

    def attempt(self, planned: Planned, workload: Workload, window: Window) -> Trial:
        """Runs one trial; its index, attempt and gates are the caller's to fill in.

        Raises:
            Interrupted: Somebody asked for it; nothing that was started is left.
        """
        self._interruption.check()
        trial = Trial(
            index=0,
            block=planned.block,
            kind=planned.kind,
            arms=planned.arms,
            workload=workload,
            window_ns=window.window_ns,
        )
        try:
            lanes, conditions = self._run(planned, workload, window)
        except _Failed as failed:
            self._interruption.check()
            return dataclasses.replace(trial, failure=failed.failure)
        self._interruption.check()
        return dataclasses.replace(trial, lanes=lanes, conditions=conditions)

    def watched(self, name: str) -> int | None:
        """The process of a server that ran already; None for those that we start."""
        address = self._contestants[name].prepared.address
        return None if address is None else owner(address)

    def _run(
        self, planned: Planned, workload: Workload, window: Window
    ) -> tuple[tuple[Lane, ...], Conditions]:
        rng = random.Random(planned.seed)
        with ExitStack() as stack:
            running: dict[str, Running] = {}
            for name in planned.arms:
                # The one before may not listen yet, and must not meet the next on its port.
                promised = {other.address.port for other in running.values()}
                running[name] = self._start(name, rng, workload, promised)
                stack.callback(self._stop, name, running[name])
            servers = [self._verified(name, running[name], workload) for name in planned.arms]
            lap = self._lap(planned, servers, workload, window)
            lanes, conditions = self._measure(lap, servers)
            lanes = tuple(
                dataclasses.replace(lane, answer=server.answer.recorded())
                for lane, server in zip(lanes, servers, strict=True)
            )
        return lanes, conditions

    def _start(
        self, name: str, rng: random.Random, workload: Workload, promised: Container[int]
    ) -> Running:
        prepared = self._contestants[name].prepared
        on_unix = workload.transport is Transport.UNIX or not prepared.listen.tcp
        try:
            port = None if on_unix else free_port(rng, promised)
            placement = Placement(
                port=port,
                cores=self._cores.server,
                workers=self._workers,
                seed=rng.getrandbits(31),
            )
            return process.start(prepared, placement)
        except TargetError as error:
            raise _Failed(Stage.START, name, error) from error

    def _stop(self, name: str, running: Running) -> None:
        try:
            running.stop()
        except TargetError as error:
            raise _Failed(Stage.STOP, name, error) from error

    def _verified(self, name: str, running: Running, workload: Workload) -> _Server:
        """Waits until the target answers, and holds its answer to the right one."""
        try:
            first = ready.wait(running, workload, give_up=lambda: self._interruption.asked)
        except TargetError as error:
            raise _Failed(Stage.READY, name, error) from error
        try:
            answer.check(first, self._right(name, first, workload))
            for index in range(max(1, len(workload.shapes))):
                again = answer.ask(running.address, workload, index=index)
                answer.check(again, self._expected[name])
        except TargetError as error:
            raise _Failed(Stage.VERIFY, name, error, running.stderr_tail()) from error
        except (OSError, http.client.HTTPException) as error:
            refusal = TargetError(f"answered once, and not a second time: {error}")
            raise _Failed(Stage.VERIFY, name, refusal, running.stderr_tail()) from error
        return _Server(running, first)

    def _right(self, name: str, first: Answer, workload: Workload) -> Expected:
        """The right answer of an arm: the contract's for a recipe, else the first it ever gave."""
        if name not in self._expected:
            of_contract = None
            ours = self._contestants[name].arm.origin is Origin.RECIPE
            if ours and workload.method == "GET" and not workload.headers:
                of_contract = contract.expected(workload.path)
            self._expected[name] = of_contract or answer.learn(first)
        return self._expected[name]

    def _lap(
        self, planned: Planned, servers: Sequence[_Server], workload: Workload, window: Window
    ) -> Lap:
        bodies = {server.answer.body for server in servers}
        return Lap(
            arms=planned.arms,
            urls=tuple(server.running.address.url(workload.path) for server in servers),
            roots=tuple(
                self.watched(name) or server.running.pid
                for name, server in zip(planned.arms, servers, strict=True)
            ),
            body=bodies.pop() if len(bodies) == 1 else None,
            status=servers[0].answer.status,
            workload=workload,
            warmup_ns=window.warmup_ns,
            window_ns=window.window_ns,
            seed=planned.seed,
        )

    def _measure(self, lap: Lap, servers: Sequence[_Server]) -> tuple[tuple[Lane, ...], Conditions]:
        try:
            return stopwatch.run(lap, self._cores, started=self._interruption.waits_for)
        except StopwatchError as error:
            index = lap.arms.index(error.arm) if error.arm else 0
            words = servers[index].running.stderr_tail()
            raise _Failed(Stage.LOAD, lap.arms[index], error, words) from error
        finally:
            # Where a server died, that is the reason, whatever the stopwatch made of it.
            self._must_live(lap, servers)

    def _must_live(self, lap: Lap, servers: Sequence[_Server]) -> None:
        for name, server in zip(lap.arms, servers, strict=True):
            if not server.running.alive():
                error = TargetError(f"{name} {server.running.death()} under load")
                raise _Failed(Stage.LOAD, name, error, server.running.stderr_tail())
