"""Scalability of a target: the model, its fit with intervals, and its predictions.

Intervals are bootstrapped by complete blocks, so that disturbances common to all levels of a block
stay together. A bootstrap of few blocks varies too little, so distances from the estimate are
widened by the ratio of Student's t to the normal quantile, and by n / (n - 1). A peak or a
prediction is given only if the fit supports it; otherwise the reason is given.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, stats  # type: ignore[import-untyped]

from jissoku.model import IntervalEstimate, Prediction, UslModel
from jissoku.model.updated import updated

Numbers = NDArray[np.float64]

STEPS_MAX = 50
HALVINGS_MAX = 30
TOLERANCE = 1e-12

# Stands for no coherency at all where a peak is computed from it.
VARIANCE_MIN = 1e-15


# Fits the Universal Scalability Law: the numerical part, on bare numbers. X(N) = k N / (1 + a (N -
# 1) + b N (N - 1)), a and b at least zero (Gunther, Guerrilla Capacity Planning, 2007, chapter 4).
# Rates differ by factors, so it is fitted to their logarithms. N / X is linear in 1 / k, a / k and
# b / k, so each Gauss-Newton step on the logarithms is a linear least-squares problem whose
# unknowns must not be negative. scipy solves that one exactly: a parameter that would be negative
# is zero, and not merely small.


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


RESAMPLES = 1000
TAIL = 0.025
FIT_BLOCKS_MIN = 2
FIT_LEVELS_MIN = 4  # one more than there are parameters

# Largest residual, where it exceeds noise, above which the model is not adequate.
RESIDUAL_MAX = 0.05
MISFIT_ALPHA = 0.01

# The fit is not extrapolated beyond this multiple of the highest level.
REACH = 2.0

# Half-width of the interval, as a logarithm, above which no prediction is reported.
HALF_WIDTH_MAX = 0.10

CURVE_POINTS = 60

# Logarithms of rates, by level and then by block.
Rates = Mapping[int, Mapping[int, float]]


@dataclass(frozen=True, slots=True)
class _Bootstrap:
    estimate: Fit
    resamples: Sequence[Fit]
    widening: float
    highest: int

    def interval(self, quantity: Callable[[Fit], float]) -> IntervalEstimate:
        """The interval of a quantity that is at least zero."""
        value = quantity(self.estimate)
        low, high = self._ends(value, [quantity(fit) for fit in self.resamples])
        return IntervalEstimate(value=value, low=max(0.0, low), high=max(value, high))

    def positive_interval(self, quantity: Callable[[Fit], float]) -> IntervalEstimate:
        logs = [math.log(max(quantity(fit), 1e-300)) for fit in (self.estimate, *self.resamples)]
        low, high = self._ends(logs[0], logs[1:])
        return IntervalEstimate(
            value=math.exp(logs[0]), low=math.exp(low), high=math.exp(min(high, 700.0))
        )

    def _ends(self, value: float, drawn: Sequence[float]) -> tuple[float, float]:
        low, high = (float(end) for end in np.quantile(drawn, [TAIL, 1 - TAIL]))
        return (
            value - self.widening * max(0.0, value - low),
            value + self.widening * max(0.0, high - value),
        )


def fit(rates: Rates, *, at: Sequence[int] = (), seed: int = 0) -> UslModel:
    """Fits the model.

    Args:
        rates: At least four levels in at least two blocks; a block may lack some levels.
        at: Levels at which a rate is predicted.
        seed: Seed of the bootstrap.

    Raises:
        ValueError: Levels or blocks are too few, or the rates do not determine the rate at level 1.
    """
    numbers = sorted({block for row in rates.values() for block in row})
    if len(rates) < FIT_LEVELS_MIN or len(numbers) < FIT_BLOCKS_MIN:
        raise ValueError(f"{len(rates)} levels in {len(numbers)} blocks cannot be fitted")
    levels = np.array(sorted(rates), dtype=float)
    logs = np.array([[rates[n].get(block, math.nan) for block in numbers] for n in sorted(rates)])
    found = solve(levels, logs)
    if found is None:
        raise ValueError("the rates do not determine the rate at level 1")
    off = lack_of_fit(levels, logs, found)
    drawn = list(_resamples(levels, logs, seed))
    evidence = _Bootstrap(found, drawn, _widening(len(numbers)), max(rates))
    model = UslModel(
        single_rps=evidence.positive_interval(lambda one: one.single),
        contention=evidence.interval(lambda one: one.contention),
        coherency=evidence.interval(lambda one: one.coherency),
        levels=tuple(sorted(rates)),
        blocks=len(numbers),
        curve=_curve(found, levels),
        max_residual=off.largest,
        is_adequate=off.largest <= RESIDUAL_MAX or off.p_value >= MISFIT_ALPHA,
    )
    peak, reason = _peak(model, evidence)
    forecasts = tuple(_prediction(model, evidence, level) for level in at)
    return updated(model, peak=peak, peak_reason=reason, predictions=forecasts)


def _resamples(levels: Numbers, logs: Numbers, seed: int) -> Iterator[Fit]:
    rng = np.random.default_rng(seed)
    width = logs.shape[1]
    # The order of blocks is irrelevant, so few blocks have few samples: three have ten.
    known: dict[tuple[int, ...], Fit | None] = {}
    for _ in range(RESAMPLES):
        drawn_blocks: list[int] = rng.integers(0, width, size=(width,)).tolist()
        chosen = tuple(sorted(drawn_blocks))
        if chosen not in known:
            known[chosen] = solve(levels, logs[:, chosen])
        drawn = known[chosen]
        if drawn is not None:
            yield drawn


def _widening(blocks: int) -> float:
    wide, normal = stats.t.ppf(1 - TAIL, blocks - 1), stats.norm.ppf(1 - TAIL)
    return float(wide / normal) * math.sqrt(blocks / (blocks - 1))


def _curve(found: Fit, levels: Numbers) -> tuple[tuple[float, float], ...]:
    places = np.geomspace(levels[0], levels[-1], CURVE_POINTS)
    return tuple((float(place), found.rate(float(place))) for place in places)


def _peak(model: UslModel, evidence: _Bootstrap) -> tuple[IntervalEstimate | None, str]:
    if not model.is_adequate:
        return None, _misfit_reason(model)
    if model.coherency.low <= 0:
        return None, "the interval of the coherency includes zero: no peak is shown"
    if evidence.estimate.contention >= 1:
        return None, "the rate is highest at level 1"
    if evidence.estimate.peak > REACH * evidence.highest:
        return None, (
            f"it would lie beyond {REACH:g} times the highest level measured,"
            f" {evidence.highest:,}, where the fit does not extrapolate"
        )
    return evidence.positive_interval(lambda one: one.peak), ""


def _prediction(model: UslModel, evidence: _Bootstrap, level: int) -> Prediction:
    if not model.is_adequate:
        return Prediction(level=level, rate_rps=None, reason=_misfit_reason(model))
    if level > REACH * evidence.highest:
        reason = (
            f"{level:,} is beyond {REACH:g} times the highest level measured,"
            f" {evidence.highest:,}, where the fit does not extrapolate"
        )
        return Prediction(level=level, rate_rps=None, reason=reason)
    rate = evidence.positive_interval(lambda one: one.rate(level))
    half = math.log(rate.high / rate.low) / 2
    if half > HALF_WIDTH_MAX:
        reason = (
            f"its interval would be {100 * math.expm1(half):.0f} % each way, and above"
            f" {100 * math.expm1(HALF_WIDTH_MAX):.0f} % it is not usable: run more blocks"
        )
        return Prediction(level=level, rate_rps=None, reason=reason)
    return Prediction(level=level, rate_rps=rate)


def _misfit_reason(model: UslModel) -> str:
    return (
        f"the model misses a level by {100 * model.max_residual:.0f} %, more than noise explains:"
        " it does not describe this target"
    )
