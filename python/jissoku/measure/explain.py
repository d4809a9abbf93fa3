"""Explains a target's cost: one probe after the other, then the rules.

Each probe has a fresh start of the target. No verdict uses these measurements, because the probes
disturb the target.
"""

import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from jissoku.errors import TargetError
from jissoku.explain import findings
from jissoku.explain.settings import server_of_command
from jissoku.inference.profile import user_functions
from jissoku.measure import probes
from jissoku.measure.client import ProbeError, RequestTarget
from jissoku.measure.loadgen import LoadgenError, LoadSpec
from jissoku.measure.profile import remove_perf_maps, with_names
from jissoku.measure.profiler import FREQUENCY_SHORT_HZ, ProfilerError, profile_load
from jissoku.measure.selection import recorded
from jissoku.measure.tune import TuningTarget
from jissoku.model import Capability, CoreAssignment, Workload
from jissoku.model.explanation import (
    Explanation,
    LoadObservation,
    Observations,
    ProbeFailure,
    TimerObservation,
    WaitObservation,
)
from jissoku.model.profile_observation import ProfileObservation
from jissoku.model.updated import updated
from jissoku.request import ExplanationRequest
from jissoku.request.kinds import PROBES
from jissoku.system import cores
from jissoku.system.interruption import Interrupted, Interruption
from jissoku.system.processes import process_tree
from jissoku.targets.launch import Launcher
from jissoku.targets.prepare import PreparedTarget
from jissoku.targets.process import RunningTarget

Seen = TypeVar("Seen")

WARMUP_NS = 300_000_000
WINDOW_NS = 1_500_000_000

# A hundred looks at each thread, of which a quarter is 25 +- 4.
WAITS_NS = 1_000_000_000
INTERRUPTED = "it was interrupted before"

# The probes whose observations have another name.
PROBE_FIELDS = {"functions": "profile"}

NAMES = {
    "wire": "the wire",
    "syscalls": "system calls",
    "floor": "the floor",
    "waits": "what its threads wait for",
    "timers": "the cost of its timers",
    "memory": "the memory of idle connections",
}

# Two seconds of one busy core are two thousand samples.
PROFILE_NS = 2_000_000_000

# A few at a time with short delays, so that the timers are examined often.
SHORT_DELAYS = Workload(path="/delay?ms=1", connections=8)
DELAYS_WARMUP_NS = 100_000_000
DELAYS_WINDOW_NS = 700_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainConfig:
    """The target to observe, and the request.

    Attributes:
        floor: The floor, if it can answer the request; its cost is the kernel's part.
        probes: Only these are used; empty: all.
    """

    prepared: PreparedTarget
    workload: Workload
    floor: PreparedTarget | None = None
    seed: int = 0
    probes: frozenset[str] = frozenset()
    request: ExplanationRequest | None = None


def explain(question: ExplainConfig, note: Callable[[str], None]) -> Explanation:
    """Observes a target with every probe, and diagnoses the causes.

    Interrupted, it diagnoses what it observed until then.
    """
    with Interruption() as interruption:
        observer = _Observer(question, note, interruption)
        try:
            observed = observer.observe()
        except (Interrupted, TargetError):
            if not interruption.asked:
                raise
            observed = observer.until_interrupted()
    prepared = question.prepared
    command = prepared.start.command if prepared.start else ()
    program = str(prepared.values.get("program", ""))
    found = findings(observed, server_of_command((program, *command)))
    return Explanation(
        target=prepared.name,
        version=prepared.version,
        path=question.workload.path,
        observations=observed,
        findings=found,
        functions=user_functions(observed.profile) if observed.profile else (),
        request=question.request and recorded(question.request),
        finished=not interruption.asked,
    )


def answering(knobs: TuningTarget, explanation: Explanation) -> TuningTarget:
    """Only the knobs for diagnosed causes."""
    causes = {finding.name for finding in explanation.findings}
    chosen = tuple(knob for knob in knobs.knobs if causes & set(knob.for_findings))
    return updated(knobs, knobs=chosen, skipped={})


class _Observer:
    """Starts the target for each probe, and stores observations and failures."""

    def __init__(
        self, config: ExplainConfig, note: Callable[[str], None], interruption: Interruption
    ) -> None:
        self._config = config
        self._note = note
        self._interruption = interruption
        self._rng = random.Random(config.seed)
        everything = cores.available_cores()
        apart = cores.partition_cores(everything)
        # The target may use every core, as in production: fewer workers than cores are detected.
        self._cores = CoreAssignment(server=everything, generator=apart.generator, shared=True)
        # Other load on a core then affects both copies alike.
        self._one_core = apart.server[:1]
        self._lost: list[ProbeFailure] = []
        self._seen: dict[str, Any] = {}

    def until_interrupted(self) -> Observations:
        """What was observed, and what no probe had been done for."""
        tried = {lost.probe for lost in self._lost}
        for name in PROBES:
            is_missing = name not in self._seen and NAMES.get(name, name) not in tried
            if is_missing and self._is_wanted(name):
                self._record_failure(name, INTERRUPTED)
        return self._observed()

    def observe(self) -> Observations:
        self._probe("wire", lambda up: probes.observe_wire(self._request_target(up)))
        self._probe(
            "syscalls", lambda up: probes.observe_syscalls(self._request_target(up), _pids(up))
        )
        self._probe("load", self._load)
        self._probe("waits", self._waits)
        self._probe("functions", self._profile, prepared=with_names(self._config.prepared))
        self._probe(
            "memory", lambda up: probes.observe_memory(self._request_target(up), lambda: _pids(up))
        )
        if self._can_probe_timers():
            self._probe("timers", self._timers, on=self._one_core)
        floor = self._floor()
        costs = {}
        if self._is_wanted("syscalls"):
            self._note("Looking at what calls cost here.")
            costs = probes.syscall_costs()
        return self._observed(
            floor_cpu_ns=floor.cpu_ns_per_request if floor else None,
            floor_total_cpu_ns=floor.total_cpu_ns_per_request if floor else None,
            syscall_cost_ns=costs,
        )

    def _observed(self, **others: Any) -> Observations:
        known = {PROBE_FIELDS.get(name, name): seen for name, seen in self._seen.items()}
        return Observations(**known, **others, failures=tuple(self._lost))

    def _is_wanted(self, probe: str) -> bool:
        return not self._config.probes or probe in self._config.probes

    def _probe(
        self,
        name: str,
        probe: Callable[[RunningTarget], Seen],
        on: tuple[int, ...] = (),
        prepared: PreparedTarget | None = None,
    ) -> Seen | None:
        """Starts the target, or another one, for a probe; None if it failed or is not wanted."""
        if not self._is_wanted(name):
            return None
        self._note(f"Looking at {NAMES.get(name, name)}.")
        is_floor = prepared is not None and prepared is self._config.floor
        prepared = prepared or self._config.prepared
        with self._started(prepared, on or self._cores.server) as running:
            try:
                seen = probe(running)
            except ProbeError as error:
                self._interruption.check()
                # Requests for delays are ours: a server of the user may not survive them.
                is_ours = is_floor or (name == "timers" and not prepared.capabilities)
                if not is_ours and not running.is_alive():
                    message = f"{running.name} {running.exit_description()} while it was looked at"
                    raise TargetError(message, stderr=running.output_tail()) from error
                self._record_failure(name, str(error), error.remedy)
                return None
        if not is_floor:
            self._seen[name] = seen
        return seen

    def _record_failure(self, name: str, reason: str, hint: str = "") -> None:
        self._lost.append(ProbeFailure(probe=NAMES.get(name, name), reason=reason, hint=hint))

    @contextmanager
    def _started(self, prepared: PreparedTarget, on: tuple[int, ...]) -> Iterator[RunningTarget]:
        """Starts the target on some cores, with one worker for each."""
        self._interruption.check()
        launcher = Launcher(
            cores=on, rng=self._rng, give_up=lambda: self._interruption.asked, note=self._note
        )
        with launcher.ready(prepared, self._config.workload) as running:
            yield running
            self._interruption.check()

    def _request_target(self, running: RunningTarget, path: str | None = None) -> RequestTarget:
        workload = self._config.workload
        asked = updated(workload, path=workload.path if path is None else path)
        return RequestTarget.of(running.address, asked)

    def _load(self, running: RunningTarget) -> LoadObservation:
        spec, started = self._spec(running, WINDOW_NS), self._interruption.waits_for
        return probes.observe_load(spec, self._cores, started=started)

    def _waits(self, running: RunningTarget) -> WaitObservation:
        spec, started = self._spec(running, WAITS_NS), self._interruption.waits_for
        return probes.observe_waits(spec, self._cores, started=started)

    def _profile(self, running: RunningTarget) -> ProfileObservation:
        """Samples the target under the same load, in a longer window for enough samples."""
        try:
            measured, samples = profile_load(
                self._spec(running, PROFILE_NS),
                self._cores,
                started=self._interruption.waits_for,
                frequency=FREQUENCY_SHORT_HZ,
            )
        except (LoadgenError, ProfilerError) as error:
            raise ProbeError(str(error)) from error
        finally:
            remove_perf_maps(running)
        return ProfileObservation(
            requests=measured.requests, cpu_ns=measured.cpu_ns or 0, samples=samples
        )

    def _spec(self, running: RunningTarget, window_ns: int) -> LoadSpec:
        config, arms = self._config, {running.name: running}
        return LoadSpec.of(arms, config.workload, WARMUP_NS, window_ns, config.seed)

    def _can_probe_timers(self) -> bool:
        """Whether the target supports delays; recipes declare it, other targets are tested."""
        if not self._is_wanted("timers"):
            return False
        parts = self._config.prepared.capabilities
        if parts and Capability.DELAY not in parts:
            self._record_failure("timers", probes.NO_DELAYS, probes.ADD_DELAYS)
            return False
        return True

    def _timers(self, running: RunningTarget) -> TimerObservation:
        def asking(delay_ms: int) -> RequestTarget:
            return self._request_target(running, f"/delay?ms={delay_ms}")

        with ExitStack() as stack:
            copy = self._copy(running, stack)
            check = self._interruption.check
            return probes.observe_timers(asking, lambda: self._cost(running, copy), check)

    def _copy(self, running: RunningTarget, stack: ExitStack) -> RunningTarget | None:
        """A second copy of the target; None if only one is possible, or for an external server."""
        if running.pid is None:
            return None
        try:
            return stack.enter_context(self._started(self._config.prepared, self._one_core))
        except TargetError:
            self._interruption.check()
            return None

    def _cost(self, running: RunningTarget, copy: RunningTarget | None) -> probes.LoadCost:
        arms = {"target": running} | ({} if copy is None else {"copy": copy})
        seed = self._config.seed
        spec = LoadSpec.of(arms, SHORT_DELAYS, DELAYS_WARMUP_NS, DELAYS_WINDOW_NS, seed)
        costs = probes.observe_costs(spec, self._cores, started=self._interruption.waits_for)
        return probes.LoadCost(target_ns=costs[0], control_ns=costs[-1] if copy else None)

    def _floor(self) -> LoadObservation | None:
        floor = self._config.floor
        if floor is None:
            if self._is_wanted("floor"):
                self._record_failure("floor", "it answers / and /42 only", "--path /")
            return None
        return self._probe("floor", self._load, prepared=floor)


def _pids(running: RunningTarget) -> set[int]:
    return process_tree(running.root)
