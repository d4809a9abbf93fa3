"""Starts the servers of a trial, verifies their answers, and measures them under load.

Every failure of a target becomes a Failure in the trial's record, with the end of the target's
output; every later measurement on the same start is a failed trial with its reason.
"""

import random
import subprocess
import time
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from hdrh.histogram import HdrHistogram  # type: ignore[import-untyped]

from jissoku import inference
from jissoku.design import search
from jissoku.design.sampling_plan import SamplingPlan
from jissoku.design.schedule import PlannedTrial
from jissoku.errors import TargetError
from jissoku.measure import loadgen
from jissoku.measure.loadgen import LoadgenError, LoadSpec
from jissoku.measure.progress import EtaEstimator, ProgressListener
from jissoku.model import (
    Arm,
    ArmMeasurement,
    Capacity,
    CapacityStep,
    CoreAssignment,
    Failure,
    MachineConditions,
    Trial,
    TrialKind,
    TrialStage,
    Workload,
)
from jissoku.model.updated import updated
from jissoku.model.wording import plural
from jissoku.records import RunWriter
from jissoku.request.param_types import OBJECTIVE
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

# The fraction of the offered requests that must have been answered.
ACHIEVED_MIN = 0.99

# Duration of a step: at least the first, long enough for this many requests, at most the last.
STEP_NS = 200_000_000
STEP_REQUESTS = 1_000
STEP_NS_MAX = 800_000_000
STEP_WARMUP_NS = 50_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """Of all requests at most `fraction_above` take longer than `limit_ns` from their due time."""

    limit_ns: int
    fraction_above: float = 0.01

    @classmethod
    def parse(cls, text: str) -> "Objective":
        """Reads `p99<10ms`, whose form is checked already."""
        found = OBJECTIVE.fullmatch(text)
        assert found, text
        scale = {"us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}[found[3]]
        return cls(
            limit_ns=round(float(found[2]) * scale),
            fraction_above=round(1 - float(found[1]) / 100, 6),
        )

    @property
    def text(self) -> str:
        """In the format of `jissoku load --slo`."""
        return f"p{100 * (1 - self.fraction_above):g}<{self.limit_ns / 1e6:g}ms"


def capacity_step(
    spec: LoadSpec,
    cores: CoreAssignment,
    objective: Objective,
    *,
    started: Callable[[subprocess.Popen[str]], object],
) -> CapacityStep:
    """Runs the load at its rate for a short step, and evaluates the objective.

    Raises:
        LoadgenError: No answer was counted.
    """
    rate = spec.workload.rate_rps
    assert rate is not None, "a capacity is a rate"
    measurements, _ = loadgen.run_load(spec, cores, started=started)
    (measurement,) = measurements
    failed = sum(measurement.errors.values())
    achieved = measurement.requests / (measurement.duration_ns / 1e9) / rate
    above = _fraction_above(measurement.histogram, objective.limit_ns)
    if failed:
        return CapacityStep(
            rate_rps=rate, is_met=False, reason=f"{failed} {plural(failed, 'request')} failed"
        )
    if achieved < ACHIEVED_MIN:
        reason = f"{100 * achieved:.1f} % of the requests offered were answered"
        return CapacityStep(rate_rps=rate, is_met=False, reason=reason)
    if above > objective.fraction_above:
        reason = f"{100 * above:.1f} % took longer than {objective.limit_ns / 1e6:g} ms"
        return CapacityStep(rate_rps=rate, is_met=False, reason=reason)
    return CapacityStep(rate_rps=rate, is_met=True)


def step_window_ns(rate_rps: int) -> int:
    """Duration of a step at this rate, in nanoseconds."""
    return min(STEP_NS_MAX, max(STEP_NS, STEP_REQUESTS * 1_000_000_000 // max(1, rate_rps)))


def _fraction_above(histogram: str, limit_ns: int) -> float:
    known = HdrHistogram.decode(histogram)
    total = known.get_total_count()
    if not total:
        return 1.0
    within = sum(
        int(value.count_added_in_this_iter_step)
        for value in known.get_recorded_iterator()
        if value.value_iterated_to <= limit_ns
    )
    return float(1 - within / total)


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
            return capacity_step(spec, self._cores, objective, started=self._interruption.waits_for)
        except LoadgenError as error:
            self.check()
            rate = spec.workload.rate_rps or 0
            return CapacityStep(rate_rps=rate, is_met=False, reason=redact(str(error)))
        finally:
            self.require_alive(spec, servers)


# Rate of the warm-up of a runtime that compiles: at a low rate it also runs the code of an idle
# event loop, which a closed loop never does.
FIXED_WARMUP_RPS = 5_000


def run_trial(
    benchmark: TrialRunner, planned: PlannedTrial, workload: Workload, window: TrialTiming
) -> Trial:
    """Runs one trial on a separate start; the caller sets index, attempt and failed checks.

    Raises:
        Interrupted: On request; all started processes are stopped.
    """
    with started_servers(benchmark, planned, workload) as servers:
        trial = servers.measure(planned, workload, window)
        servers.stop()
    return servers.with_exit_check(trial)


@contextmanager
def started_servers(
    benchmark: TrialRunner, planned: PlannedTrial, workload: Workload
) -> Iterator["Servers"]:
    """Starts and verifies the planned arms when the cores are idle, as a context manager.

    Raises:
        Interrupted: On request; all started processes are stopped.
    """
    idle = benchmark.wait_for_idle_cores()
    benchmark.check()
    servers = Servers(benchmark, idle)
    try:
        servers.start(planned, workload)
        yield servers
    finally:
        servers.stop()
        benchmark.check()


class Servers:
    """Targets that were started together, for measurements one after the other."""

    def __init__(self, benchmark: TrialRunner, cores_idle_before: float | None) -> None:
        """Nothing is started yet; `cores_idle_before` is only recorded."""
        self._runner = benchmark
        self._cores_idle_before = cores_idle_before
        self._running: dict[str, RunningTarget] = {}
        self._servers: dict[str, VerifiedServer] = {}
        self._warmed: dict[str, int] = {}
        # Requests per second of each arm in the closed loop of its warm-up.
        self.rates: dict[str, float] = {}
        self._failure: Failure | None = None

    @property
    def is_broken(self) -> bool:
        """Whether a failure prevents further measurements on this start."""
        return self._failure is not None

    def start(self, planned: PlannedTrial, workload: Workload) -> None:
        """Starts all, then verifies each, so that their starts overlap."""
        rng = random.Random(planned.seed)
        try:
            for name in planned.arms:
                # The previous one may not listen yet, and the next must not use the same port.
                promised = {other.address.port for other in self._running.values()}
                self._running[name] = self._runner.start(name, rng, workload, promised)
            for name in planned.arms:
                self._servers[name] = self._runner.verified(name, self._running[name], workload)
        except TrialFailed as failed:
            self._failure = failed.failure

    def stop(self) -> None:
        """Ends all started targets; one that cannot be ended is a failure."""
        for name, running in self._running.items():
            try:
                self._runner.stop(name, running)
            except TrialFailed as failed:
                self._failure = failed.failure
        self._running = {}

    def with_exit_check(self, trial: Trial) -> Trial:
        """The trial, or a failed trial if a target could not be ended."""
        if self._failure is None or trial.failure is not None:
            return trial
        return updated(trial, measurements=(), conditions=None, failure=self._failure)

    def warm_up(self, planned: PlannedTrial, workload: Workload, effort: SamplingPlan) -> None:
        """Sends each arm its warm-up, one arm after the other.

        First a number of requests in a closed loop, limited in time by the plan.
        A runtime that compiles gets more of them, evenly spaced: after 40,000 requests of a closed
        loop Node's CPU time per request at 5,000/s still fell from 105 to 85 us within 3,000.
        """
        window = TrialTiming(0, effort.warmup_max_ns)
        for name in planned.arms:
            alone = updated(planned, arms=(name,))
            closed = updated(workload, rate_rps=None)
            sent = self._send(alone, closed, window, effort.warmup_requests)
            if sent and self._runner.compiles(name, self._running[name]):
                paced = updated(workload, rate_rps=FIXED_WARMUP_RPS)
                self._send(alone, paced, TrialTiming(0, effort.compile_ns), None)

    def _send(
        self, alone: PlannedTrial, workload: Workload, window: TrialTiming, requests: int | None
    ) -> int:
        """Puts one arm under load outside of trials; returns the number of answers."""
        if self.is_broken:
            return 0
        (name,) = alone.arms
        spec = updated(self._load_spec(alone, workload, window), requests=requests)
        try:
            (measurement,), _ = self._runner.measure(spec, [self._servers[name]])
        except TrialFailed as failed:
            if self._servers[name].running.is_alive():
                self.rates.setdefault(name, 1.0)  # So slow here that only a measurement can say.
                return 0
            self._failure = failed.failure
            return 0
        self._warmed[name] = self._warmed.get(name, 0) + measurement.requests
        if workload.rate_rps is None:
            self.rates[name] = measurement.requests / measurement.duration_ns * 1e9
        return measurement.requests

    def measure(self, planned: PlannedTrial, workload: Workload, window: TrialTiming) -> Trial:
        """Measures the planned arms, which are among those that were started."""
        trial = Trial(
            index=0,
            block=planned.block,
            kind=planned.kind,
            arms=planned.arms,
            workload=workload,
            window_ns=window.window_ns,
            slice_ns=window.slice_ns,
        )
        if self._failure is not None:
            return updated(trial, failure=self._failure)
        servers = [self._servers[name] for name in planned.arms]
        try:
            measurements, conditions = self._runner.measure(
                self._load_spec(planned, workload, window), servers
            )
        except TrialFailed as failed:
            self._failure = failed.failure
            return updated(trial, failure=failed.failure)
        measurements = tuple(
            updated(measurement, response=server.answer.recorded())
            for measurement, server in zip(measurements, servers, strict=True)
        )
        conditions = updated(conditions, cores_idle_before=self._cores_idle_before)
        return updated(trial, measurements=measurements, conditions=conditions)

    def search(
        self, planned: PlannedTrial, workload: Workload, objective: Objective, first_rps: int
    ) -> Trial:
        """Searches the capacity of the one planned arm."""
        trial = Trial(
            index=0,
            block=planned.block,
            kind=planned.kind,
            arms=planned.arms,
            workload=updated(workload, rate_rps=None),
            window_ns=STEP_NS,
        )
        steps: list[CapacityStep] = []
        try:
            while self._failure is None and (rate := search.next_rate(steps, first_rps)):
                window = TrialTiming(STEP_WARMUP_NS, step_window_ns(rate))
                asked = updated(workload, rate_rps=rate)
                spec = self._load_spec(planned, asked, window)
                servers = [self._servers[name] for name in planned.arms]
                steps.append(self._runner.step(spec, objective, servers))
        except TrialFailed as failed:
            self._failure = failed.failure
        if self._failure is not None:
            return updated(trial, failure=self._failure)
        met = search.highest_met(steps)
        known = Capacity(objective=objective.text, rate_rps=met, steps=tuple(steps))
        return updated(trial, capacity=known)

    def _load_spec(
        self, planned: PlannedTrial, workload: Workload, window: TrialTiming
    ) -> LoadSpec:
        servers = [self._servers[name] for name in planned.arms]
        bodies = {server.answer.body for server in servers}
        others = [self._root(name) for name in self._servers if name not in planned.arms]
        # A server behind a reverse proxy is neither foreign work nor the proxy's.
        for server in self._servers.values():
            others += server.running.upstream_pids()
        return LoadSpec(
            arms=planned.arms,
            urls=tuple(server.running.address.url(workload.path) for server in servers),
            roots=tuple(self._root(name) for name in planned.arms),
            body=bodies.pop() if len(bodies) == 1 else None,
            status=servers[0].answer.status,
            workload=workload,
            warmup_ns=window.warmup_ns,
            window_ns=window.window_ns,
            seed=planned.seed,
            slice_ns=window.slice_ns,
            idle_watch_ns=window.idle_watch_ns,
            own_processes=tuple(pid for pid in others if pid is not None),
            warmup_requests=dict(self._warmed),
        )

    def _root(self, name: str) -> int | None:
        return self._runner.idle_watch_root(name) or self._servers[name].running.pid


# How often a disturbed trial is repeated; every attempt stays in the records.
RERUNS_MAX = 2

# After this many failures an arm is skipped, which saves time; its failure is reported.
FAILURES_MAX = 2

# Trials left, by kind.
TrialsLeft = Mapping[TrialKind, int]


class TrialLoop:
    """Records the trials of one run; they are in `trials`, in the order in which they ran."""

    def __init__(self, writer: RunWriter, listener: ProgressListener, eta: EtaEstimator) -> None:
        """Nothing is recorded yet; the time of the run begins."""
        self._began = time.monotonic()
        self.trials: list[Trial] = []
        self._writer = writer
        self._listener = listener
        self._eta = eta

    def run(
        self,
        kind: TrialKind,
        measure: Callable[[], Trial],
        left: Callable[[], TrialsLeft],
        reruns: int = RERUNS_MAX,
    ) -> Trial:
        """Measures until no check rejects the trial, it fails, or there were enough attempts.

        Args:
            kind: For the estimate of the time left.
            measure: Runs one attempt; index, attempt and failed checks are filled in here.
            left: Called after each attempt; reruns and early ends need not be included.
            reruns: Maximum number of attempts after the first.

        Returns:
            The last attempt.

        Raises:
            JissokuError: A trial cannot be written; those before it are on disk.
        """
        attempt = 0
        while True:
            trial = updated(measure(), index=len(self.trials), attempt=attempt)
            trial = updated(trial, elapsed_s=round(time.monotonic() - self._began, 3))
            trial = updated(trial, failed_checks=inference.trial_checks(trial))
            self._eta.ended(kind)
            self._record(trial, left)
            if trial.failure is not None or attempt == reruns or not inference.is_rejected(trial):
                return trial
            attempt += 1

    def _record(self, trial: Trial, left: Callable[[], TrialsLeft]) -> None:
        self._writer.add(trial)
        self.trials.append(trial)
        rest, done = left(), len(self.trials)
        total = done + sum(rest.values())
        self._listener.trial(trial, done, total, self._eta.seconds(rest))
