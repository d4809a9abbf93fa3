"""Profiles of targets: each alone, under one fixed rate, on the server's cores."""

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from jissoku.design.schedule import HEAVY
from jissoku.errors import TargetError
from jissoku.measure import loadgen, profiler
from jissoku.measure.loadgen import LoadgenError, LoadSpec
from jissoku.measure.machine import machine
from jissoku.measure.progress import ProgressListener
from jissoku.measure.selection import recorded
from jissoku.measure.trial import PreparedArm
from jissoku.model import CoreAssignment, Machine, Workload
from jissoku.model.profile import Profile, Samples
from jissoku.model.updated import updated
from jissoku.model.wording import plural
from jissoku.request import ProfileRequest
from jissoku.system.interruption import Interrupted, Interruption
from jissoku.system.processes import process_tree
from jissoku.targets.launch import Launcher
from jissoku.targets.prepare import PreparedTarget
from jissoku.targets.process import RunningTarget

# A closed loop that fills caches, lets runtimes compile, and measures the maximum rate.
PILOT_NS = 2_000_000_000
WARMUP_NS = 500_000_000

# Fraction of the closed loop's rate. Below saturation the cost of a request is comparable with
# trials of `compare`, and the load generator sends on schedule.
LOAD_FRACTION = 0.5

# Number of profiles of a difference.
TARGETS_MAX = 2

# With these Node writes the names of compiled functions to a file for the sampler; a JVM writes
# them on the sampler's request, and keeps frame pointers only with this option.
RUNTIME_ENVIRONMENT = {
    "NODE_OPTIONS": "--perf-basic-prof",
    "JAVA_TOOL_OPTIONS": "-XX:+PreserveFramePointer",
}


def with_names(prepared: PreparedTarget) -> PreparedTarget:
    """The target started so that the sampler finds the names of its functions."""
    if prepared.start is None:
        return prepared
    environment = RUNTIME_ENVIRONMENT | prepared.start.environment
    return updated(prepared, start=updated(prepared.start, environment=environment))


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileConfig:
    """Configuration of a profile.

    Attributes:
        arms: In the order in which they are reported; of two, the second is compared with the
            first.
        workload: Without a rate, half of what the slowest of them sustains.
    """

    arms: tuple[PreparedArm, ...]
    workload: Workload
    cores: CoreAssignment
    window_ns: int
    seed: int
    folder: Path
    version: str
    frequency: int = profiler.FREQUENCY_HZ
    request: ProfileRequest | None = None


def profile(config: ProfileConfig, listener: ProgressListener) -> tuple[tuple[Profile, ...], bool]:
    """Profiles all arms.

    Returns:
        The profiles, and whether all are complete. Interrupted, the last one is of the time until
        then, and all started processes are stopped.

    Raises:
        TargetError: A target does not start, exits, or gives no successful answer.
        ProfilerError: Sampling is impossible here.
    """
    found = []
    with Interruption() as interruption:
        try:
            profiling = _Profiling(config, interruption, machine())
            rate = config.workload.rate_rps or profiling.rate(listener)
            listener.note(f"The rate is {rate:,} {plural(rate, 'request')} per second.")
            for arm in config.arms:
                interruption.check()
                listener.note(f"Profiling {arm.arm.name} for {config.window_ns / 1e9:g} s.")
                found.append(profiling.profile(arm, rate))
        except (Interrupted, TargetError):
            # A target that was waited for when the signal came has not failed.
            if not interruption.asked:
                raise
    return tuple(found), not interruption.asked


def chosen_rate(capacities: Sequence[float], cores: int) -> int:
    """Half of the lowest capacity, in two digits, and at most the heavy load.

    A rate of the grid would be as little as a tenth of what a slow server can do, and the fewer
    samples of it the wider every interval.
    """
    half = min(capacities) * LOAD_FRACTION
    digits = len(str(int(half)))
    return max(1, min(HEAVY * cores, int(round(half, 2 - digits))))


class _Profiling:
    def __init__(self, config: ProfileConfig, interruption: Interruption, host: Machine) -> None:
        self._config = config
        self._interruption = interruption
        self._machine = host
        self._launcher = Launcher(
            cores=config.cores.server,
            rng=random.Random(config.seed),
            give_up=lambda: interruption.asked,
        )

    def rate(self, listener: ProgressListener) -> int:
        """Measures each arm's rate in a closed loop."""
        capacities = []
        for arm in self._config.arms:
            listener.note(f"Measuring the highest rate of {arm.arm.name}.")
            with self._started(arm) as running:
                capacities.append(self._warm_up(arm, running))
        return chosen_rate(capacities, len(self._config.cores.server))

    def profile(self, arm: PreparedArm, rate: int) -> Profile:
        """One profile, on a separate start."""
        config = self._config
        workload = updated(config.workload, rate_rps=rate)
        with self._started(arm) as running:
            self._warm_up(arm, running)
            arms = {arm.arm.name: running}
            spec = LoadSpec.of(arms, workload, WARMUP_NS, config.window_ns, config.seed)
            try:
                measured, samples = profiler.profile_load(
                    spec,
                    config.cores,
                    started=self._interruption.waits_for,
                    frequency=config.frequency,
                )
            except LoadgenError as error:
                raise self._failure(arm, running, error) from error
            if self._interruption.asked:
                samples = _until_now(samples, measured.duration_ns, config.window_ns)
            elif not running.is_alive():
                raise self._failure(arm, running, None)
        if not measured.cpu_ns:
            raise TargetError(f"{arm.arm.name} used no CPU time that can be read")
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
        """Why there is no profile: the target's exit, or the load generator's error."""
        self._interruption.check()
        if not running.is_alive():
            message = f"{arm.arm.name} {running.exit_description()} while it was profiled"
            return TargetError(message, stderr=running.output_tail())
        return TargetError(f"{arm.arm.name}: {error}", stderr=running.output_tail())

    @contextmanager
    def _started(self, arm: PreparedArm) -> Iterator[RunningTarget]:
        self._interruption.check()
        with self._launcher.ready(with_names(arm.prepared), self._config.workload) as running:
            try:
                yield running
            finally:
                remove_perf_maps(running)

    def _warm_up(self, arm: PreparedArm, running: RunningTarget) -> float:
        """Runs a closed loop, and returns its rate in requests per second."""
        workload = updated(self._config.workload, rate_rps=None)
        spec = LoadSpec.of({arm.arm.name: running}, workload, 0, PILOT_NS, self._config.seed)
        try:
            measurements, _ = loadgen.run_load(
                spec, self._config.cores, started=self._interruption.waits_for
            )
        except LoadgenError as error:
            raise self._failure(arm, running, error) from error
        self._interruption.check()
        return measurements[0].requests / (measurements[0].duration_ns / 1e9)


def _until_now(samples: Samples, sampled_ns: int, window_ns: int) -> Samples:
    """Samples that an interruption ended, with a note of it.

    Raises:
        Interrupted: There are none.
    """
    if not samples.samples:
        raise Interrupted
    note = f"It was interrupted after {sampled_ns / 1e9:.1f} of {window_ns / 1e9:g} s."
    return updated(samples, notes=(*samples.notes, note))


def remove_perf_maps(running: RunningTarget) -> None:
    """Removes the files that runtimes write into /tmp and leave there."""
    for pid in process_tree(running.pid):
        with suppress(OSError):
            Path(f"/tmp/perf-{pid}.map").unlink()  # noqa: S108 - where perf looks for it
