"""Explains a target's cost: one probe after the other, then the rules.

Each probe has a fresh start of the target. No verdict uses these measurements, because the probes
disturb the target.
"""

import math
import random
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from jissoku.errors import HostLost, JissokuError, TargetError
from jissoku.explain import findings
from jissoku.explain.settings import server_of_command
from jissoku.inference.profile import user_functions
from jissoku.measure import probes
from jissoku.measure.client import ProbeError, RequestTarget
from jissoku.measure.host import HostLoad, LocalHost, ServerHost, ready
from jissoku.measure.inspection import Inspector
from jissoku.measure.knob_changes import TuningTarget
from jissoku.measure.loadgen import LoadSpec, TrialTiming
from jissoku.measure.profile import profile_load
from jissoku.measure.sampler import FREQUENCY_SHORT_HZ, remove_perf_maps
from jissoku.measure.selection import recorded
from jissoku.model import Capability, Workload, explanation as model, updated
from jissoku.model.profile import ProfileObservation
from jissoku.request import ExplanationRequest
from jissoku.request.kinds import PROBES
from jissoku.system.interruption import Interrupted, Interruption
from jissoku.targets.prepare import PreparedTarget
from jissoku.targets.process import RunningTarget

Seen = TypeVar("Seen")

WARMUP_NS = 300_000_000
WINDOW_NS = 1_500_000_000

# A hundred looks at each thread, of which a quarter is 25 +- 4.
WAITS_NS = 1_000_000_000

# What ends an explanation early; and the reason for what was not observed yet.
INTERRUPTED = "it was interrupted"
LOST = "the host of the target was lost"
TIME_OVER = "the time was over before"

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
CALLS = "what calls cost"

# Two seconds of one busy core are two thousand samples.
PROFILE_NS = 2_000_000_000

# A few at a time with short delays, so that the timers are examined often.
SHORT_DELAYS = Workload(path="/delay?ms=1", connections=8)
DELAYS = TrialTiming(100_000_000, 700_000_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainConfig:
    """The target to observe, and the request; empty `probes` are all.

    The floor is None if it cannot answer the request; its cost is the kernel's part. No probe
    begins after `time_limit_s`. `host` is where the target runs.
    """

    prepared: PreparedTarget
    workload: Workload
    floor: PreparedTarget | None = None
    seed: int = 0
    probes: frozenset[str] = frozenset()
    time_limit_s: float | None = None
    request: ExplanationRequest | None = None
    host: ServerHost = field(default_factory=LocalHost)


def explain(question: ExplainConfig, note: Callable[[str], None]) -> model.Explanation:
    """Diagnoses the causes from all probes.

    After an interruption, or when the host of the target is lost, from those until then.
    """
    until = ""
    with Interruption() as interruption:
        observer = _Observer(question, note, interruption)
        try:
            observer.observe()
        except (Interrupted, TargetError, HostLost):
            # A target that was waited for when the signal came has not failed.
            if not (interruption.asked or question.host.lost):
                raise
            until = LOST if question.host.lost else INTERRUPTED
        if interruption.asked:
            until = until or INTERRUPTED
        if until:
            observer.end_early(until)
        observed = observer.observed()
    prepared = question.prepared
    command = prepared.start.command if prepared.start else ()
    program = str(prepared.values.get("program", ""))
    found = findings(observed, server_of_command((program, *command)))
    return model.Explanation(
        target=prepared.name,
        version=prepared.version,
        path=question.workload.path,
        observations=observed,
        findings=found,
        functions=user_functions(observed.profile) if observed.profile else (),
        request=question.request and recorded(question.request),
        finished=not until,
        until=until,
    )


def answering(knobs: TuningTarget, explanation: model.Explanation) -> TuningTarget:
    causes = {finding.name for finding in explanation.findings}
    chosen = tuple(knob for knob in knobs.knobs if causes & set(knob.for_findings))
    return updated(knobs, knobs=chosen, skipped={})


class _Observer:
    def __init__(
        self, config: ExplainConfig, note: Callable[[str], None], interruption: Interruption
    ) -> None:
        self._config = config
        self._note = note
        self._interruption = interruption
        self._rng = random.Random(config.seed)
        self._host = config.host
        # The target may use every core, as in production: fewer workers than cores are detected.
        self._cores = self._host.production_cores()
        # Other load on a core then affects both copies alike.
        self._one_core = self._cores.server[:1]
        limit_s = math.inf if config.time_limit_s is None else config.time_limit_s
        self._end_s = time.monotonic() + limit_s
        self._lost: list[model.ProbeFailure] = []
        self._seen: dict[str, Any] = {}
        self._costs: dict[str, float] = {}

    def end_early(self, reason: str) -> None:
        """Notes what no probe had been done for, and why."""
        tried = {lost.probe for lost in self._lost}
        missing = [one for one in PROBES if one not in self._seen and self._is_wanted(one)]
        missing += [CALLS] if self._is_wanted("syscalls") and not self._costs else []
        for name in missing:
            if NAMES.get(name, name) not in tried:
                self._record_failure(name, f"{reason} before")

    def observe(self) -> None:
        asking, inspecting, loaded = self._request_target, self._inspector, self._loaded
        named = self._host.with_names(self._config.prepared)
        self._probe("wire", lambda up: probes.observe_wire(asking(up)))
        self._probe("syscalls", lambda up: probes.observe_syscalls(asking(up), inspecting(up)))
        self._probe("load", self._load)
        self._probe("waits", lambda up: probes.observe_waits(loaded(up, WAITS_NS), inspecting(up)))
        self._probe("functions", self._profile, prepared=named)
        self._probe("memory", lambda up: probes.observe_memory(asking(up), inspecting(up)))
        if self._can_probe_timers():
            self._probe("timers", self._timers, on=self._one_core)
        self._floor()
        if self._is_wanted("syscalls") and not self._is_over():
            self._note("Looking at what calls cost here.")
            self._costs = self._host.syscall_costs()

    def observed(self) -> model.Observations:
        """What was observed until now."""
        known = {PROBE_FIELDS.get(name, name): seen for name, seen in self._seen.items()}
        floor: model.LoadObservation | None = known.pop("floor", None)
        return model.Observations(
            **known,
            floor_cpu_ns=floor.cpu_ns_per_request if floor else None,
            floor_total_cpu_ns=floor.total_cpu_ns_per_request if floor else None,
            syscall_cost_ns=self._costs,
            failures=tuple(self._lost),
        )

    def _is_wanted(self, probe: str) -> bool:
        return not self._config.probes or probe in self._config.probes

    def _is_over(self) -> bool:
        return time.monotonic() >= self._end_s

    def _probe(
        self,
        name: str,
        probe: Callable[[RunningTarget], Seen],
        on: tuple[int, ...] = (),
        prepared: PreparedTarget | None = None,
    ) -> None:
        """Starts the target, or another one, for a probe if it is wanted."""
        if not self._is_wanted(name):
            return
        if self._is_over():
            self._record_failure(name, TIME_OVER, "a longer --for")
            return
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
                # Asked first: without the host of the target, that is the reason.
                if not running.is_alive() and not is_ours:
                    ended = f"{running.name} {running.exit_description()} while it was looked at"
                    raise running.error(ended) from error
                self._record_failure(name, str(error), error.remedy)
                return
            # Before the target is stopped: its host may be lost meanwhile.
            self._interruption.check()
            self._seen[name] = seen

    def _record_failure(self, name: str, reason: str, hint: str = "") -> None:
        self._lost.append(model.ProbeFailure(probe=NAMES.get(name, name), reason=reason, hint=hint))

    @contextmanager
    def _started(self, prepared: PreparedTarget, on: tuple[int, ...]) -> Iterator[RunningTarget]:
        """Starts the target on some cores, with one worker for each."""
        self._interruption.check()
        workload = self._config.workload
        launcher = self._host.launcher(self._rng.getrandbits(31), on, None)
        with ready(
            self._host,
            launcher.start(prepared, workload),
            workload,
            lambda: self._interruption.asked,
            self._note,
        ) as running:
            yield running
            self._interruption.check()

    def _request_target(self, running: RunningTarget, path: str | None = None) -> RequestTarget:
        workload = self._config.workload
        asked = updated(workload, path=workload.path if path is None else path)
        return RequestTarget.of(running.address, asked)

    def _load(self, running: RunningTarget) -> model.LoadObservation:
        return probes.observe_load(self._loaded(running, WINDOW_NS), self._inspector(running))

    def _inspector(self, running: RunningTarget) -> Inspector:
        return self._host.inspector(running, self._cores)

    def _profile(self, running: RunningTarget) -> ProfileObservation:
        try:
            loaded, inspector = self._loaded(running, PROFILE_NS), self._inspector(running)
            measured, samples = profile_load(loaded, inspector, FREQUENCY_SHORT_HZ)
        except (HostLost, TargetError):
            raise
        except JissokuError as error:
            raise ProbeError(str(error)) from error
        finally:
            remove_perf_maps(running)
        return ProfileObservation(
            requests=measured.requests, cpu_ns=measured.cpu_ns or 0, samples=samples
        )

    def _loaded(self, running: RunningTarget, window_ns: int) -> HostLoad:
        config, arms = self._config, {running.name: running}
        timing = TrialTiming(WARMUP_NS, window_ns)
        return self._on_host(LoadSpec.of(arms, config.workload, timing, config.seed))

    def _on_host(self, spec: LoadSpec) -> HostLoad:
        started = self._interruption.waits_for
        return HostLoad(host=self._host, spec=spec, cores=self._cores, started=started)

    def _can_probe_timers(self) -> bool:
        if not self._is_wanted("timers"):
            return False
        parts = self._config.prepared.capabilities
        if parts and Capability.DELAY not in parts:
            self._record_failure("timers", probes.NO_DELAYS, probes.ADD_DELAYS)
            return False
        return True

    def _timers(self, running: RunningTarget) -> model.TimerObservation:
        def asking(delay_ms: int) -> RequestTarget:
            return self._request_target(running, f"/delay?ms={delay_ms}")

        with ExitStack() as stack:
            copy = self._copy(stack)
            check = self._interruption.check
            return probes.observe_timers(asking, lambda: self._cost(running, copy), check)

    def _copy(self, stack: ExitStack) -> RunningTarget | None:
        """A second copy of the target; None if only one is possible, or for an external server."""
        if self._config.prepared.address is not None:
            return None
        try:
            return stack.enter_context(self._started(self._config.prepared, self._one_core))
        except TargetError:
            self._interruption.check()
            return None

    def _cost(self, running: RunningTarget, copy: RunningTarget | None) -> probes.LoadCost:
        arms = {"target": running} | ({} if copy is None else {"copy": copy})
        spec = LoadSpec.of(arms, SHORT_DELAYS, DELAYS, self._config.seed)
        costs = probes.observe_costs(self._on_host(spec))
        return probes.LoadCost(target_ns=costs[0], control_ns=costs[-1] if copy else None)

    def _floor(self) -> None:
        floor = self._config.floor
        if floor is not None:
            self._probe("floor", self._load, prepared=floor)
        elif self._is_wanted("floor"):
            self._record_failure("floor", "it answers / and /42 only", "--path /")
