"""Ratios of many runs as columns: a target's history reads tens of thousands of them."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RatioColumns:
    """ln(cost of an arm / cost of another), a row for each run, pair and load.

    Attributes:
        run: Key of the run.
        unit: The other arm.
        rate: Requests per second; 0: closed loop.
        level: Of the load.
        mean: Over the blocks of the run, of which there are two or more.
        variance: Of the mean.
        freedom: Degrees of freedom of the variance.
    """

    run: Sequence[str]
    arm: Sequence[str]
    unit: Sequence[str]
    rate: Sequence[int]
    level: Sequence[str]
    mean: Sequence[float]
    variance: Sequence[float]
    freedom: Sequence[float]
