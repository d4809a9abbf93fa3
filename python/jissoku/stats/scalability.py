"""How a target scales: the law fitted to its levels, with intervals, and what it may foretell.

An interval comes from whole blocks drawn again: what a moment did to all levels of a block stays
together. Few blocks drawn again vary too little, so distances from the estimate are widened by what
Student's t has over the normal distribution, and by n / (n - 1). A peak or a forecast is given only
where the fit supports it; where it does not, the reason is.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import stats  # type: ignore[import-untyped]

from jissoku.model import Forecast, Law, Span
from jissoku.stats import usl
from jissoku.stats.usl import Fit

RESAMPLES = 1000
TAIL = 0.025
BLOCKS_MIN = 2
LEVELS_MIN = 4  # one more than there are parameters

# A law that misses a level by more than this, and by more than noise explains, does not hold.
MISFIT_MAX = 0.05
MISFIT_ALPHA = 0.01

# Beyond this multiple of the highest level a fit is a guess.
REACH = 2.0

# A forecast whose interval is wider each way, as a logarithm, helps nobody.
HALF_WIDTH_MAX = 0.10

CURVE_POINTS = 60

# Logarithms of rates, by level and then by block.
Rates = Mapping[int, Mapping[int, float]]


@dataclass(frozen=True, slots=True)
class _Evidence:
    """A fit, and what it would have been with other blocks."""

    found: Fit
    drawn: Sequence[Fit]
    widening: float
    highest: int

    def span(self, quantity: Callable[[Fit], float]) -> Span:
        """Of a quantity that may be zero and is never below."""
        value = quantity(self.found)
        low, high = self._ends(value, [quantity(fit) for fit in self.drawn])
        return Span(value=value, low=max(0.0, low), high=max(value, high))

    def positive(self, quantity: Callable[[Fit], float]) -> Span:
        """Of a positive quantity, by its logarithms."""
        logs = [math.log(max(quantity(fit), 1e-300)) for fit in (self.found, *self.drawn)]
        low, high = self._ends(logs[0], logs[1:])
        return Span(value=math.exp(logs[0]), low=math.exp(low), high=math.exp(min(high, 700.0)))

    def _ends(self, value: float, drawn: Sequence[float]) -> tuple[float, float]:
        low, high = (float(end) for end in np.quantile(drawn, [TAIL, 1 - TAIL]))
        return (
            value - self.widening * max(0.0, value - low),
            value + self.widening * max(0.0, high - value),
        )


def fit(rates: Rates, *, at: Sequence[int] = (), seed: int = 0) -> Law:
    """Fits the law.

    Args:
        rates: At least four levels in at least two blocks; a block may lack some levels.
        at: Levels at which a rate is to be forecast.
        seed: Decides which blocks are drawn.

    Raises:
        ValueError: Levels or blocks are too few, or the rates leave the rate of one open.
    """
    numbers = sorted({block for row in rates.values() for block in row})
    if len(rates) < LEVELS_MIN or len(numbers) < BLOCKS_MIN:
        raise ValueError(f"{len(rates)} levels in {len(numbers)} blocks cannot be fitted")
    levels = np.array(sorted(rates), dtype=float)
    logs = np.array([[rates[n].get(block, math.nan) for block in numbers] for n in sorted(rates)])
    found = usl.solve(levels, logs)
    if found is None:
        raise ValueError("the rates leave open what one would do alone")
    off = usl.misfit(levels, logs, found)
    drawn = list(_drawn(levels, logs, seed))
    evidence = _Evidence(found, drawn, _widening(len(numbers)), max(rates))
    law = Law(
        single_rps=evidence.positive(lambda one: one.single),
        contention=evidence.span(lambda one: one.contention),
        coherency=evidence.span(lambda one: one.coherency),
        levels=tuple(sorted(rates)),
        blocks=len(numbers),
        curve=_curve(found, levels),
        misfit=off.largest,
        describes=off.largest <= MISFIT_MAX or off.p_value >= MISFIT_ALPHA,
    )
    peak, reason = _peak(law, evidence)
    forecasts = tuple(_forecast(law, evidence, level) for level in at)
    return replace(law, peak=peak, peak_reason=reason, forecasts=forecasts)


def _drawn(levels: usl.Numbers, logs: usl.Numbers, seed: int) -> Iterator[Fit]:
    rng = np.random.default_rng(seed)
    width = logs.shape[1]
    # The order of blocks means nothing, and few of them have few mixtures: three have ten.
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


def _peak(law: Law, evidence: _Evidence) -> tuple[Span | None, str]:
    if not law.describes:
        return None, _unfit(law)
    if law.coherency.low <= 0:
        return None, "the interval of the coherency includes zero: no peak is shown"
    if evidence.found.contention >= 1:
        return None, "one does best: more never answered more"
    if evidence.found.peak > REACH * evidence.highest:
        return None, (
            f"it would lie beyond {REACH:g} times the highest level measured,"
            f" {evidence.highest:,}, where a fit is a guess"
        )
    return evidence.positive(lambda one: one.peak), ""


def _forecast(law: Law, evidence: _Evidence, level: int) -> Forecast:
    if not law.describes:
        return Forecast(level=level, rate_rps=None, reason=_unfit(law))
    if level > REACH * evidence.highest:
        reason = (
            f"{level:,} is beyond {REACH:g} times the highest level measured,"
            f" {evidence.highest:,}, where a fit is a guess"
        )
        return Forecast(level=level, rate_rps=None, reason=reason)
    rate = evidence.positive(lambda one: one.rate(level))
    half = math.log(rate.high / rate.low) / 2
    if half > HALF_WIDTH_MAX:
        reason = (
            f"its interval would be {100 * math.expm1(half):.0f} % each way, and above"
            f" {100 * math.expm1(HALF_WIDTH_MAX):.0f} % it decides nothing: take more blocks"
        )
        return Forecast(level=level, rate_rps=None, reason=reason)
    return Forecast(level=level, rate_rps=rate)


def _unfit(law: Law) -> str:
    return (
        f"the law misses a level by {100 * law.misfit:.0f} %, more than noise explains: it does"
        " not describe this target"
    )
