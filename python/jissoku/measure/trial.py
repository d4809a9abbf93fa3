"""Starts the servers of a trial, verifies their answers, and measures them under load.

Every failure of a target becomes a Failure in the trial's record, with the end of the target's
output; every later measurement on the same start is a failed trial with its reason.
"""

import math
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from hdrh.histogram import HdrHistogram  # type: ignore[import-untyped]

from jissoku import inference
from jissoku.design import schedule
from jissoku.design.sampling_plan import SamplingPlan
from jissoku.design.schedule import LOAD_MAX, PlannedTrial
from jissoku.errors import InputError, TargetEnded, TargetError
from jissoku.inference.late import import_libraries
from jissoku.measure.host import LocalHost, ServerHost
from jissoku.measure.loadgen import LoadgenError, LoadSpec, TrialTiming, run_load
from jissoku.measure.progress import ProgressListener
from jissoku.model import (
    ACHIEVED_MIN,
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
from jissoku.system.interruption import Interruption
from jissoku.targets.launch import ListensElsewhere, expected_response, verify
from jissoku.targets.prepare import PreparedTarget
from jissoku.targets.process import RunningTarget
from jissoku.targets.response import ChangedBody, ExpectedResponse, TargetResponse

# Duration of a step: at least the first, long enough for this many requests, at most the last.
STEP_NS = 200_000_000
STEP_REQUESTS = 1_000
STEP_NS_MAX = 800_000_000
STEP_WARMUP_NS = 50_000_000

# Rate of the warm-up of a runtime that compiles: at a low rate it also runs the code of an idle
# event loop, which a closed loop never does.
FIXED_WARMUP_RPS = 5_000

# A slow server gets a longer first warm-up, until it has answered twice on each connection.
FIRST_ANSWERS_MIN = 20
FIRST_WARMUP_NS = 4_000_000_000

# How long a process may take to end after it has closed its connections.
DYING_S = 0.5

# How often a disturbed trial is repeated; every attempt stays in the records.
RERUNS_MAX = 2

# Assumed seconds to start, verify and stop a server, before the first trial of a kind has ended.
OVERHEAD_S = 1.0

# After this many failures an arm is skipped, which saves time; its failure is reported.
FAILURES_MAX = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyObjective:
    """At most `fraction_above` of all requests take longer than `limit_ns` from their due time."""

    limit_ns: int
    fraction_above: float = 0.01

    @classmethod
    def parse(cls, text: str) -> "LatencyObjective":
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

    def missed_by(self, measurement: ArmMeasurement, rate_rps: int) -> str:
        """How a load at this rate missed it; empty if it was met."""
        failed = sum(measurement.errors.values())
        if failed:
            return f"{failed} {plural(failed, 'request')} failed"
        achieved = measurement.requests / (measurement.duration_ns / 1e9) / rate_rps
        if achieved < ACHIEVED_MIN:
            return f"{100 * achieved:.1f} % of the requests offered were answered"
        above = _fraction_above(measurement.histogram, self.limit_ns)
        if above > self.fraction_above:
            return f"{100 * above:.1f} % took longer than {self.limit_ns / 1e6:g} ms"
        return ""


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
    arm: Arm
    prepared: PreparedTarget


class TrialFailed(Exception):  # noqa: N818 - has a record, and is always caught here
    """A target failed; `failure` is its record."""

    def __init__(self, stage: TrialStage, arm: str, error: Exception, words: str = "") -> None:
        super().__init__(str(error))
        self.failure = Failure(
            stage=stage,
            arm=arm,
            reason=str(error),
            stderr=words or getattr(error, "stderr", ""),
            has_ended=isinstance(error, TargetEnded),
        )


class OutOfTime(Exception):  # noqa: N818 - ends a run with what it has
    """The time that is left of a run is too short for the next load."""


@dataclass(eq=False)
class TrialRunner:
    """What all starts of a run have in common: the targets, their cores, and what is known.

    `note` receives a sentence if the first start of a target takes long.
    """

    arms: Sequence[PreparedArm]
    cores: CoreAssignment
    interruption: Interruption
    workers: int | None = field(default=None, kw_only=True)
    note: Callable[[str], object] = field(default=str, kw_only=True)
    host: ServerHost = field(default_factory=LocalHost, kw_only=True)

    def __post_init__(self) -> None:
        import_libraries()
        self.targets = {arm.arm.name: arm.prepared for arm in self.arms}
        self.expected: dict[str, ExpectedResponse] = {}
        # Requests per second of each arm in the closed loop of its first warm-up.
        self.first_rates: dict[str, float] = {}
        # What is left of a limited time.
        self.seconds_left: Callable[[], float] = lambda: math.inf
        self._generates_code: dict[str, bool] = {}

    def compiles(self, name: str, running: RunningTarget) -> bool:
        """Whether a target's runtime compiles hot code, as its recipe says or its processes show.

        The processes of a target without a recipe are examined after they have served requests, at
        the first start only. A URL of another machine shows none: it may compile.
        """
        known = self.targets[name].compiles
        if known is None:
            if name not in self._generates_code:
                self._generates_code[name] = self.host.has_generated_code(running)
            known = self._generates_code[name]
        return known


@contextmanager
def started_servers(
    runner: TrialRunner, planned: PlannedTrial, workload: Workload
) -> Iterator["Servers"]:
    """Starts and verifies the planned arms when the cores are idle; all are stopped when left."""
    idle = runner.host.wait_for_idle_cores(
        runner.cores.server,
        give_up=lambda: runner.interruption.asked or runner.seconds_left() <= 0,
    )
    runner.interruption.check()
    servers = Servers(runner, idle)
    try:
        servers.start(planned, workload)
        yield servers
    finally:
        servers.stop()
        runner.interruption.check()


class Servers:
    """Targets that were started together, for measurements one after the other.

    Attributes:
        failure: Prevents further measurements on this start.
        rates: Requests per second of each arm in the closed loop of its warm-up.
        warmups: These closed loops, as if they were trials.
    """

    def __init__(self, runner: TrialRunner, cores_idle_before: float | None) -> None:
        """Nothing is started yet; `cores_idle_before` is only recorded."""
        self._runner = runner
        self._cores_idle_before = cores_idle_before
        self._running: dict[str, RunningTarget] = {}
        self._answers: dict[str, TargetResponse] = {}
        self._warmed: dict[str, int] = {}
        self.rates: dict[str, float] = {}
        self.warmups: dict[str, Trial] = {}
        self.failure: Failure | None = None

    def start(self, planned: PlannedTrial, workload: Workload) -> None:
        """Starts all, then verifies each, so that their starts overlap."""
        runner = self._runner
        launcher = runner.host.launcher(planned.seed, runner.cores.server, runner.workers)
        try:
            for name in planned.arms:
                # The previous one may not listen yet, and the next must not use the same port.
                promised = {other.address.port for other in self._running.values()}
                try:
                    started = launcher.start(runner.targets[name], workload, promised)
                except TargetError as error:
                    raise TrialFailed(TrialStage.START, name, error) from error
                self._running[name] = started
            for name in planned.arms:
                self._answers[name] = self._verified(name, workload)
        except TrialFailed as failed:
            self.failure = failed.failure

    def _verified(self, name: str, workload: Workload) -> TargetResponse:
        """Waits until a target answers, and compares its answer with the expected one."""
        runner, running = self._runner, self._running[name]
        interruption, is_new = runner.interruption, name not in runner.expected
        note = runner.note if is_new else str
        try:
            first = runner.host.wait_until_ready(
                running, workload, lambda: interruption.asked, note
            )
        except ListensElsewhere as error:
            raise InputError(str(error)) from error
        except TargetError as error:
            interruption.check()  # A signal is no failure of the target.
            raise TrialFailed(TrialStage.READY, name, error) from error
        try:
            if is_new:
                runner.expected[name] = expected_response(runner.targets[name], workload, first)
            verify(running, workload, first, runner.expected[name])
        except TargetError as error:
            if is_new and isinstance(error.__cause__, ChangedBody):
                raise InputError(f"{name} {error}") from error
            raise TrialFailed(TrialStage.VERIFY, name, error, running.output_tail()) from error
        return first

    def stop(self) -> None:
        """Ends all started targets; one that cannot be ended is a failure."""
        for name, running in self._running.items():
            try:
                running.stop()
            except TargetError as error:
                self.failure = TrialFailed(TrialStage.STOP, name, error).failure
        self._running = {}

    def warm_up(self, planned: PlannedTrial, workload: Workload, plan: SamplingPlan) -> None:
        """Sends each arm its warm-up, one arm after the other.

        First a number of requests in a closed loop, limited in time by the plan; at its first start
        a slow arm gets more time, which shows how fast it is.
        A runtime that compiles gets more of them, evenly spaced: after 40,000 requests of a closed
        loop Node's CPU time per request at 5,000/s still fell from 105 to 85 us within 3,000.
        """
        known = self._runner.first_rates
        for name in planned.arms:
            alone = updated(planned, arms=(name,))
            closed = updated(workload, rate_rps=None)
            is_first = name not in known
            window = TrialTiming(0, plan.warmup_max_ns)
            sent = self._send(alone, closed, window, plan.warmup_requests)
            if is_first and sent < FIRST_ANSWERS_MIN:
                window = TrialTiming(0, max(FIRST_WARMUP_NS, plan.warmup_max_ns))
                needed = 2 * workload.connections
                sent = self._send(alone, closed, window, needed, is_required=True)
            if name in self.rates:
                known.setdefault(name, self.rates[name])
            if sent and self._runner.compiles(name, self._running[name]):
                rate = min(FIXED_WARMUP_RPS, max(1, int(LOAD_MAX * self.rates[name])))
                paced = updated(workload, rate_rps=rate)
                self._send(alone, paced, TrialTiming(0, plan.compile_ns), None)

    def _send(
        self,
        alone: PlannedTrial,
        workload: Workload,
        window: TrialTiming,
        requests: int | None,
        *,
        is_required: bool = False,
    ) -> int:
        """Puts one arm under load outside of trials, and returns the number of answers.

        None is a failure of a target that has ended, and if an answer `is_required`.
        """
        if self.failure is not None:
            return 0
        (name,) = alone.arms
        spec = updated(self._load_spec(alone, workload, window), requests=requests)
        try:
            (measurement,), _ = self._load(spec)
        except TrialFailed as failed:
            if is_required or not self._running[name].is_alive():
                self.failure = failed.failure
            return 0
        self._warmed[name] = self._warmed.get(name, 0) + measurement.requests
        if workload.rate_rps is None:
            closed = updated(alone, kind=TrialKind.CLOSED_LOOP)
            self.warmups[name] = updated(
                _trial(closed, workload, window.window_ns), measurements=(measurement,)
            )
            self.rates[name] = measurement.requests / measurement.duration_ns * 1e9
        return measurement.requests

    def measure(self, planned: PlannedTrial, workload: Workload, window: TrialTiming) -> Trial:
        """Measures the planned arms, which are among those that were started."""
        trial = _trial(planned, workload, window.window_ns, window.slice_ns)
        if self.failure is not None:
            return updated(trial, failure=self.failure)
        try:
            measurements, conditions = self._load(self._load_spec(planned, workload, window))
        except TrialFailed as failed:
            self.failure = failed.failure
            return updated(trial, failure=failed.failure)
        measurements = tuple(
            updated(measurement, response=self._answers[name].recorded())
            for measurement, name in zip(measurements, planned.arms, strict=True)
        )
        conditions = updated(conditions, cores_idle_before=self._cores_idle_before)
        return updated(trial, measurements=measurements, conditions=conditions)

    def search(
        self, planned: PlannedTrial, workload: Workload, objective: LatencyObjective, first_rps: int
    ) -> Trial:
        """Searches the capacity of the one planned arm, with one short load per step."""
        trial = _trial(planned, updated(workload, rate_rps=None), STEP_NS)
        steps: list[CapacityStep] = []
        try:
            while self.failure is None and (rate := schedule.next_rate(steps, first_rps)):
                window_ns = STEP_REQUESTS * 1_000_000_000 // max(1, rate)
                window = TrialTiming(STEP_WARMUP_NS, min(STEP_NS_MAX, max(STEP_NS, window_ns)))
                spec = self._load_spec(planned, updated(workload, rate_rps=rate), window)
                steps.append(self._step(spec, objective, rate))
        except TrialFailed as failed:
            self.failure = failed.failure
        if self.failure is not None:
            return updated(trial, failure=self.failure)
        met = schedule.highest_met(steps)
        known = Capacity(objective=objective.text, rate_rps=met, steps=tuple(steps))
        return updated(trial, capacity=known)

    def _step(self, spec: LoadSpec, objective: LatencyObjective, rate_rps: int) -> CapacityStep:
        try:
            (measurement,), seen = self._load(spec)
        except TrialFailed as failed:
            # A load without an answer misses it, unless the target has exited.
            if not isinstance(failed.__cause__, LoadgenError):
                raise
            return CapacityStep(rate_rps=rate_rps, is_met=False, reason=failed.failure.reason)
        reason = objective.missed_by(measurement, rate_rps)
        path = inference.mostly_path(seen, measurement)
        return CapacityStep(rate_rps=rate_rps, is_met=not reason, reason=reason, path=path)

    def _load(self, spec: LoadSpec) -> tuple[tuple[ArmMeasurement, ...], MachineConditions]:
        """Runs the load generator; if a target has exited, that is the reason of the failure.

        Raises Interrupted after a signal, also if that ended the load generator, OutOfTime
        if it would end later than the run may, TrialFailed if it measured nothing.
        """
        interruption = self._runner.interruption
        interruption.check()
        if spec.timing.total_ns / 1e9 > self._runner.seconds_left():
            raise OutOfTime
        try:
            host, cores = self._runner.host, self._runner.cores
            spec, observer = host.observed(spec, cores)
            started = interruption.waits_for
            return run_load(spec, cores, started, observer=observer, generate=host.generate)
        except LoadgenError as error:
            interruption.check()
            # Without a responsible arm, the load generator itself failed.
            words = self._running[error.arm].output_tail() if error.arm else ""
            raise TrialFailed(TrialStage.LOAD, error.arm, error, words) from error
        finally:
            self._require_alive(spec)

    def _require_alive(self, spec: LoadSpec) -> None:
        # The connections of a process that ends are closed some time before it has ended.
        limit_s = DYING_S if sys.exception() else 0.0
        for name in spec.arms:
            running = self._running[name]
            if not running.is_alive_after(limit_s):
                error = TargetEnded(f"{name} {running.exit_description()} under load")
                raise TrialFailed(TrialStage.LOAD, name, error, running.output_tail())

    def _load_spec(
        self, planned: PlannedTrial, workload: Workload, window: TrialTiming
    ) -> LoadSpec:
        arms = planned.arms
        answers = [self._answers[name] for name in arms]
        bodies = {answer.body for answer in answers}
        others = [self._running[name].root for name in self._running if name not in arms]
        # A server behind a reverse proxy is neither foreign work nor the proxy's.
        for running in self._running.values():
            others += running.upstream_pids()
        loaded = {name: self._running[name] for name in arms}
        return updated(
            LoadSpec.of(loaded, workload, window, planned.seed),
            body=bodies.pop() if len(bodies) == 1 else None,
            status=answers[0].status,
            own_processes=tuple(pid for pid in others if pid is not None),
            warmup_requests=dict(self._warmed),
            warmup_rps=self._runner.first_rates | self.rates,
        )


def _trial(
    planned: PlannedTrial, workload: Workload, window_ns: int, slice_ns: int | None = None
) -> Trial:
    return Trial(
        index=0,
        block=planned.block,
        kind=planned.kind,
        arms=planned.arms,
        workload=workload,
        window_ns=window_ns,
        slice_ns=slice_ns,
    )


class TrialLoop:
    """Records the trials of one run; they are in `trials`, in the order in which they ran."""

    def __init__(
        self, writer: RunWriter, listener: ProgressListener, window_s: float, limit_s: float = 0.0
    ) -> None:
        """The time of the run begins; it is limited to `limit_s`, unless that is 0.

        `window_s` is warm-up and window together.
        """
        self.trials: list[Trial] = []
        self._began = self._last = time.monotonic()
        self._writer = writer
        self._listener = listener
        self._guess_s = window_s + OVERHEAD_S
        self._took_s: dict[TrialKind, list[float]] = defaultdict(list)
        self._limit_s = limit_s

    def run(
        self,
        kind: TrialKind,
        measure: Callable[[], Trial],
        left: Callable[[], Mapping[TrialKind, int]],
        reruns: int = RERUNS_MAX,
    ) -> Trial:
        """Measures until no check rejects the trial, it fails, or there were enough attempts.

        `measure` runs an attempt, whose index, number and failed checks are filled in here.
        `left` are the trials left, by kind, without reruns and early ends. Returns the last
        attempt; all are on disk.
        """
        attempt = 0
        while True:
            trial = updated(measure(), index=len(self.trials), attempt=attempt)
            now = time.monotonic()
            trial = updated(trial, elapsed_s=round(now - self._began, 3))
            trial = updated(trial, failed_checks=inference.trial_checks(trial))
            # Since the previous one its targets have also been started.
            self._took_s[kind].append(now - self._last)
            self._last = now
            self._writer.add(trial)
            self.trials.append(trial)
            rest, done = left(), len(self.trials)
            self._listener.trial(trial, done, done + sum(rest.values()), self.seconds(rest))
            if trial.failure is not None or attempt == reruns or not inference.is_rejected(trial):
                return trial
            attempt += 1

    def seconds(self, left: Mapping[TrialKind, int]) -> float:
        """Estimated duration of these numbers of trials in seconds, from the mean of each kind."""
        means = {kind: sum(took) / len(took) for kind, took in self._took_s.items() if took}
        needed_s = sum(count * means.get(kind, self._guess_s) for kind, count in left.items())
        if not self._limit_s:
            return needed_s
        return min(needed_s, max(0.0, self._limit_s - (time.monotonic() - self._began)))
