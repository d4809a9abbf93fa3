"""Targets that were started together, and all measurements on one start.

A failure is stored: every later measurement on the start is a failed trial with its reason.
"""

import random
from collections.abc import Iterator
from contextlib import contextmanager

from jissoku.design import search
from jissoku.design.sampling_plan import SamplingPlan
from jissoku.design.schedule import PlannedTrial
from jissoku.measure import capacity
from jissoku.measure.capacity import Objective
from jissoku.measure.loadgen import LoadSpec
from jissoku.measure.trial_runner import TrialFailed, TrialRunner, TrialTiming, VerifiedServer
from jissoku.model import Capacity, CapacityStep, Failure, Trial, Workload
from jissoku.model.updated import updated
from jissoku.targets.process import RunningTarget  # noqa: TC001 - of attributes

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
            window_ns=capacity.STEP_NS,
        )
        steps: list[CapacityStep] = []
        try:
            while self._failure is None and (rate := search.next_rate(steps, first_rps)):
                window = TrialTiming(capacity.STEP_WARMUP_NS, capacity.window_ns(rate))
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
