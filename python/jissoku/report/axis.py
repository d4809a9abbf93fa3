"""Axes: positions of values along a plot, and ticks at round numbers, linear or logarithmic."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

# Above this ratio of largest to smallest value an axis is logarithmic.
LOG_FROM = 5.0

# Ticks within a decade, and those where they are fewer than `TICKS_MIN`; above `TICKS_MAX` only
# powers of ten are left.
STEPS = (1, 2, 5)
STEPS_FINE = (1, 1.5, 2, 3, 5, 7)
STEPS_MINOR = {1.5, 7}
TICKS_MIN, TICKS_MAX = 3, 9


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """A labelled value of an axis; small plots omit the minor ones."""

    value: float
    label: str
    note: str = ""  # stands below the label
    is_minor: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """An axis from its low end to its high one."""

    low: float
    high: float
    is_log: bool
    ticks: tuple[Tick, ...]

    def at(self, value: float) -> float:
        """The position of a value: 0 at the low end, 1 at the high one."""
        low, high, place = self.low, self.high, value
        if self.is_log:
            low, high, place = math.log10(low), math.log10(high), math.log10(value)
        return (place - low) / (high - low)


def wants_log(values: Sequence[float]) -> bool:
    """Whether the values are too far apart for a linear axis."""
    return bool(values) and min(values) > 0 and max(values) / min(values) > LOG_FROM


def scale(
    values: Sequence[float],
    label: Callable[[float], str],
    *,
    is_log: bool | None = None,
    from_zero: bool = False,
) -> Scale:
    """An axis over `values` with a margin, labelled by `label`.

    Args:
        values: The values to show; positive on a logarithmic axis.
        label: A tick's text.
        is_log: None: logarithmic if the values are far apart.
        from_zero: A linear axis that begins at zero, as bars require.
    """
    if is_log is None:
        is_log = not from_zero and wants_log(values)
    low, high = min(values), max(values)
    if is_log:
        air = (high / low) ** 0.06 if high > low else 1.1
        low, high = low / air, high * air
    else:
        air = (high - low) * 0.08 or abs(high) * 0.05 or 1.0
        low, high = (0.0 if from_zero else low - air), high + air
    marks = ticks(low, high, log=is_log)
    return Scale(
        low=low,
        high=high,
        is_log=is_log,
        ticks=tuple(
            Tick(value=mark, label=label(mark), is_minor=_is_minor(index, mark, marks, log=is_log))
            for index, mark in enumerate(marks)
        ),
    )


def even_labels(found: Scale) -> Scale:
    """A linear axis whose labels, `NUMBER UNIT`, have the same number of decimals."""
    if found.is_log:
        return found
    parts = [tick.label.partition(" ") for tick in found.ticks]
    digits = max((len(number.partition(".")[2]) for number, _, _ in parts), default=0)
    return replace(
        found,
        ticks=tuple(
            replace(tick, label=f"{tick.value:.{digits}f} {unit}")
            for tick, (_, _, unit) in zip(found.ticks, parts, strict=True)
        ),
    )


def _is_minor(index: int, mark: float, marks: Sequence[float], *, log: bool) -> bool:
    """Ticks that are minor: every second of more than five; over decades all but powers of ten."""
    decades = math.log10(mark) if log else 0.0
    if log and round(10 ** (decades % 1), 6) in STEPS_MINOR:
        return True
    if len(marks) <= 5:
        return False
    if log and marks[-1] / marks[0] >= 100:
        return round(decades, 9) % 1 != 0
    return index % 2 == 1


def ticks(low: float, high: float, *, log: bool) -> list[float]:
    """Three to nine round numbers between two bounds, which must be positive on a log axis."""
    return _log_ticks(low, high) if log else _linear_ticks(low, high)


def _log_ticks(low: float, high: float) -> list[float]:
    found = _within_decades(low, high, STEPS)
    if len(found) > TICKS_MAX:
        return _within_decades(low, high, (1,))
    return found if len(found) >= TICKS_MIN else _within_decades(low, high, STEPS_FINE)


def _within_decades(low: float, high: float, steps: Sequence[float]) -> list[float]:
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [s * 10.0**d for d in decades for s in steps if low <= s * 10.0**d <= high]


def _linear_ticks(low: float, high: float) -> list[float]:
    rough = (high - low) / 5 or 1.0
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(s * size for s in (1, 2, 5, 10) if s * size >= rough)
    first = math.ceil(low / step - 1e-9)
    return [round(i * step, 12) for i in range(first, math.floor(high / step + 1e-9) + 1)]
