"""Ranks that claim no more than was proven."""

from collections.abc import Callable, Sequence


def ranks(ordered: Sequence[str], is_apart: Callable[[str, str], bool]) -> dict[str, int]:
    """Ranks from 1; arms that are not separable share one.

    A new rank begins only where every arm above is separable from every arm below. So two arms may
    share a rank although they differ, when a third between them differs from neither; two arms
    with different ranks always differ.

    Args:
        ordered: Names, cheapest first.
        is_apart: Whether two arms were proven different, with all comparisons counted.
    """
    found: dict[str, int] = {}
    rank = 1
    for index, name in enumerate(ordered):
        below = ordered[index:]
        if all(is_apart(above, other) for above in ordered[:index] for other in below):
            rank = index + 1
        found[name] = rank
    return found
