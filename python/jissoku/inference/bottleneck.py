"""The bottleneck of a closed-loop rate; without it the rate says nothing about the server."""

import statistics
from collections.abc import Iterable, Sequence

from jissoku.model import Bottleneck, MachineConditions

SERVER_BUSY_MIN = 0.95
GENERATOR_BUSY_MAX = 0.90

# Three different servers within this of each other more likely share a ceiling than a talent.
CEILING_WITHIN = 0.01
CEILING_ARMS_MIN = 3


def bottleneck(conditions: MachineConditions) -> Bottleneck:
    """What one trial's rate was bound by.

    A load generator thread at 90 % is the limit itself, whatever the server does. One
    that busy-polls is always busy, whatever the load.
    """
    if (
        not conditions.generator_busy_polls
        and conditions.generator_busy_fraction >= GENERATOR_BUSY_MAX
    ):
        return Bottleneck.GENERATOR
    if conditions.server_cores_busy_fraction is None:
        return Bottleneck.UNKNOWN
    if conditions.server_cores_busy_fraction >= SERVER_BUSY_MIN:
        return Bottleneck.SERVER
    return Bottleneck.NEITHER


def common_bottleneck(trials: Iterable[MachineConditions]) -> Bottleneck:
    """What several trials of one arm were bound by, judged by their medians."""
    known = list(trials)
    if not known:
        return Bottleneck.UNKNOWN
    busy = [c.server_cores_busy_fraction for c in known if c.server_cores_busy_fraction is not None]
    return bottleneck(
        MachineConditions(
            generator_busy_fraction=statistics.median(c.generator_busy_fraction for c in known),
            generator_busy_polls=any(c.generator_busy_polls for c in known),
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
