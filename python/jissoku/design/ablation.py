"""The combinations of knobs to test: none, each alone, all, and all but each."""

from collections.abc import Sequence
from dataclasses import dataclass

BASELINE = "as it is"
ALL = "all"
PROVEN = "proven"


@dataclass(frozen=True, slots=True)
class Combination:
    """An arm's name and the knobs that are switched in it."""

    name: str
    knobs: tuple[str, ...]


def one_at_a_time_and_all(knobs: Sequence[str]) -> tuple[Combination, ...]:
    """The unchanged target as the baseline, then each knob alone, then all of them together."""
    found = [Combination(BASELINE, ())]
    found += [Combination(name_alone(knob), (knob,)) for knob in knobs]
    if len(knobs) > 1:
        found.append(Combination(ALL, tuple(knobs)))
    return tuple(found)


def leave_one_out(knobs: Sequence[str]) -> tuple[Combination, ...]:
    """All together, which is the baseline, then all but each; nothing for a single knob."""
    if len(knobs) < 2:
        return ()
    found = [Combination(ALL, tuple(knobs))]
    for left_out in knobs:
        rest = tuple(knob for knob in knobs if knob != left_out)
        found.append(Combination(name_leave_one_out(left_out), rest))
    return tuple(found)


def one_at_a_time(knobs: Sequence[str]) -> tuple[Combination, ...]:
    """The unchanged target, which is the baseline, and each knob alone."""
    return (
        Combination(BASELINE, ()),
        *(Combination(name_alone(knob), (knob,)) for knob in knobs),
    )


def increment(before: Sequence[str], more: Sequence[str]) -> tuple[Combination, ...]:
    """The knobs accepted so far, which are the baseline, and the same with additional ones."""
    return (Combination(BASELINE, tuple(before)), Combination(PROVEN, (*before, *more)))


def confirmation(knobs: Sequence[str]) -> tuple[Combination, ...]:
    """The unchanged target and all accepted knobs: on blocks that no choice was based on."""
    return (Combination(BASELINE, ()), Combination(PROVEN, tuple(knobs)))


def name_alone(knob: str) -> str:
    """Name of the arm with this knob only."""
    return f"with {knob}"


def name_leave_one_out(knob: str) -> str:
    """Name of the arm with every knob but this one."""
    return f"all but {knob}"
