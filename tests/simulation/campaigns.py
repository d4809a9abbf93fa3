"""Records of simulated campaigns, with known costs and the noise of real ones."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from jissoku.model import (
    SINGLE_RATE_FACTOR,
    ArmMeasurement,
    Latency,
    Load,
    Method,
    Run,
    Trial,
    TrialKind,
    Workload,
)
from jissoku.model.updated import updated
from tests.inference import factories
from tests.simulation.noise import LOADS, Noise, deviations, machine

TURN_NS, OTHER_TURN_NS = 50_000_000, 100_000_000

# CPU nanoseconds of a request of an arm whose cost is 1.
UNIT_NS = 20_000

# So few answers have no percentiles, which would only take time; with many, each block has its own.
FEW, MANY = 150, 20_000

# A check is asked half as long as what it checks.
CHECK_SPREAD = 2**0.5

CLOSED_LOOP_RPS = 50_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The arms and trials of a campaign.

    Attributes:
        costs: Of each arm, in the order of their names; the baseline is the first.
        paced_blocks: Number of blocks with each arm alone at each load, from the first one on.
        check_blocks: Number with slices of the other length; in a run of paired trials, slices at
            all.
        closed_blocks: Number with each arm's closed loop, whose rate is the inverse of its cost.
        latency: Standard deviation of an arm's latency in one trial; None for no latencies.
    """

    costs: Sequence[float]
    noise: Noise
    loads: Sequence[Load] = LOADS
    method: Method = Method.TIME_SLICED
    blocks: int = 9
    paced_blocks: int = 2
    check_blocks: int = 2
    closed_blocks: int = 0
    latency: float | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """One for each cost."""
        return tuple(f"arm{index}" for index in range(len(self.costs)))


@cache
def header(names: tuple[str, ...], loads: tuple[Load, ...], method: Method) -> Run:
    """The run that such a campaign belongs to."""
    return factories.run(
        names, loads=loads, method=method, slice_ns=TURN_NS, check_slice_ns=OTHER_TURN_NS
    )


def campaign(plan: Plan, rng: np.random.Generator) -> tuple[Run, tuple[Trial, ...]]:
    """One campaign from its first block to its last."""
    blocks, loads, arms = plan.blocks, len(plan.loads), len(plan.costs)
    shape, size = plan.noise.shape, (blocks, loads, arms)
    own = np.array([plan.noise.own[LOADS.index(load)] for load in plan.loads])[:, None]
    # One start for what meets, and one for each arm alone.
    started = deviations(rng, shape, (3, blocks, 1, arms)) * plan.noise.of_starts(arms)
    started += np.log(plan.costs)
    main, check, alone = own * deviations(rng, shape, (3, *size))
    closed = own[-1] * deviations(rng, shape, (blocks, arms))
    times = np.split(_times(plan, rng), np.cumsum([loads, loads, loads * arms]), axis=1)
    logs = _Logs(
        main=started[0] + main + times[0][..., None],
        check=started[0] + CHECK_SPREAD * check + times[1][..., None],
        alone=started[1] + alone + times[2].reshape(size),
        closed=started[2, :, 0] + closed + times[3],
        late=rng.standard_normal(size) * (plan.latency or 0),
    )
    found = [(block, one) for block in range(blocks) for one in _block(plan, logs, block)]
    trials = tuple(updated(t, index=index, block=block) for index, (block, t) in enumerate(found))
    return header(plan.names, tuple(plan.loads), plan.method), trials


@dataclass(frozen=True, slots=True, kw_only=True)
class _Logs:
    """Logarithms of costs by block, load and arm, of latencies, and of rates by block and arm."""

    main: np.ndarray
    check: np.ndarray
    alone: np.ndarray
    closed: np.ndarray
    late: np.ndarray


def _block(plan: Plan, logs: _Logs, block: int) -> Iterator[Trial]:
    for place, load in enumerate(plan.loads):
        late = logs.late[block, place] if plan.latency is not None else None
        main, check = logs.main[block, place], logs.check[block, place]
        yield from _together(plan, load, main, late)
        if block < plan.check_blocks and plan.method is not Method.SINGLE:
            other = _trial(TrialKind.TIME_SLICED, plan.names, check, load, late)
            is_sliced = plan.method is Method.TIME_SLICED
            yield updated(other, slice_ns=OTHER_TURN_NS) if is_sliced else other
        if block < plan.paced_blocks:
            for arm, name in enumerate(plan.names):
                yield _trial(TrialKind.FIXED_RATE, (name,), logs.alone[block, place, [arm]], load)
    if block < plan.closed_blocks:
        for arm, name in enumerate(plan.names):
            yield _trial(TrialKind.CLOSED_LOOP, (name,), logs.closed[block, [arm]], None)


def _times(plan: Plan, rng: np.random.Generator) -> np.ndarray:
    """Noise of the machine by block and measurement, in random order."""
    slots = (2 + len(plan.costs)) * len(plan.loads) + len(plan.costs)
    path = machine(rng, plan.noise.drift, plan.blocks * slots).reshape(plan.blocks, slots)
    return rng.permuted(path, axis=1)


def _together(plan: Plan, load: Load, logs: np.ndarray, late: np.ndarray | None) -> Iterator[Trial]:
    if plan.method is Method.TIME_SLICED:
        yield _trial(TrialKind.TIME_SLICED, plan.names, logs, load, late)
    elif plan.method is Method.PAIRED:
        first, *others = plan.names
        for place, name in enumerate(others, 1):
            yield _trial(TrialKind.PAIRED, (first, name), logs[[0, place]], load)


def _trial(
    kind: TrialKind,
    names: tuple[str, ...],
    logs: np.ndarray,
    load: Load | None,
    late: np.ndarray | None = None,
) -> Trial:
    rate = load.rate_rps if load is not None else None
    if kind is TrialKind.PAIRED and rate is not None:
        rate //= SINGLE_RATE_FACTOR
    costs = np.exp(logs).tolist()
    requests = FEW if late is None else MANY
    measurements = tuple(
        _arm_measurement(name, cost, requests, 0.0 if late is None else float(late[place]))
        if rate is not None
        else _arm_measurement(name, cost, round(CLOSED_LOOP_RPS / cost), 0.0)
        for place, (name, cost) in enumerate(zip(names, costs, strict=True))
    )
    return Trial(
        index=-1,
        block=-1,
        kind=kind,
        arms=names,
        workload=_workload(rate),
        window_ns=1_000_000_000,
        measurements=measurements,
        slice_ns=TURN_NS if kind is TrialKind.TIME_SLICED else None,
    )


def _arm_measurement(name: str, cost: float, requests: int, late: float) -> ArmMeasurement:
    return ArmMeasurement(
        arm=name,
        requests=requests,
        errors={},
        duration_ns=1_000_000_000,
        cpu_ns=round(cost * UNIT_NS * requests),
        cpu_user_fraction=None,
        rate_rps_offered=None,
        lag_ns_p99=None,
        latency_ns=_latency(late),
        histogram="",
        per_second=(),
        rss_bytes_peak=None,
        connections_opened=64,
        bytes_received=requests,
    )


def _latency(late: float) -> Latency:
    p50 = round(100_000 * np.exp(late))
    return Latency(p50=p50, p90=2 * p50, p99=3 * p50, p999=4 * p50, max=5 * p50, mean=p50, min=1)


@cache
def _workload(rate: int | None) -> Workload:
    return Workload(rate_rps=rate)
