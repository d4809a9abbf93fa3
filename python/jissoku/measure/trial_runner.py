"""One trial: starts the servers, verifies answers, runs the load generator, stops everything.

Every failure of a target becomes a Failure in the trial's record, with the end of the target's
output.
"""

import random
from collections.abc import Container, Sequence
from dataclasses import dataclass

from jissoku.errors import TargetError
from jissoku.measure import capacity, loadgen
from jissoku.measure.capacity import Objective
from jissoku.measure.loadgen import LoadgenError, LoadSpec
from jissoku.model import (
    Arm,
    ArmMeasurement,
    CapacityStep,
    CoreAssignment,
    Failure,
    MachineConditions,
    TrialStage,
    Workload,
)
from jissoku.system.address import listener_pid
from jissoku.system.cores import QuietCores
from jissoku.system.interruption import Interruption
from jissoku.system.processes import has_generated_code, process_tree
from jissoku.targets import launch
from jissoku.targets.launch import Launcher, expected_response, verify
from jissoku.targets.prepare import PreparedTarget
from jissoku.targets.process import RunningTarget
from jissoku.targets.provenance import redact
from jissoku.targets.response import ExpectedResponse, TargetResponse


@dataclass(frozen=True, slots=True)
class PreparedArm:
    """An arm, and its prepared target."""

    arm: Arm
    prepared: PreparedTarget


@dataclass(frozen=True, slots=True)
class TrialTiming:
    """Durations of a trial, in nanoseconds.

    Attributes:
        slice_ns: Arms are under load one at a time, in time slices of about this length; None: all
            at once.
        idle_watch_ns: Time without load before the first request.
    """

    warmup_ns: int
    window_ns: int
    slice_ns: int | None = None
    idle_watch_ns: int = 0


@dataclass(frozen=True, slots=True)
class VerifiedServer:
    """A running target, and its verified answer."""

    running: RunningTarget
    answer: TargetResponse


class TrialFailed(Exception):  # noqa: N818 - has a record, and is always caught in the pipeline
    """A target failed; `failure` is its record."""

    def __init__(self, stage: TrialStage, arm: str, error: Exception, words: str = "") -> None:
        super().__init__(str(error))
        said = words or getattr(error, "stderr", "")
        self.failure = Failure(stage=stage, arm=arm, reason=redact(str(error)), stderr=redact(said))


def _output(spec: LoadSpec, servers: Sequence[VerifiedServer], arm: str) -> str:
    """The end of a target's output."""
    return servers[spec.arms.index(arm)].running.output_tail()


class TrialRunner:
    """Starts targets on the server cores and measures them from the load generator's."""

    def __init__(
        self,
        arms: Sequence[PreparedArm],
        cores: CoreAssignment,
        interruption: Interruption,
        *,
        workers: int | None = None,
    ) -> None:
        """Without `workers` there is one per core of the server."""
        self._prepared_arms = {arm.arm.name: arm for arm in arms}
        self._cores = cores
        self._workers = workers
        self._interruption = interruption
        self._expected: dict[str, ExpectedResponse] = {}
        self._generates_code: dict[str, bool] = {}
        self._quiet = QuietCores(cores.server)

    def check(self) -> None:
        """Raises Interrupted after a signal."""
        self._interruption.check()

    def wait_for_idle_cores(self) -> float | None:
        """Waits a limited time for idle cores of the server; returns the last idle fraction."""
        return self._quiet.wait(give_up=lambda: self._interruption.asked)

    def compiles(self, name: str, running: RunningTarget) -> bool:
        """Whether a target's runtime compiles hot code, as its recipe says or its processes show.

        The processes of a target without a recipe are examined after they have served requests, at
        the first start only. A URL of another machine shows none: it may compile.
        """
        known = self._prepared_arms[name].prepared.compiles
        if known is None:
            if name not in self._generates_code:
                root = running.pid or listener_pid(running.address)
                self._generates_code[name] = root is None or has_generated_code(process_tree(root))
            known = self._generates_code[name]
        return known

    def idle_watch_root(self, name: str) -> int | None:
        """The process of an external server; None for targets that we start."""
        address = self._prepared_arms[name].prepared.address
        return None if address is None else listener_pid(address)

    def start(
        self, name: str, rng: random.Random, workload: Workload, promised: Container[int]
    ) -> RunningTarget:
        """Starts one target on a port that is neither used nor promised."""
        launcher = Launcher(cores=self._cores.server, rng=rng, workers=self._workers)
        try:
            return launcher.start(self._prepared_arms[name].prepared, workload, promised)
        except TargetError as error:
            raise TrialFailed(TrialStage.START, name, error) from error

    def stop(self, name: str, running: RunningTarget) -> None:
        """Ends all processes of one target."""
        try:
            running.stop()
        except TargetError as error:
            raise TrialFailed(TrialStage.STOP, name, error) from error

    def verified(self, name: str, running: RunningTarget, workload: Workload) -> VerifiedServer:
        """Waits until the target answers, and compares its answer with the expected one.

        Raises:
            Interrupted: After a signal, which is no failure of the target.
            TrialFailed: It does not answer, or differently.
        """
        try:
            first = launch.wait_until_ready(
                running, workload, give_up=lambda: self._interruption.asked
            )
        except TargetError as error:
            self.check()
            raise TrialFailed(TrialStage.READY, name, error) from error
        try:
            if name not in self._expected:
                prepared = self._prepared_arms[name].prepared
                self._expected[name] = expected_response(prepared, workload, first)
            verify(running, workload, first, self._expected[name])
        except TargetError as error:
            raise TrialFailed(TrialStage.VERIFY, name, error, running.output_tail()) from error
        return VerifiedServer(running, first)

    def measure(
        self, spec: LoadSpec, servers: Sequence[VerifiedServer]
    ) -> tuple[tuple[ArmMeasurement, ...], MachineConditions]:
        """Runs the load generator; if a target has exited, that is the reason of the failure.

        Raises:
            Interrupted: After a signal, also if that ended the load generator.
            TrialFailed: It measured nothing.
        """
        self.check()
        try:
            return loadgen.run_load(spec, self._cores, started=self._interruption.waits_for)
        except LoadgenError as error:
            self.check()
            # Without a responsible arm, the load generator itself failed.
            words = "" if not error.arm else _output(spec, servers, error.arm)
            raise TrialFailed(TrialStage.LOAD, error.arm, error, words) from error
        finally:
            self.require_alive(spec, servers)

    def require_alive(self, spec: LoadSpec, servers: Sequence[VerifiedServer]) -> None:
        """Raises TrialFailed if the first process of a target has ended."""
        for name, server in zip(spec.arms, servers, strict=True):
            if not server.running.is_alive():
                error = TargetError(f"{name} {server.running.exit_description()} under load")
                raise TrialFailed(TrialStage.LOAD, name, error, server.running.output_tail())

    def step(
        self, spec: LoadSpec, objective: Objective, servers: Sequence[VerifiedServer]
    ) -> CapacityStep:
        """One step of a capacity search."""
        try:
            return capacity.step(spec, self._cores, objective, started=self._interruption.waits_for)
        except LoadgenError as error:
            self.check()
            rate = spec.workload.rate_rps or 0
            return CapacityStep(rate_rps=rate, is_met=False, reason=redact(str(error)))
        finally:
            self.require_alive(spec, servers)
