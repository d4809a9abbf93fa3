"""Scalability of a target: the fitted model with intervals, and its predictions.

Intervals are bootstrapped by complete blocks, so that disturbances common to all levels of a block
stay together. A bootstrap of few blocks varies too little, so distances from the estimate are
widened by the ratio of Student's t to the normal quantile, and by n / (n - 1). A peak or a
prediction is given only if the fit supports it; otherwise the reason is given.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats  # type: ignore[import-untyped]

from jissoku.model import IntervalEstimate, Prediction, UslModel
from jissoku.model.updated import updated
from jissoku.stats import usl
from jissoku.stats.usl import Fit

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
    """A fit, and the bootstrapped fits."""

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
        """The interval of a positive quantity, from its logarithms."""
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
    found = usl.solve(levels, logs)
    if found is None:
        raise ValueError("the rates do not determine the rate at level 1")
    off = usl.lack_of_fit(levels, logs, found)
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


def _resamples(levels: usl.Numbers, logs: usl.Numbers, seed: int) -> Iterator[Fit]:
    rng = np.random.default_rng(seed)
    width = logs.shape[1]
    # The order of blocks is irrelevant, so few blocks have few samples: three have ten.
    known: dict[tuple[int, ...], Fit | None] = {}
    for _ in range(RESAMPLES):
        drawn_blocks: list[int] = rng.integers(0, width, size=(width,)).tolist()
        chosen = tuple(sorted(drawn_blocks))
        if chosen not in known:
            known[chosen] = usl.solve(levels, logs[:, chosen])
        drawn = known[chosen]
        if drawn is not None:
            yield drawn


def _widening(blocks: int) -> float:
    wide, normal = stats.t.ppf(1 - TAIL, blocks - 1), stats.norm.ppf(1 - TAIL)
    return float(wide / normal) * math.sqrt(blocks / (blocks - 1))


def _curve(found: Fit, levels: usl.Numbers) -> tuple[tuple[float, float], ...]:
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
