"""One trial: servers up, answers verified, load generator run, everything down again.

Whatever goes wrong with a target becomes a Failure in the trial's record, with the target's own
words.
"""

import http.client
import random
from collections.abc import Container, Sequence
from dataclasses import dataclass

from jissoku.errors import TargetError
from jissoku.interruption import Interruption
from jissoku.model import (
    Arm,
    ArmMeasurement,
    CapacityStep,
    CoreAssignment,
    Failure,
    MachineConditions,
    Origin,
    Transport,
    TrialStage,
    Workload,
)
from jissoku.observe import capacity, loadgen
from jissoku.observe.capacity import Objective
from jissoku.observe.loadgen import LoadgenError, LoadSpec
from jissoku.observe.quiet_cores import QuietCores
from jissoku.targets import contract, process, ready, response
from jissoku.targets.address import free_port
from jissoku.targets.listener_pid import listener_pid
from jissoku.targets.prepare import PreparedTarget
from jissoku.targets.process import LaunchOptions, RunningTarget
from jissoku.targets.redact import redact
from jissoku.targets.response import ExpectedResponse, TargetResponse


@dataclass(frozen=True, slots=True)
class PreparedArm:
    """An arm, and how to start it here."""

    arm: Arm
    prepared: PreparedTarget


@dataclass(frozen=True, slots=True)
class TrialTiming:
    """How long a trial warms up and measures, in nanoseconds.

    Attributes:
        slice_ns: Arms are asked one at a time, in time slices of about this length; None: all at
            once.
        idle_watch_ns: Before the first request targets are left alone for so long.
    """

    warmup_ns: int
    window_ns: int
    slice_ns: int | None = None
    idle_watch_ns: int = 0


@dataclass(frozen=True, slots=True)
class VerifiedServer:
    """A target that runs, and what it answered."""

    running: RunningTarget
    answer: TargetResponse


class TrialFailed(Exception):  # noqa: N818 - carries a record, and never leaves the pipeline
    """Something went wrong with a target; `failure` is what is recorded of it."""

    def __init__(self, stage: TrialStage, arm: str, error: Exception, words: str = "") -> None:
        super().__init__(str(error))
        said = words or getattr(error, "stderr", "")
        self.failure = Failure(stage=stage, arm=arm, reason=redact(str(error)), stderr=redact(said))


def _output(spec: LoadSpec, servers: Sequence[VerifiedServer], arm: str) -> str:
    """What a target wrote last."""
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
        """Nothing is started yet; without `workers` there is one for each core of the server."""
        self._contestants = {arm.arm.name: arm for arm in arms}
        self._cores = cores
        self._workers = len(cores.server) if workers is None else workers
        self._interruption = interruption
        self._expected: dict[str, ExpectedResponse] = {}
        self._quiet = QuietCores(cores.server)

    def check(self) -> None:
        """Raises Interrupted on request."""
        self._interruption.check()

    def wait_for_idle_cores(self) -> float | None:
        """Waits until the server's cores are idle, for a while; how idle they were in the end."""
        return self._quiet.wait(give_up=lambda: self._interruption.asked)

    def compiles(self, name: str) -> bool:
        """Whether a target's runtime compiles what runs often."""
        return self._contestants[name].prepared.compiles

    def idle_watch_root(self, name: str) -> int | None:
        """The process of a server that ran already; None for those that we start."""
        address = self._contestants[name].prepared.address
        return None if address is None else listener_pid(address)

    def start(
        self, name: str, rng: random.Random, workload: Workload, promised: Container[int]
    ) -> RunningTarget:
        """Starts one target on a port that is neither taken nor promised."""
        prepared = self._contestants[name].prepared
        on_unix = workload.transport is Transport.UNIX or not prepared.listen.tcp
        try:
            port = None if on_unix else free_port(rng, promised)
            placement = LaunchOptions(
                port=port,
                cores=self._cores.server,
                workers=self._workers,
                seed=rng.getrandbits(31),
            )
            return process.start(prepared, placement)
        except TargetError as error:
            raise TrialFailed(TrialStage.START, name, error) from error

    def stop(self, name: str, running: RunningTarget) -> None:
        """Ends one target, all its processes."""
        try:
            running.stop()
        except TargetError as error:
            raise TrialFailed(TrialStage.STOP, name, error) from error

    def verified(self, name: str, running: RunningTarget, workload: Workload) -> VerifiedServer:
        """Waits until the target answers, and holds its answer to the right one."""
        try:
            first = ready.wait_until_ready(
                running, workload, give_up=lambda: self._interruption.asked
            )
        except TargetError as error:
            raise TrialFailed(TrialStage.READY, name, error) from error
        try:
            response.check_response(first, self._right(name, first, workload))
            for index in range(max(1, len(workload.raw_requests))):
                again = response.send_request(running.address, workload, index=index)
                response.check_response(again, self._expected[name])
        except TargetError as error:
            raise TrialFailed(TrialStage.VERIFY, name, error, running.output_tail()) from error
        except (OSError, http.client.HTTPException) as error:
            refusal = TargetError(f"answered once, and not a second time: {error}")
            raise TrialFailed(TrialStage.VERIFY, name, refusal, running.output_tail()) from error
        return VerifiedServer(running, first)

    def _right(self, name: str, first: TargetResponse, workload: Workload) -> ExpectedResponse:
        """The right answer of an arm: the contract's for a recipe, else the first it ever gave."""
        if name not in self._expected:
            of_contract = None
            ours = self._contestants[name].arm.origin is Origin.RECIPE
            if ours and workload.method == "GET" and not workload.headers:
                of_contract = contract.expected_response(workload.path)
            self._expected[name] = of_contract or response.expect_first_response(first)
        return self._expected[name]

    def measure(
        self, spec: LoadSpec, servers: Sequence[VerifiedServer]
    ) -> tuple[tuple[ArmMeasurement, ...], MachineConditions]:
        """Runs the load generator; where a target died, that is the reason for any failure."""
        try:
            return loadgen.run_load(spec, self._cores, started=self._interruption.waits_for)
        except LoadgenError as error:
            # Where no arm is to blame, the load generator itself failed.
            words = "" if not error.arm else _output(spec, servers, error.arm)
            raise TrialFailed(TrialStage.LOAD, error.arm, error, words) from error
        finally:
            self.require_alive(spec, servers)

    def require_alive(self, spec: LoadSpec, servers: Sequence[VerifiedServer]) -> None:
        """Fails when the first process of a target has ended."""
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
            rate = spec.workload.rate_rps or 0
            return CapacityStep(rate_rps=rate, is_met=False, reason=redact(str(error)))
        finally:
            self.require_alive(spec, servers)
