"""Intervals and p-values of a run that is looked at once, or after every block."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special  # type: ignore[import-untyped]

from jissoku.inference import estimate, sequential
from jissoku.inference.estimate import Interval

# Exact tests need six blocks for p < 0.05 (2 / 2^6 = 0.031). A run that is looked at once has no
# verdict from fewer; in one that is looked at after every block Student's t decides alone until
# then.
VERDICT_BLOCKS_MIN = 6


@dataclass(frozen=True, slots=True)
class Looks:
    """When a run may be looked at.

    Attributes:
        horizon: The number of blocks over which the error is spent, with a look after each block
            from the third on; 0: a single look after the last block.
        estimates: How many estimates of the same ratio may be looked at in turn; each has an equal
            part of the error.
    """

    horizon: int = 0
    estimates: int = 1

    @property
    def first(self) -> int:
        """The number of blocks of the first verdict."""
        return sequential.FIRST_LOOK if self.horizon else VERDICT_BLOCKS_MIN

    def used(self, logs: tuple[float, ...]) -> tuple[float, ...]:
        """The blocks that have a part of the error to spend."""
        return logs[: self.horizon] if self.horizon else logs

    def interval(
        self, mean: float, spread: float, blocks: int, confidence: float = 0.95
    ) -> Interval:
        """The interval of `blocks` blocks with this mean and standard deviation.

        With several looks it holds at all of them at once, and of several estimates for each.

        Args:
            confidence: 0.95 or 0.90.
        """
        if not self.horizon:
            return estimate.t_interval_from(mean, spread, blocks, confidence)
        alpha = next(one for one in sequential.ALPHAS if abs(one - (1 - confidence)) < 1e-9)
        factor = sequential.critical(blocks, self.horizon, alpha / self.estimates)
        half = factor * spread / math.sqrt(blocks) if spread else 0.0
        return Interval(mean, mean - half, mean + half)

    def p_of(self, t: float, blocks: int) -> float:
        """Two-sided p-value of Student's t at the look after `blocks` blocks."""
        if self.horizon:
            return min(1.0, self.estimates * sequential.p_value(t, blocks, self.horizon))
        return float(2 * special.stdtr(blocks - 1, -abs(t)))

    def p_value(self, logs: Sequence[float], tolerance: float = 0.0) -> float:
        """Two-sided p-value of a mean of at most `tolerance` on either side of zero."""
        return min(self.p_of(t, n) for n, t in self._steps(logs, 0.0, tolerance))

    def p_equal(self, logs: Sequence[float], band: float) -> float:
        """P-value of a mean outside of +- `band`: the larger of two one-sided tests."""
        return max(self._p_above(logs, band), self._p_above([-log for log in logs], band))

    def _p_above(self, logs: Sequence[float], band: float) -> float:
        """One-sided p-value of a mean of at most -`band`."""
        steps = list(self._steps(logs, -band, 0.0))
        return min(self.p_of(t, n) / 2 if t > 0 else 1 - self.p_of(t, n) / 2 for n, t in steps)

    def _steps(
        self, logs: Sequence[float], origin: float, tolerance: float
    ) -> list[tuple[int, float]]:
        """(blocks, t) of each look so far, against `origin`."""
        if not self.horizon or len(logs) < self.first:
            return [(len(logs), _t(*estimate.mean_and_sd(logs), len(logs), origin, tolerance))]
        values = np.asarray(logs, dtype=float)
        return [
            (n, _t(float(values[:n].mean()), float(values[:n].std(ddof=1)), n, origin, tolerance))
            for n in range(self.first, len(values) + 1)
        ]


def _t(mean: float, spread: float, blocks: int, origin: float, tolerance: float) -> float:
    """Student's t of a mean's distance from `origin`, of which `tolerance` is left out."""
    away = mean - origin
    away = math.copysign(max(0.0, abs(away) - tolerance), away)
    if spread == 0:
        return 0.0 if away == 0 else math.copysign(math.inf, away)
    return away / spread * math.sqrt(blocks)
