"""What held a closed-loop rate down? Without an answer it says nothing about the server."""

import statistics
from collections.abc import Iterable, Sequence

from jissoku.model import Bound, Conditions

SERVER_BUSY_MIN = 0.95
GENERATOR_BUSY_MAX = 0.90

# Three different servers within this of each other more likely share a ceiling than a talent.
CEILING_WITHIN = 0.01
CEILING_ARMS_MIN = 3


def bound(conditions: Conditions) -> Bound:
    """What one trial's rate was bound by.

    A stopwatch thread at 90 % is the limit itself, whatever the server does beside it. A stopwatch
    that spins is always busy, and tells nothing.
    """
    if not conditions.spins and conditions.generator_busy_fraction >= GENERATOR_BUSY_MAX:
        return Bound.GENERATOR
    if conditions.server_cores_busy_fraction is None:
        return Bound.UNKNOWN
    if conditions.server_cores_busy_fraction >= SERVER_BUSY_MIN:
        return Bound.SERVER
    return Bound.NEITHER


def bound_of_all(trials: Iterable[Conditions]) -> Bound:
    """What several trials of one arm were bound by, judged by their medians."""
    known = list(trials)
    if not known:
        return Bound.UNKNOWN
    busy = [c.server_cores_busy_fraction for c in known if c.server_cores_busy_fraction is not None]
    return bound(
        Conditions(
            generator_busy_fraction=statistics.median(c.generator_busy_fraction for c in known),
            spins=any(c.spins for c in known),
            server_cores_busy_fraction=statistics.median(busy) if busy else None,
        )
    )


def common_ceiling(rates: Sequence[tuple[str, float]]) -> tuple[str, ...]:
    """Names of three or more arms whose closed-loop rates agree suspiciously well; or none.

    Args:
        rates: (name, requests per second), in any order.
    """
    ordered = sorted(rates, key=lambda pair: pair[1])
    best: tuple[str, ...] = ()
    for index, (_, low) in enumerate(ordered):
        near = tuple(name for name, rate in ordered[index:] if rate <= low * (1 + CEILING_WITHIN))
        best = max(best, near, key=len)
    return best if len(best) >= CEILING_ARMS_MIN else ()
