"""Constructed runs with known ratios, shaped like real ones."""

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

from hdrh.histogram import HdrHistogram  # type: ignore[import-untyped]
from msgspec import structs

from jissoku.model import (
    SINGLE_RATE_FACTOR,
    Arm,
    ArmMeasurement,
    Capacity,
    CheckOutcome,
    CoreAssignment,
    Failure,
    Latency,
    Load,
    LoadLevel,
    Machine,
    MachineConditions,
    Method,
    Mode,
    Origin,
    Run,
    Trial,
    TrialKind,
    TrialStage,
    Workload,
)
from jissoku.model.trial import FailedCheck
from jissoku.model.updated import updated

ERRORS = ("connect", "read", "write", "timeout", "status", "length", "body", "malformed", "closed")

QUIET = MachineConditions(
    generator_busy_fraction=1.0,
    generator_busy_polls=True,
    server_cores_busy_fraction=0.62,
    steal_fraction=0.0,
    foreign_fraction=0.0,
    tcp_retransmits=0,
    listen_overflows=0,
    longest_gap_ns=90_000,
    longest_stall_ns=90_000,
    major_faults=0,
)

MACHINE = Machine(
    cpu_model="AMD EPYC 7R13",
    cores=2,
    smt=True,
    memory_bytes=8_201_805_824,
    kernel="6.18.5",
    hypervisor="kvm",
    governor="",
    turbo="",
    clocksource="kvm-clock",
    python="3.11.7",
)


# The load of runs that do not say otherwise, and how long their turns are.
MIDDLE = Load(rate_rps=20_000, level=LoadLevel.MEDIUM)
TURN_NS = 200_000_000
OTHER_TURN_NS = 100_000_000
TURNS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class TrueValues:
    """The true values of a constructed arm: CPU ns per request, and its latency.

    Attributes:
        cost_ns: At every load that `costs_ns`, by rate, does not name.
        reach_rps: It takes part at no load above this one.
        alone, other_turn: By what its cost differs when it is measured alone, or in other turns.
        capacity_rps: What a capacity search finds.
    """

    cost_ns: float
    costs_ns: Mapping[int, float] = field(default_factory=dict)
    reach_rps: int = 1_000_000
    alone: float = 1.0
    other_turn: float = 1.0
    rate_rps: float = 40_000.0
    capacity_rps: int = 38_000
    latency_ns: int = 120_000
    user_fraction: float = 0.3
    rss_bytes: int = 4_000_000

    def cost_at(self, rate: int) -> float:
        """CPU nanoseconds per request."""
        return self.costs_ns.get(rate, self.cost_ns)


@cache
def histogram(median_ns: int, seed: int, count: int = 20_000) -> tuple[Latency, str]:
    """A log-normal latency distribution, and the percentiles that a load generator would report."""
    rng = random.Random(seed)
    kept = HdrHistogram(1, 60_000_000_000, 3)
    for _ in range(count // 10):
        kept.record_value(int(median_ns * math.exp(rng.gauss(0, 0.35))), 10)
    at = kept.get_value_at_percentile
    latency = Latency(
        p50=at(50),
        p90=at(90),
        p99=at(99),
        p999=at(99.9),
        max=kept.get_max_value(),
        mean=int(kept.get_mean_value()),
        min=kept.get_min_value(),
    )
    return latency, kept.encode().decode()


def arm_measurement(arm: str = "a", **changes: object) -> ArmMeasurement:
    """A valid measurement: 20,000 requests in a second, 5 us each."""
    latency, blob = histogram(120_000, 1)
    whole = ArmMeasurement(
        arm=arm,
        requests=20_000,
        errors=dict.fromkeys(ERRORS, 0),
        duration_ns=1_000_000_000,
        cpu_ns=100_000_000,
        cpu_user_fraction=0.3,
        rate_rps_offered=20_000.0,
        lag_ns_p99=9_000,
        latency_ns=latency,
        histogram=blob,
        per_second=(20_000,),
        rss_bytes_peak=4_000_000,
        connections_opened=64,
        bytes_received=20_000 * 150,
    )
    return updated(whole, **changes)  # type: ignore[arg-type]


def trial(kind: TrialKind, *measurements: ArmMeasurement, **changes: object) -> Trial:
    """A valid trial with these measurements."""
    rate = None if kind is TrialKind.CLOSED_LOOP else 20_000
    whole = Trial(
        index=0,
        block=0,
        kind=kind,
        arms=tuple(one.arm for one in measurements),
        workload=Workload(rate_rps=rate),
        window_ns=1_000_000_000,
        measurements=measurements,
        conditions=QUIET,
    )
    return updated(whole, **changes)  # type: ignore[arg-type]


def run(names: Sequence[str], *, floor: str = "", reference: str = "", **changes: object) -> Run:
    """A header with these arms; the first is the baseline."""
    whole = Run(
        jissoku="0.1.0 (release, 1234567)",
        started_utc="2026-11-21T09:00:00Z",
        seed=42,
        mode=Mode.QUICK,
        reference=reference or floor or names[0],
        baseline=names[0],
        floor=floor,
        arms=tuple(arm(name) for name in names),
        workload=Workload(),
        machine=MACHINE,
        cores=CoreAssignment(server=(0,), generator=(1,)),
    )
    return updated(whole, **changes)  # type: ignore[arg-type]


def arm(name: str, **changes: object) -> Arm:
    """An arm from a recipe."""
    whole = Arm(
        name=name,
        target=name,
        origin=Origin.RECIPE,
        version=f"{name} 1.0",
        command=(name, "--port", "{port}"),
    )
    return updated(whole, **changes)  # type: ignore[arg-type]


def sliced(names: Sequence[str], *, floor: str = "", **changes: object) -> Run:
    """A header of a run in time slices, at one load by default."""
    whole = updated(
        run(names, floor=floor),
        method=Method.TIME_SLICED,
        loads=(MIDDLE,),
        slice_ns=TURN_NS,
        check_slice_ns=OTHER_TURN_NS,
    )
    return updated(whole, **changes)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """Standard deviations of natural logarithms.

    Attributes:
        block: What a whole block shares.
        own: Of one arm in one paired trial, beside what the trial shares.
        alone: Of an arm's trial alone.
        latency: Of one arm's latency in one trial.
    """

    block: float = 0.10
    own: float = 0.007
    alone: float = 0.05
    latency: float = 0.02


QUIETEST = Noise(block=0.1, own=0.002, alone=0.002, latency=0.002)


def trials(
    run: Run,
    truths: Mapping[str, TrueValues],
    *,
    blocks: int = 9,
    check_blocks: int = 3,
    solo_blocks: int = 3,
    capacity_blocks: int = 0,
    noise: Noise | None = None,
    seed: int = 1,
) -> tuple[Trial, ...]:
    """A whole campaign by the run's method: paired trials, checks on them, and arms alone."""
    rng = random.Random(seed)
    noise = noise or Noise()
    made: list[Trial] = []
    for block in range(blocks):
        found: list[Trial] = []
        for load in run.loads or (MIDDLE,):
            rate = load.rate_rps or 20_000
            here = {a.name: truths[a.name] for a in run.arms if truths[a.name].reach_rps >= rate}
            found += _together(run, here, rate, noise, rng, is_checked=block < check_blocks)
            if block < solo_blocks:
                found += [_solo_cost(name, here[name], rate, noise, rng) for name in here]
        for arm in run.arms:
            if block < solo_blocks:
                found.append(_solo_rate(arm.name, truths[arm.name], noise, rng))
            if block < capacity_blocks:
                found.append(_capacity(arm.name, truths[arm.name], noise, rng))
        made += [updated(one, block=block) for one in found]
    return tuple(updated(one, index=index) for index, one in enumerate(made))


def _together(
    run: Run,
    here: Mapping[str, TrueValues],
    rate: int,
    noise: Noise,
    rng: random.Random,
    *,
    is_checked: bool,
) -> Iterator[Trial]:
    """One block's paired trials at one load."""
    if run.method is Method.PAIRED and run.baseline in here:
        for name in here:
            if name != run.baseline:
                pair = {one: here[one] for one in (name, run.baseline)}
                yield _paired(TrialKind.PAIRED, pair, rate, noise, rng)
    if len(here) < 2 or (run.method is Method.PAIRED and not is_checked):
        return
    if run.method is not Method.SINGLE:
        yield _paired(TrialKind.TIME_SLICED, here, rate, noise, rng)
    if run.method is Method.TIME_SLICED and is_checked:
        turned = {
            name: updated(truth, costs_ns={rate: truth.cost_at(rate) * truth.other_turn})
            for name, truth in here.items()
        }
        yield updated(
            _paired(TrialKind.TIME_SLICED, turned, rate, noise, rng), slice_ns=OTHER_TURN_NS
        )


def _paired(
    kind: TrialKind, truths: Mapping[str, TrueValues], rate: int, noise: Noise, rng: random.Random
) -> Trial:
    """Each arm is asked for a second; all share what the machine does meanwhile."""
    shared = rng.gauss(0, noise.block)
    is_sliced = kind is TrialKind.TIME_SLICED
    asked = rate if is_sliced else rate // SINGLE_RATE_FACTOR
    measurements = []
    for name, truth in truths.items():
        cost = truth.cost_at(rate) * math.exp(shared + rng.gauss(0, noise.own))
        only = _fixed_rate_measurement(name, truth, asked, cost, _latency(truth, noise, rng))
        if is_sliced:
            turn = (only.cpu_ns or 0) // TURNS
            only = updated(
                only,
                duration_ns=1_000_000_000 * len(truths),
                active_duration_ns=1_000_000_000,
                slice_cpu_ns=(turn,) * TURNS,
            )
        measurements.append(only)
    return trial(
        kind,
        *measurements,
        workload=Workload(rate_rps=asked),
        slice_ns=TURN_NS if is_sliced else None,
    )


def _solo_cost(name: str, truth: TrueValues, rate: int, noise: Noise, rng: random.Random) -> Trial:
    cost = truth.cost_at(rate) * truth.alone * math.exp(rng.gauss(0, noise.alone))
    only = _fixed_rate_measurement(name, truth, rate, cost, _latency(truth, noise, rng))
    return trial(TrialKind.FIXED_RATE, only, workload=Workload(rate_rps=rate))


def _fixed_rate_measurement(
    name: str, truth: TrueValues, requests: int, cost: float, latency: Latency
) -> ArmMeasurement:
    return arm_measurement(
        name,
        requests=requests,
        cpu_ns=round(cost * requests),
        cpu_user_fraction=truth.user_fraction,
        rate_rps_offered=float(requests),
        latency_ns=latency,
        histogram=histogram(truth.latency_ns, 1)[1],
        rss_bytes_peak=truth.rss_bytes,
        bytes_received=requests * 150,
    )


def _latency(truth: TrueValues, noise: Noise, rng: random.Random) -> Latency:
    """The arm's percentiles, all of them off by one factor."""
    known, _ = histogram(truth.latency_ns, 1)
    factor = math.exp(rng.gauss(0, noise.latency))
    return Latency(**{name: round(value * factor) for name, value in structs.asdict(known).items()})


def _capacity(name: str, truth: TrueValues, noise: Noise, rng: random.Random) -> Trial:
    found = round(truth.capacity_rps * math.exp(rng.gauss(0, noise.alone)))
    known = Capacity(objective="p99<10ms", rate_rps=found)
    return trial(TrialKind.CAPACITY, arms=(name,), workload=Workload(rate_rps=None), capacity=known)


def _solo_rate(name: str, truth: TrueValues, noise: Noise, rng: random.Random) -> Trial:
    requests = round(truth.rate_rps * math.exp(rng.gauss(0, noise.alone)))
    # Little's law holds in the closed loop: 64 connections are always waiting.
    latency, blob = histogram(round(60e9 / truth.rate_rps), 1)
    only = arm_measurement(
        name,
        requests=requests,
        latency_ns=updated(latency, mean=round(64e9 / requests)),
        histogram=blob,
        cpu_ns=round(truth.cost_ns * requests),
        rate_rps_offered=None,
        lag_ns_p99=None,
        rss_bytes_peak=truth.rss_bytes,
        bytes_received=requests * 150,
    )
    busy = updated(
        QUIET,
        generator_busy_polls=False,
        generator_busy_fraction=0.7,
        server_cores_busy_fraction=0.99,
    )
    return trial(TrialKind.CLOSED_LOOP, only, conditions=busy)


def failed(
    kind: TrialKind, *arms: str, stderr: str = "bind: address in use", **changes: object
) -> Trial:
    """A trial in which the first arm did not start."""
    failure = Failure(
        stage=TrialStage.READY,
        arm=arms[0],
        reason="ended with status 1 before it answered",
        stderr=stderr,
    )
    whole = trial(kind, failure=failure, arms=arms)
    return updated(whole, **changes)  # type: ignore[arg-type]


def invalid(arm: str) -> FailedCheck:
    """The failed check of a trial in which an arm answered wrongly."""
    message = f"{arm}: missing or wrong responses: 3 body"
    return FailedCheck(name="errors", outcome=CheckOutcome.INVALID, message=message, arm=arm)


def rejected(trial: Trial) -> Trial:
    """The same trial, with a load generator that was stopped."""
    check = FailedCheck(name="stall", outcome=CheckOutcome.REJECT, message="it was stopped")
    return updated(trial, failed_checks=(check,))


def beside(trial: Trial, share: float) -> Trial:
    """The same trial beside other programs that used this share of the server's cores."""
    if trial.conditions is None:
        return trial
    seen = updated(trial.conditions, foreign_fraction=share + 0.01, generator_wait_fraction=share)
    return updated(trial, conditions=seen)
