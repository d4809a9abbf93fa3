"""Which trial comes when: randomised blocks, decided by the seed alone."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from jissoku.model import Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A trial to come.

    Attributes:
        arms: In starting order.
        seed: Decides ports, padding of the environment and the order of sends inside this trial.
    """

    block: int
    kind: Kind
    arms: tuple[str, ...]
    seed: int


@dataclass(frozen=True, slots=True)
class Roles:
    """Who is measured against whom.

    Attributes:
        baseline: The arm that verdicts are given against: the first one named.
        reference: The arm that is in duet with every other one.
        duets: (candidate, reference) pairs.
    """

    baseline: str
    reference: str
    duets: tuple[tuple[str, str], ...]


def roles(arms: Sequence[str], *, floor: str | None, twin: str = "") -> Roles:
    """Chooses the reference and the duets.

    Two arms meet directly, which is twice as sharp as meeting through a third, and the first of
    them meets the floor. Three or more all meet the floor: it is the cheapest and steadiest server
    there is, and its duets are the multiples that every report shows.

    Args:
        arms: Names, the baseline first; the floor is among them unless it is None.
        floor: Name of the floor's arm; None when it could not be raced.
        twin: The baseline once more, not among `arms`; it meets the reference, whoever that is.
    """
    asked = [name for name in arms if name != floor]
    baseline = arms[0]
    if floor is not None and (baseline == floor or len(asked) > 2):
        reference, others = floor, asked
    else:
        reference, others = baseline, [name for name in arms if name != baseline]
    if twin:
        others = [*others, twin]
    return Roles(baseline, reference, tuple((name, reference) for name in others))


def block(
    index: int, roles: Roles, solo: Sequence[Kind], arms: Sequence[str], *, seed: int
) -> Iterator[Planned]:
    """The trials of one block, in their order.

    Starting order within a duet alternates between blocks, so that over a campaign both arms of
    every pair are first equally often; everything else is drawn.

    Args:
        index: The block's index, from 0.
        solo: Kinds of solo trial that this block holds, one of each for every arm.
        seed: The run's seed; the same seed and index give the same block.
    """
    rng = random.Random(f"{seed}/block/{index}")
    trials: list[tuple[Kind, tuple[str, ...]]] = [(Kind.DUET, pair) for pair in roles.duets]
    trials += [(kind, (name,)) for kind in solo for name in arms]
    rng.shuffle(trials)
    for kind, names in trials:
        flip = random.Random(f"{seed}/{'+'.join(names)}").randrange(2)
        ordered = names if (index + flip) % 2 == 0 else names[::-1]
        yield Planned(block=index, kind=kind, arms=tuple(ordered), seed=rng.getrandbits(31))
