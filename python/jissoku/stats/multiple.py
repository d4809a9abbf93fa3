"""Many comparisons at once: what one in twenty would mean when there are twenty."""

from collections.abc import Sequence

from statsmodels.stats.multitest import multipletests  # type: ignore[import-untyped]

ALPHA = 0.05


def holm(p_values: Sequence[float | None]) -> tuple[float | None, ...]:
    """Adjusts p-values so that the chance of any false rejection stays at 5 % (Holm, 1979).

    Pairs without a p-value keep None; they belong to the question all the same, but nothing can be
    rejected about them.
    """
    known = [p for p in p_values if p is not None]
    if not known:
        return tuple(p_values)
    adjusted = iter(multipletests(known, alpha=ALPHA, method="holm")[1])
    return tuple(None if p is None else float(next(adjusted)) for p in p_values)


def confidence(comparisons: int) -> float:
    """Confidence of each interval such that all of so many hold together with 95 % (Bonferroni)."""
    return 1 - ALPHA / max(1, comparisons)
