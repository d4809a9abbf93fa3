"""Finds the commit from which on a property is proven, with few measurements."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from jissoku.model.bound import BoundStatus

# How often an undecided step is measured again, with more blocks.
ATTEMPTS_MAX = 2


@dataclass(frozen=True, slots=True)
class Bisection:
    """The first commit with the property is after `good`, and `bad` at the latest.

    Attributes:
        good: Index of the last commit that is known to be good; -1 is the one before all.
        bad: Index of the first commit that is known to be bad; None if not even the last one is.
        undecided: Index of the commit at which measurements did not decide; None otherwise.
        steps: Measurements that were made.
    """

    good: int
    bad: int | None
    undecided: int | None
    steps: int


def bisect(commits: Sequence[str], judge: Callable[[str, int], BoundStatus]) -> Bisection:
    """Halves the range of commits until one is left, or one cannot be decided.

    Args:
        commits: After the good one, oldest first; the last one is assumed to be bad.
        judge: Measures a commit against the good one; its second argument counts the attempts.
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
