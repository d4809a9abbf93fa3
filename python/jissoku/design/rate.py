"""At which rate two arms are compared.

A cost per request belongs to its rate: at a low one every request wakes a sleeping server, at a
high one several are found at each wake-up. So all arms get one common rate where that is possible.
"""

from collections.abc import Mapping, Sequence

# Each arm of a duet may be loaded to this part of its capacity. Two equal ones then leave the cores
# idle for three tenths of the time, which a capacity that swings by a quarter needs.
LOAD_MAX = 0.35

# Above this the ratios get no quieter: a duet of two seconds has a spread of 0.8 % there.
RATE_MAX_RPS = 30_000

# An arm that is this many times slower than the fastest would push the common rate down to where
# idling is all that is measured: it gets a rate of its own, and its comparisons carry an allowance.
# The fastest ones here answer 190,000 a second, and below 8,000 little but waking up is seen.
SLOWER_BY_MAX = 8.0

# Rates are rounded down to two digits that people can read.
STEPS = (10, 12, 15, 20, 25, 30, 40, 50, 60, 80)


def rounded(rate: float) -> int:
    """The largest readable rate, in requests per second, that is not above `rate`; at least 1."""
    scale = 1
    while scale * 100 <= rate:
        scale *= 10
    return max((step * scale for step in STEPS if step * scale <= rate), default=max(1, int(rate)))


def common_rates(
    capacities: Mapping[str, float], duets: Sequence[tuple[str, str]]
) -> dict[tuple[str, str], int]:
    """Requests per second and arm, for every duet.

    Args:
        capacities: Closed-loop rate of each arm alone, in requests per second.
        duets: Pairs of arm names; pairs with an arm of unknown capacity get no rate.

    Returns:
        One rate per duet. All are equal except those of an arm much slower than the fastest.
    """
    known = [pair for pair in duets if all(capacities.get(name, 0) > 0 for name in pair)]
    if not known:
        return {}
    fastest = max(capacities[name] for pair in known for name in pair)
    slowest = {pair: min(capacities[name] for name in pair) for pair in known}
    near = [rate for rate in slowest.values() if rate * SLOWER_BY_MAX >= fastest]
    common = rounded(min(RATE_MAX_RPS, min(near, default=fastest) * LOAD_MAX))
    return {
        pair: common if rate * SLOWER_BY_MAX >= fastest else min(common, rounded(rate * LOAD_MAX))
        for pair, rate in slowest.items()
    }
