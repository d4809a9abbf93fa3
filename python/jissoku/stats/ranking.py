"""Ranks that claim no more than was proven."""

from collections.abc import Callable, Sequence


def ranks(ordered: Sequence[str], is_apart: Callable[[str, str], bool]) -> dict[str, int]:
    """One more than the number of arms that are proven to be better.

    An arm is proven to be better than another if their comparison shows it, or if a third is proven
    to lie between them. So the order of ranks never contradicts a proven comparison, and arms of
    which none is proven to be better share a rank.

    Args:
        ordered: Names, the best first.
        is_apart: Whether the comparison of two arms shows a difference, with all comparisons
            counted.
    """
    better: dict[str, set[str]] = {}
    for index, name in enumerate(ordered):
        above = [other for other in ordered[:index] if is_apart(other, name)]
        better[name] = set(above).union(*(better[other] for other in above))
    return {name: 1 + len(better[name]) for name in ordered}
