"""The levels of a sweep and their order: pure plans from a seed."""

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from jissoku.design.schedule import PlannedTrial
from jissoku.errors import InputError
from jissoku.model import Axis, TrialKind

# Three parameters are fitted: with fewer levels any data fit.
LEVELS_MIN = 6

CONNECTIONS = (1, 2, 4, 8, 16, 32, 64, 128)

# Above this number of workers only powers of two are measured.
WORKERS_ALL = 8

# Parts of the slowest target's closed-loop rate. The last ones are beyond what it can answer, so
# that the end of the climb is seen and not guessed.
CAPACITY_FRACTIONS = (0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.95, 1.1)


@dataclass(frozen=True, slots=True)
class LevelTrial:
    planned: PlannedTrial
    level: int


def validated(levels: Sequence[int]) -> tuple[int, ...]:
    """The same levels, ascending.

    Raises:
        InputError: They are too few for a fit, not positive, or one is named twice.
    """
    if len(set(levels)) != len(levels):
        raise InputError("--levels names a level twice")
    if any(level < 1 for level in levels):
        raise InputError("--levels: a level is a whole number from 1")
    if len(levels) < LEVELS_MIN:
        raise InputError(
            f"--levels gives {len(levels)}: name at least {LEVELS_MIN}, a model with three"
            f" parameters"
            " fits any fewer points"
        )
    return tuple(sorted(levels))


def levels_of(axis: Axis, cores: int) -> tuple[int, ...]:
    """Default levels; empty for rates, which depend on the targets.

    Args:
        axis: The factor.
        cores: How many cores the server has. Levels of workers beyond them are measured, so that
            the cost of too many is seen, and never fitted.
    """
    if axis is Axis.CONNECTIONS:
        return CONNECTIONS
    if axis is Axis.RATE:
        return ()
    most = max(cores, LEVELS_MIN)
    doubling = tuple(2**power for power in range(3, most.bit_length()) if 2**power <= most)
    return tuple(sorted({*range(1, min(most, WORKERS_ALL) + 1), *doubling, most}))


def rates_of(capacities: Mapping[str, float]) -> tuple[int, ...]:
    """Rates common to all targets, from each one's closed-loop rate; ascending.

    Raises:
        ValueError: No capacity is known.
    """
    slowest = min(capacities.values())
    return tuple(sorted({_two_digits(slowest * load) for load in CAPACITY_FRACTIONS}))


def _two_digits(rate: float) -> int:
    scale = 10 ** max(0, math.floor(math.log10(rate)) - 1) if rate > 1 else 1
    return max(1, round(rate / scale) * scale)


def block(
    index: int, names: Sequence[str], levels: Sequence[int], kind: TrialKind, *, seed: int
) -> Iterator[LevelTrial]:
    """The trials of one block: every target at every level once, in a random order.

    A drift within a block then affects all levels alike.
    """
    rng = random.Random(f"{seed}/sweep/{index}")
    cells = [(name, level) for name in names for level in levels]
    rng.shuffle(cells)
    for name, level in cells:
        yield LevelTrial(
            PlannedTrial(block=index, kind=kind, arms=(name,), seed=rng.getrandbits(31)), level
        )
