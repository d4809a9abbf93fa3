"""Correction for multiple comparisons."""

from collections.abc import Sequence

import numpy as np

from jissoku.model.summary import ALPHA


def holm(p_values: Sequence[float | None]) -> tuple[float | None, ...]:
    """Adjusts p-values so that the chance of any false rejection stays at 5 % (Holm, 1979).

    Pairs without a p-value keep None. They belong to the question all the same and count in its
    size, as if nothing had spoken against their being equal.
    """
    if not p_values:
        return ()
    # Written out: that of statsmodels collects garbage at every call, 60 ms each.
    counted = np.array([1.0 if p is None else p for p in p_values])
    order = np.argsort(counted)
    adjusted = np.empty(len(counted))
    steps = np.arange(len(counted), 0, -1)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(steps * counted[order]))
    return tuple(
        None if p is None else float(corrected)
        for p, corrected in zip(p_values, adjusted, strict=True)
    )


def confidence(comparisons: int) -> float:
    """Confidence of each interval for 95 % over this many comparisons (Bonferroni)."""
    return 1 - ALPHA / max(1, comparisons)
