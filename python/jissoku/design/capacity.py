"""The rates of a capacity search: up until the objective is violated, then between."""

import math
import random
from collections.abc import Sequence

from jissoku.model import CapacityStep

# The capacity is near the closed loop's rate; a search that starts below it needs a few steps up.
# Each step is twice the previous one, as a logarithm, so that a distant capacity is found, too.
FIRST_OF_CLOSED_LOOP = 0.85
STEP_FACTOR = 1.1

# The gap between the highest rate that met the objective and the lowest that did not.
GAP_MAX = 1.05

STEPS_MAX = 13


def first_rate(near_rps: float, seed: int) -> int:
    """A random rate within one final step above another one.

    A search says the highest rate that met the objective among those that it tried. With a random
    first one, what lies between that and the capacity differs from search to search, so that the
    spread of several searches shows it.
    """
    return round(near_rps * math.pow(STEP_FACTOR, random.Random(seed).random() / 2))


def next_rate(steps: Sequence[CapacityStep], first_rps: int) -> int | None:
    """The rate to try next, in requests per second; None when the search is over."""
    met = [step.rate_rps for step in steps if step.is_met]
    broken = [step.rate_rps for step in steps if not step.is_met]
    if not steps:
        return max(1, first_rps)
    if len(steps) >= STEPS_MAX:
        return None
    if not broken:
        return math.ceil(max(met) * math.pow(STEP_FACTOR, 2 ** (len(met) - 1)))
    low = max((rate for rate in met if rate < min(broken)), default=0)
    if not low:
        lower = math.floor(min(broken) / math.pow(STEP_FACTOR, 2 ** len(broken)))
        return max(1, lower) if min(broken) > 1 else None
    high = min(broken)
    return None if high <= low * GAP_MAX or high <= low + 1 else round(math.sqrt(low * high))


def highest_met(steps: Sequence[CapacityStep]) -> int | None:
    """The highest rate that met the objective below every rate that did not; None for none."""
    broken = min((step.rate_rps for step in steps if not step.is_met), default=math.inf)
    return max((s.rate_rps for s in steps if s.is_met and s.rate_rps < broken), default=None)
