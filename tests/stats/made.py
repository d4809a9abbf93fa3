"""Made-up runs with known truths, shaped like real ones."""

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from hdrh.histogram import HdrHistogram  # type: ignore[import-untyped]

from jissoku.model import (
    SOLO_LOAD,
    Arm,
    Conditions,
    Cores,
    Failure,
    Kind,
    Lane,
    Latency,
    Machine,
    Mode,
    Origin,
    Run,
    Stage,
    Trial,
    Workload,
)

ERRORS = ("connect", "read", "write", "timeout", "status", "length", "body", "malformed", "closed")

QUIET = Conditions(
    generator_busy_fraction=1.0,
    spins=True,
    server_cores_busy_fraction=0.62,
    steal_fraction=0.0,
    foreign_fraction=0.0,
    tcp_retransmits=0,
    listen_overflows=0,
    longest_gap_ns=90_000,
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """What is true of a made-up arm: CPU ns per request, and how it answers."""

    cost_ns: float
    rate_rps: float = 40_000.0
    latency_ns: int = 120_000
    user_fraction: float = 0.3
    rss_bytes: int = 4_000_000
    duet_rate_rps: int = 20_000
    leaves_out: str = ""


@cache
def histogram(median_ns: int, seed: int, count: int = 20_000) -> tuple[Latency, str]:
    """A log-normal latency distribution, and what a stopwatch would say of it."""
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


def lane(arm: str = "a", **changes: object) -> Lane:
    """A lane in which nothing went wrong: 20,000 requests in a second, 5 us each."""
    latency, blob = histogram(120_000, 1)
    whole = Lane(
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
    return replace(whole, **changes)  # type: ignore[arg-type]


def trial(kind: Kind, *lanes: Lane, **changes: object) -> Trial:
    """A counted trial of these lanes."""
    rate = None if kind is Kind.SOLO_RATE else 20_000
    whole = Trial(
        index=0,
        block=0,
        kind=kind,
        arms=tuple(one.arm for one in lanes),
        workload=Workload(rate_rps=rate),
        window_ns=1_000_000_000,
        lanes=lanes,
        conditions=QUIET,
    )
    return replace(whole, **changes)  # type: ignore[arg-type]


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
        cores=Cores(server=(0,), stopwatch=(1,)),
    )
    return replace(whole, **changes)  # type: ignore[arg-type]


def arm(name: str, **changes: object) -> Arm:
    """An arm from a recipe."""
    whole = Arm(
        name=name,
        target=name,
        origin=Origin.RECIPE,
        version=f"{name} 1.0",
        command=(name, "--port", "{port}"),
    )
    return replace(whole, **changes)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """Standard deviations of natural logarithms.

    Attributes:
        block: What a whole block shares: both lanes of a duet have it.
        duet: Of the ratio of two lanes in one duet.
        solo: Of a solo trial.
    """

    block: float = 0.10
    duet: float = 0.01
    solo: float = 0.05


def trials(
    run: Run,
    truths: Mapping[str, Truth],
    *,
    blocks: int = 9,
    solo_blocks: int = 3,
    noise: Noise | None = None,
    seed: int = 1,
) -> tuple[Trial, ...]:
    """A whole campaign: duets against the reference, solo trials in the first blocks."""
    rng = random.Random(seed)
    noise = noise or Noise()
    made: list[Trial] = []
    for block in range(blocks):
        for name in (one.name for one in run.arms if one.name != run.reference):
            made.append(_duet((name, run.reference), truths, noise, rng))
            made[-1] = replace(made[-1], block=block)
        for name in (one.name for one in run.arms):
            if block < solo_blocks:
                made.append(replace(_solo_cost(name, truths[name], noise, rng), block=block))
                made.append(replace(_solo_rate(name, truths[name], noise, rng), block=block))
    return tuple(replace(one, index=index) for index, one in enumerate(made))


def _duet(
    names: tuple[str, str], truths: Mapping[str, Truth], noise: Noise, rng: random.Random
) -> Trial:
    rate = min(truths[name].duet_rate_rps for name in names)
    shared = rng.gauss(0, noise.block)
    apart = rng.gauss(0, noise.duet)
    lanes = []
    for name, share in zip(names, (apart, 0.0), strict=True):
        cost = truths[name].cost_ns * math.exp(shared + share)
        lanes.append(
            lane(
                name,
                requests=rate,
                cpu_ns=round(cost * rate),
                cpu_user_fraction=truths[name].user_fraction,
                rate_rps_offered=float(rate),
                rss_bytes_peak=truths[name].rss_bytes,
                bytes_received=rate * 150,
            )
        )
    return trial(Kind.DUET, *lanes, workload=Workload(rate_rps=rate))


def _solo_cost(name: str, truth: Truth, noise: Noise, rng: random.Random) -> Trial:
    rate = SOLO_LOAD * truth.duet_rate_rps
    latency, blob = histogram(truth.latency_ns, rng.randrange(8), rate)
    only = lane(
        name,
        requests=rate,
        cpu_ns=round(truth.cost_ns * math.exp(rng.gauss(0, noise.solo)) * rate),
        cpu_user_fraction=truth.user_fraction,
        rate_rps_offered=float(rate),
        latency_ns=latency,
        histogram=blob,
        rss_bytes_peak=truth.rss_bytes,
        bytes_received=rate * 150,
    )
    return trial(Kind.SOLO_COST, only, workload=Workload(rate_rps=rate))


def _solo_rate(name: str, truth: Truth, noise: Noise, rng: random.Random) -> Trial:
    requests = round(truth.rate_rps * math.exp(rng.gauss(0, noise.solo)))
    # Little's law holds in the closed loop: 64 connections are always waiting.
    latency, blob = histogram(round(60e9 / truth.rate_rps), 1)
    only = lane(
        name,
        requests=requests,
        latency_ns=replace(latency, mean=round(64e9 / requests)),
        histogram=blob,
        cpu_ns=round(truth.cost_ns * requests),
        rate_rps_offered=None,
        lag_ns_p99=None,
        rss_bytes_peak=truth.rss_bytes,
        bytes_received=requests * 150,
    )
    busy = replace(QUIET, spins=False, generator_busy_fraction=0.7, server_cores_busy_fraction=0.99)
    return trial(Kind.SOLO_RATE, only, conditions=busy)


def failed(
    kind: Kind, *arms: str, stderr: str = "bind: address in use", **changes: object
) -> Trial:
    """A trial in which the first arm did not start."""
    failure = Failure(
        stage=Stage.READY,
        arm=arms[0],
        reason="ended with status 1 before it answered",
        stderr=stderr,
    )
    whole = trial(kind, failure=failure, arms=arms)
    return replace(whole, **changes)  # type: ignore[arg-type]
