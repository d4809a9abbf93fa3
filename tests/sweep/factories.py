"""Constructed sweeps of targets that follow a known model."""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

from jissoku.model import Axis, MachineConditions, Run, Sweep, Trial, TrialKind
from jissoku.model.updated import updated
from tests.inference import factories

LEVELS = (1, 2, 4, 8, 16, 32, 64, 128)


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """The injected model, and its noise as standard deviations of logarithms."""

    single: float = 10_000.0
    contention: float = 0.0
    coherency: float = 0.0
    noise: float = 0.0
    block: float = 0.1

    def rate(self, level: float) -> float:
        load = 1 + self.contention * (level - 1) + self.coherency * level * (level - 1)
        return self.single * level / load


def rates(
    truth: Truth, *, levels: Sequence[int] = LEVELS, blocks: int = 6, seed: int = 1
) -> dict[int, dict[int, float]]:
    """Logarithms of rates; a block's own effect is on all of its levels."""
    rng = random.Random(seed)
    moments = [rng.gauss(0, truth.block) for _ in range(blocks)]
    return {
        level: {
            block: math.log(truth.rate(level)) + moment + rng.gauss(0, truth.noise)
            for block, moment in enumerate(moments)
        }
        for level in levels
    }


def sweep(axis: Axis = Axis.CONNECTIONS, **changes: object) -> Sweep:
    whole = Sweep(axis=axis, levels=LEVELS, blocks=6)
    return updated(whole, **changes)  # type: ignore[arg-type]


def run(*names: str, **changes: object) -> Run:
    return factories.run(names, floor="", **changes)  # type: ignore[arg-type]


def trials(
    name: str, truth: Truth, *, busy: float = 0.5, waits: float = 0.0, seed: int = 1
) -> tuple[Trial, ...]:
    """Closed-loop trials of every level in every block."""
    conditions = MachineConditions(
        generator_busy_fraction=busy,
        generator_busy_polls=False,
        server_cores_busy_fraction=0.99,
        generator_wait_fraction=waits,
    )
    found: list[Trial] = []
    for level, row in rates(truth, seed=seed).items():
        for block, log in row.items():
            requests = round(math.exp(log))
            measurement = factories.arm_measurement(
                name,
                requests=requests,
                cpu_ns=round(9e8),
                rate_rps_offered=None,
                lag_ns_p99=None,
                connections_opened=level,
            )
            whole = factories.trial(TrialKind.CLOSED_LOOP, measurement, conditions=conditions)
            found.append(updated(whole, index=len(found), block=block, level=level))
    return tuple(found)


def paced(name: str, capacity: float, levels: Sequence[int]) -> tuple[Trial, ...]:
    """Open-loop trials of a target that answers no more than `capacity` a second."""
    found: list[Trial] = []
    for level in levels:
        for block in range(3):
            measurement = factories.arm_measurement(
                name,
                requests=round(min(level, capacity)),
                cpu_ns=round(9e8),
                rate_rps_offered=float(level),
            )
            whole = factories.trial(TrialKind.FIXED_RATE, measurement)
            found.append(updated(whole, index=len(found), block=block, level=level))
    return tuple(found)
