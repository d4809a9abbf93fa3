"""Profiles of targets: each alone, under one fixed rate, on the server's cores."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from jissoku.design.schedule import HEAVY
from jissoku.errors import HostLost, TargetError
from jissoku.measure.host import HostLoad, LocalHost, ServerHost, ready
from jissoku.measure.inspection import Inspector
from jissoku.measure.loadgen import LoadgenError, LoadSpec, TrialTiming
from jissoku.measure.progress import ProgressListener
from jissoku.measure.sampler import FREQUENCY_HZ, remove_perf_maps
from jissoku.measure.selection import recorded
from jissoku.measure.trial import PreparedArm
from jissoku.model import (
    ArmMeasurement,
    CoreAssignment,
    Workload,
    join_names,
    plural,
    updated,
)
from jissoku.model.profile import Profile, Samples
from jissoku.request import ProfileRequest
from jissoku.system.interruption import Interrupted, Interruption
from jissoku.targets.process import RunningTarget

# A closed loop that fills caches, lets runtimes compile, and measures the maximum rate.
PILOT = TrialTiming(0, 2_000_000_000)
WARMUP_NS = 500_000_000

# Fraction of the closed loop's rate. Below saturation the cost of a request is comparable with
# trials of `compare`, and the load generator sends on schedule.
LOAD_FRACTION = 0.5

# Number of profiles of a difference.
TARGETS_MAX = 2


def profile_load(
    load: HostLoad, inspector: Inspector, frequency: int
) -> tuple[ArmMeasurement, Samples]:
    """Samples one arm under load; LoadgenError without answers, ProfilerError without samples."""
    limit_s = load.spec.timing.total_ns / 1e9
    with inspector.sampler(limit_s=limit_s, frequency=frequency) as sampler:
        (measurement, *_), _ = load.run(sampler.on_window)
        return measurement, sampler.samples()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileConfig:
    """Of two arms, the second is compared with the first.

    Without a rate, it is half of what the slowest of them sustains. `host` is where they run.
    """

    arms: tuple[PreparedArm, ...]
    workload: Workload
    cores: CoreAssignment
    window_ns: int
    seed: int
    folder: Path
    version: str
    frequency: int = FREQUENCY_HZ
    request: ProfileRequest | None = None
    host: ServerHost = field(default_factory=LocalHost)


def profile(config: ProfileConfig, listener: ProgressListener) -> tuple[tuple[Profile, ...], bool]:
    """The profiles of all arms, and whether all are complete.

    Interrupted, the last one is of the time until then; without their host, which then is `lost`,
    those before are all. TargetError if a target does not start, exits, or gives no successful
    answer, ProfilerError if sampling is impossible there.
    """
    found = []
    with Interruption() as interruption:
        try:
            profiling = _Profiling(config, interruption)
            rate = config.workload.rate_rps or profiling.rate(listener)
            listener.note(f"The rate is {rate:,} {plural(rate, 'request')} per second.")
            for arm in config.arms:
                interruption.check()
                listener.note(f"Profiling {arm.arm.name} for {config.window_ns / 1e9:g} s.")
                found.append(profiling.profile(arm, rate))
        except (Interrupted, TargetError, HostLost):
            # A target that was waited for when the signal came has not failed.
            if not (interruption.asked or config.host.lost):
                raise
    missing = [arm.arm.name for arm in config.arms[len(found) :]]
    if missing and config.host.lost:
        listener.note(f"Not profiled: {join_names(missing)}.")
    return tuple(found), not (missing or interruption.asked)


def chosen_rate(capacities: Sequence[float], cores: int) -> int:
    """Half of the lowest capacity, in two digits, and at most the heavy load.

    A rate of the grid would be as little as a tenth of what a slow server can do, and the fewer
    samples of it the wider every interval.
    """
    half = min(capacities) * LOAD_FRACTION
    digits = len(str(int(half)))
    return max(1, min(HEAVY * cores, int(round(half, 2 - digits))))


class _Profiling:
    def __init__(self, config: ProfileConfig, interruption: Interruption) -> None:
        self._config = config
        self._interruption = interruption
        self._machine = config.host.machine()
        self._remarks = config.host.remarks()
        self._launcher = config.host.launcher(config.seed, config.cores.server, None)

    def rate(self, listener: ProgressListener) -> int:
        capacities = []
        for arm in self._config.arms:
            listener.note(f"Measuring the highest rate of {arm.arm.name}.")
            with self._started(arm) as running:
                capacities.append(self._warm_up(arm, running))
        return chosen_rate(capacities, len(self._config.cores.server))

    def profile(self, arm: PreparedArm, rate: int) -> Profile:
        config = self._config
        workload = updated(config.workload, rate_rps=rate)
        with self._started(arm) as running:
            self._warm_up(arm, running)
            load = self._load(arm, running, workload, TrialTiming(WARMUP_NS, config.window_ns))
            inspector = config.host.inspector(running, config.cores)
            try:
                measured, samples = profile_load(load, inspector, config.frequency)
            except LoadgenError as error:
                raise self._failure(arm, running, error) from error
            if self._interruption.asked:
                samples = _until_now(samples, measured.duration_ns, config.window_ns)
            elif not running.is_alive():
                raise self._failure(arm, running, None)
        if not measured.cpu_ns:
            raise TargetError(f"{arm.arm.name} used no CPU time that can be read")
        samples = updated(samples, notes=(*samples.notes, *self._remarks))
        return Profile(
            target=arm.arm.name,
            version=arm.arm.version,
            lab=config.version,
            workload=workload,
            cores=config.cores,
            machine=self._machine,
            window_ns=measured.duration_ns,
            requests=measured.requests,
            cpu_ns=measured.cpu_ns,
            samples=samples,
            request=config.request and recorded(config.request),
        )

    def _failure(
        self, arm: PreparedArm, running: RunningTarget, error: Exception | None
    ) -> Exception:
        self._interruption.check()
        if not running.is_alive():
            ended = f"{arm.arm.name} {running.exit_description()} while it was profiled"
            return running.error(ended)
        return running.error(f"{arm.arm.name}: {error}")

    @contextmanager
    def _started(self, arm: PreparedArm) -> Iterator[RunningTarget]:
        interruption, config = self._interruption, self._config
        interruption.check()
        named = config.host.with_names(arm.prepared)
        with ready(
            config.host,
            self._launcher.start(named, config.workload),
            config.workload,
            lambda: interruption.asked,
        ) as running:
            try:
                yield running
            finally:
                remove_perf_maps(running)

    def _load(
        self, arm: PreparedArm, running: RunningTarget, workload: Workload, timing: TrialTiming
    ) -> HostLoad:
        config = self._config
        return HostLoad(
            host=config.host,
            spec=LoadSpec.of({arm.arm.name: running}, workload, timing, config.seed),
            cores=config.cores,
            started=self._interruption.waits_for,
        )

    def _warm_up(self, arm: PreparedArm, running: RunningTarget) -> float:
        workload = updated(self._config.workload, rate_rps=None)
        try:
            (loop,), _ = self._load(arm, running, workload, PILOT).run()
        except LoadgenError as error:
            raise self._failure(arm, running, error) from error
        self._interruption.check()
        return loop.requests / (loop.duration_ns / 1e9)


def _until_now(samples: Samples, sampled_ns: int, window_ns: int) -> Samples:
    """Samples that an interruption ended, with a note of it; Interrupted if there are none."""
    if not samples.samples:
        raise Interrupted
    note = f"It was interrupted after {sampled_ns / 1e9:.1f} of {window_ns / 1e9:g} s."
    return updated(samples, notes=(*samples.notes, note))
