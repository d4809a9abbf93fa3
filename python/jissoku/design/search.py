"""Searches with few measurements: the capacity of a target, and the commit that changed it."""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from jissoku.model import CapacityStep
from jissoku.model.summary import BoundStatus

# The capacity is near the closed loop's rate; a search that starts below it needs a few steps up.
# Each step is twice the previous one, as a logarithm, so that a distant capacity is found, too.
FIRST_OF_CLOSED_LOOP = 0.85
STEP_FACTOR = 1.1

# The gap between the highest rate that met the objective and the lowest that did not.
GAP_MAX = 1.05

STEPS_MAX = 13


def first_rate(near_rps: float, seed: int) -> int:
    """A random rate within one final step above another one.

    With a random first one, what lies between the highest rate that met the objective and the
    capacity differs from search to search, so that the spread of several searches shows it.
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


# How often an undecided step is measured again, with more blocks.
ATTEMPTS_MAX = 2


@dataclass(frozen=True, slots=True)
class Bisection:
    """The first commit with the property is after `good`, and `bad` at the latest.

    All are indices: -1 for the one before all, None for `bad` if not even the last one is.
    `undecided` is the commit at which measurements did not decide.
    """

    good: int
    bad: int | None
    undecided: int | None
    steps: int


def bisect(commits: Sequence[str], judge: Callable[[str, int], BoundStatus]) -> Bisection:
    """Halves the range of commits, oldest first, until one is left or one cannot be decided.

    `judge` measures a commit against the good one; its second argument counts the attempts.
    """
    good, bad, steps = -1, len(commits), 0
    place = len(commits) - 1  # Whether the last one is bad at all comes first.
    while good + 1 < bad:
        status = BoundStatus.UNDECIDED
        for attempt in range(ATTEMPTS_MAX):
            steps += 1
            status = judge(commits[place], attempt)
            if status is not BoundStatus.UNDECIDED:
                break
        if status is BoundStatus.UNDECIDED:
            return Bisection(good, bad if bad < len(commits) else None, place, steps)
        if status is BoundStatus.EXCEEDED:
            bad = place
        elif place == len(commits) - 1:
            return Bisection(place, None, None, steps)
        else:
            good = place
        place = (good + bad) // 2
    return Bisection(good, bad, None, steps)
