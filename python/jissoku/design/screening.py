"""The combinations of knobs to test: each alone, all, all but each, or a design for many knobs."""

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
    return f"with {knob}"


def name_leave_one_out(knob: str) -> str:
    """Name of the arm with every knob but this one."""
    return f"all but {knob}"


# With this many knobs or fewer, each is tried alone without screening.
KNOBS_MIN = 6

# Plackett and Burman (Biometrika 33, 1946): the first row of their design of 12 runs, of which the
# others are shifts; the twelfth run has everything off, and is the configuration as it is.
TWELVE = "++-+++---+-"


def combinations(knobs: Sequence[str]) -> tuple[Combination, ...]:
    """The unchanged target, which is the baseline, and the runs of a balanced design.

    Up to 11 knobs have 12 runs, more of them the next power of two (products of basic columns): no
    two knobs share a column, so effects are not confounded pairwise.
    """
    rows = _twelve() if len(knobs) <= len(TWELVE) else _regular(len(knobs))
    found = [Combination(BASELINE, ())]
    for number, row in enumerate(rows, start=1):
        chosen = tuple(knob for knob, is_on in zip(knobs, row, strict=False) if is_on)
        found.append(Combination(f"run {number}", chosen))
    return tuple(one for one in found if one.knobs or one.name == BASELINE)


def _twelve() -> list[list[bool]]:
    first = [sign == "+" for sign in TWELVE]
    return [first[-shift:] + first[:-shift] if shift else first for shift in range(len(first))]


def _regular(count: int) -> list[list[bool]]:
    runs = 2
    while runs <= count:
        runs *= 2
    return [
        [(run & column).bit_count() % 2 == 1 for column in range(1, runs)] for run in range(1, runs)
    ]
