"""Fits the Universal Scalability Law: the numerical part, on bare numbers.

X(N) = k N / (1 + a (N - 1) + b N (N - 1)), a and b at least zero (Gunther, Guerrilla Capacity
Planning, 2007, chapter 4). Rates differ by factors, so it is fitted to their logarithms. N / X is
linear in 1 / k, a / k and b / k, so each Gauss-Newton step on the logarithms is a linear
least-squares problem whose unknowns must not be negative. scipy solves that one exactly: a
parameter that would be negative is zero, and not merely small.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, stats  # type: ignore[import-untyped]

Numbers = NDArray[np.float64]

STEPS_MAX = 50
HALVINGS_MAX = 30
TOLERANCE = 1e-12

# Stands for no coherency at all where a peak is computed from it.
VARIANCE_MIN = 1e-15


@dataclass(frozen=True, slots=True)
class Fit:
    """A fitted model.

    Attributes:
        inverse_rate: 1 / k: what one takes alone, in seconds per answer.
        contention_term: a / k.
        coherency_term: b / k.
    """

    inverse_rate: float
    contention_term: float
    coherency_term: float

    @property
    def single(self) -> float:
        """The rate of one, k."""
        return 1 / self.inverse_rate

    @property
    def contention(self) -> float:
        """The part that waits for its turn, a."""
        return self.contention_term / self.inverse_rate

    @property
    def coherency(self) -> float:
        """What each pair costs, b."""
        return self.coherency_term / self.inverse_rate

    @property
    def peak(self) -> float:
        """Where the rate is highest: sqrt((1 - a) / b)."""
        return math.sqrt(max(0.0, 1 - self.contention) / max(self.coherency, VARIANCE_MIN))

    def rate(self, level: float) -> float:
        """The model's rate at a level."""
        load = (
            self.inverse_rate
            + self.contention_term * (level - 1)
            + self.coherency_term * level * (level - 1)
        )
        return level / load


@dataclass(frozen=True, slots=True)
class LackOfFit:
    """Distance of the levels from a model.

    Attributes:
        largest: Distance of the farthest level, as a fraction.
        p_value: Of the levels lying so far off by the noise within blocks alone.
    """

    largest: float
    p_value: float


def solve(levels: Numbers, logs: Numbers) -> Fit | None:
    """The model nearest to a table of logarithms of rates, one row a level, one column a block.

    Cells that are not there are NaN. None when the rates leave the rate of one open.
    """
    means, counts = adjusted(logs)
    there = counts > 0
    levels, weights = levels[there], np.sqrt(counts[there])
    wanted = np.log(levels) - means[there]  # of N / X
    design = np.column_stack([np.ones_like(levels), levels - 1, levels * (levels - 1)])
    # The first step takes relative errors for logarithms of ratios; each later one is exact.
    guess, _ = optimize.nnls(design * (weights / np.exp(wanted))[:, None], weights)
    guess = guess + np.array([1e-6 * math.exp(float(wanted.min())), 0.0, 0.0])
    for _ in range(STEPS_MAX):
        better = _step(design, wanted, weights, guess)
        moved = float(np.abs(better - guess).max()) / float(guess.max())
        guess = better
        if moved < TOLERANCE:
            break
    base, waiting, agreeing = (float(value) for value in guess)
    return Fit(base, waiting, agreeing) if base > 0 else None


def _step(design: Numbers, wanted: Numbers, weights: Numbers, guess: Numbers) -> Numbers:
    """One Gauss-Newton step, shortened until it does no harm.

    Both its ends are allowed, so all that lies between them is.
    """
    modelled = design @ guess
    target = 1 + wanted - np.log(modelled)
    aim, _ = optimize.nnls(design * (weights / modelled)[:, None], weights * target)
    before = _loss(design, wanted, weights, guess)
    length = 1.0
    for _ in range(HALVINGS_MAX):
        tried = guess + length * (aim - guess)
        if _loss(design, wanted, weights, tried) <= before:
            return np.asarray(tried)
        length /= 2
    return guess


def _loss(design: Numbers, wanted: Numbers, weights: Numbers, guess: Numbers) -> float:
    modelled = design @ guess
    if float(modelled.min()) <= 0:
        return math.inf
    return float(np.sum((weights * (wanted - np.log(modelled))) ** 2))


def adjusted(logs: Numbers) -> tuple[Numbers, Numbers]:
    """Each level's mean over blocks, and of how many.

    A level that lacks a slow block would seem fast, so where cells are missing the blocks' own
    effects are estimated beside the levels' (two-way additive model) and taken out.
    """
    there = ~np.isnan(logs)
    counts = there.sum(axis=1).astype(float)
    if there.all():
        return logs.mean(axis=1), counts
    rows, columns = np.nonzero(there)
    height, width = logs.shape
    design = np.zeros((len(rows), height + width))
    design[np.arange(len(rows)), rows] = 1
    design[np.arange(len(rows)), height + columns] = 1
    effects = np.linalg.lstsq(design, logs[there], rcond=None)[0]
    used = np.unique(columns)
    return effects[:height] + effects[height + used].mean(), counts


def lack_of_fit(levels: Numbers, logs: Numbers, found: Fit) -> LackOfFit:
    """Tests the lack of fit against the noise within blocks, by an F-test."""
    means, counts = adjusted(logs)
    model = np.log([found.rate(level) for level in levels])
    distances = means - model
    largest = float(np.abs(np.expm1(distances)).max())
    there = ~np.isnan(logs)
    rest = logs - means[:, None]
    rest = rest - np.nanmean(rest, axis=0)[None, :]
    height, width = logs.shape
    freedom = int(there.sum()) - height - width + 1
    noise = float(np.nansum(rest**2)) / freedom if freedom > 0 else 0.0
    lack = float(np.sum(counts * distances**2)) / (height - 3)
    if noise <= 0:
        return LackOfFit(largest, 0.0 if lack > 0 else 1.0)
    return LackOfFit(largest, float(stats.f.sf(lack / noise, height - 3, freedom)))
