"""Axes: ticks that people can read, linear or logarithmic."""

import math
from collections.abc import Callable, Sequence

# Above this ratio of largest to smallest a linear axis would squash the small ones.
LOG_FROM = 5.0


def wants_log(values: Sequence[float]) -> bool:
    """Whether the values are too far apart for a linear axis."""
    return bool(values) and min(values) > 0 and max(values) / min(values) > LOG_FROM


def ticks(low: float, high: float, *, log: bool) -> list[float]:
    """Three to nine round numbers between two bounds, which must be positive on a log axis."""
    return _log_ticks(low, high) if log else _linear_ticks(low, high)


def _log_ticks(low: float, high: float) -> list[float]:
    found: list[float] = []
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for steps in ((1, 2, 5), (1, 3), (1,)):
        found = [s * 10.0**d for d in decades for s in steps if low <= s * 10.0**d <= high]
        if len(found) <= 9:
            break
    return found


def _linear_ticks(low: float, high: float) -> list[float]:
    rough = (high - low) / 5 or 1.0
    scale = 10.0 ** math.floor(math.log10(rough))
    step = next(s * scale for s in (1, 2, 5, 10) if s * scale >= rough)
    first = math.ceil(low / step - 1e-9)
    return [round(i * step, 12) for i in range(first, math.floor(high / step + 1e-9) + 1)]


def axis(
    values: Sequence[float], label: Callable[[float], str], *, from_zero: bool = False
) -> dict[str, object]:
    """A plotly axis that holds `values` with some air, labelled by `label`."""
    log = not from_zero and wants_log(values)
    low, high = min(values), max(values)
    if log:
        air = (high / low) ** 0.06
        low, high = low / air, high * air
    else:
        air = (high - low) * 0.08 or abs(high) * 0.05 or 1.0
        low, high = (0.0 if from_zero else low - air), high + air
    marks = ticks(low, high, log=log)
    return {
        "type": "log" if log else "linear",
        "range": [math.log10(low), math.log10(high)] if log else [low, high],
        "tickvals": marks,
        "ticktext": [label(mark) for mark in marks],
    }
