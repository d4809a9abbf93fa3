"""The noise of real records: its sources, sizes and distributions.

Standard deviations are of natural logarithms, as they were seen on the machine of the kept records:
between blocks a pair's ratio varies by 7-15 % at 1,000 requests/s, by 4-8 % at 5,000/s and by 2-5 %
at 20,000/s; fresh starts of one program differ by 1 % (native), 2.5 % (Go) or 5 % (Node, Python).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from jissoku.model import Load, LoadLevel

LIGHT = Load(rate_rps=1_000, level=LoadLevel.LIGHT)
MIDDLE = Load(rate_rps=5_000, level=LoadLevel.MEDIUM)
HEAVY = Load(rate_rps=20_000, level=LoadLevel.HEAVY)
LOADS = (LIGHT, MIDDLE, HEAVY)

# Of one arm in one trial; a pair's ratio has sqrt(2) times as much, beside the starts' own.
OWN = {LIGHT: 0.07, MIDDLE: 0.04, HEAVY: 0.02}

# Between fresh starts of one program.
NATIVE, GO, NODE = 0.01, 0.025, 0.05

# More than any program of the records: arms that vary two to seven times as much as the others.
NOISY = 0.16

# A twentieth of the trials took three times their usual deviation more, never less.
SPIKES = 0.05
SPIKE = 3.0

# Of the machine itself, on every arm that is measured at that time.
DRIFT_LINEAR = 0.15
DRIFT_SD, DRIFT_MEMORY = 0.05, 0.9


class Shape(StrEnum):
    """How a deviation is distributed; each has the same variance."""

    NORMAL = "lognormal"
    HEAVY_TAILS = "t, 3 df"
    SPIKES = "5 % spikes"


class Drift(StrEnum):
    """How the machine's speed moves through a campaign."""

    NONE = "no drift"
    LINEAR = "linear drift"
    WANDERING = "AR(1) drift"


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """The standard deviations of the noise.

    Attributes:
        own: Of one arm in one trial, by load.
        starts: Of each arm's fresh starts, in the order of the arms; the last stands for the rest.
    """

    shape: Shape = Shape.NORMAL
    drift: Drift = Drift.NONE
    own: tuple[float, ...] = tuple(OWN.values())
    starts: tuple[float, ...] = (NATIVE,)

    def of_starts(self, arms: int) -> np.ndarray:
        """A standard deviation for each arm."""
        padded = [*self.starts, *[self.starts[-1]] * arms]
        return np.array(padded[:arms])


# Two copies of one program at the same time differ by half a per cent, a quiet machine's arms in
# turns by one.
LIKE = Noise(own=(0.02, 0.006, 0.003), starts=(0.002,))
QUIET = Noise(own=(0.02, 0.01, 0.007), starts=(0.003,))


def deviations(rng: np.random.Generator, shape: Shape, size: Sequence[int]) -> np.ndarray:
    """Deviations with mean 0 and standard deviation 1."""
    if shape is Shape.HEAVY_TAILS:
        return np.asarray(rng.standard_t(3, size) / np.sqrt(3))
    usual = rng.standard_normal(size)
    if shape is Shape.NORMAL:
        return usual
    struck = (rng.random(size) < SPIKES) * SPIKE * np.abs(rng.standard_normal(size))
    mean = SPIKES * SPIKE * np.sqrt(2 / np.pi)
    variance = 1 + SPIKES * SPIKE**2 - mean**2
    return np.asarray((usual + struck - mean) / np.sqrt(variance))


def machine(rng: np.random.Generator, drift: Drift, steps: int) -> np.ndarray:
    """The noise of the machine on every cost, trial by trial."""
    if drift is Drift.NONE:
        return np.zeros(steps)
    if drift is Drift.LINEAR:
        return np.linspace(0, DRIFT_LINEAR, steps)
    fresh = rng.standard_normal(steps) * DRIFT_SD * np.sqrt(1 - DRIFT_MEMORY**2)
    found = np.empty(steps)
    value = rng.standard_normal() * DRIFT_SD
    for step in range(steps):
        value = DRIFT_MEMORY * value + fresh[step]
        found[step] = value
    return found
