"""A screening design for many knobs: few combinations, each knob switched in half of them."""

from collections.abc import Sequence

from jissoku.design.ablation import BASELINE, Combination

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
