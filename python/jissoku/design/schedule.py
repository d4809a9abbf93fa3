"""The order of trials: randomised blocks, determined by the seed alone."""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from jissoku.model import Load, TrialKind


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTrial:
    """A planned trial.

    Attributes:
        arms: In starting order.
        seed: Decides ports, padding of the environment and the order of sends inside this trial.
    """

    block: int
    kind: TrialKind
    arms: tuple[str, ...]
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedMeasurement:
    """One trial on a start.

    Attributes:
        load: None for kinds that have none.
        is_check: In slices of the other length.
    """

    kind: TrialKind
    load: Load | None = None
    is_check: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedStart:
    """What is measured on one start: trials of one kind, each at a load of its own.

    Attributes:
        planned: Arms in starting order.
        loads: In the order in which they are measured; none for kinds that have no load.
        is_check: Also in slices of the other length.
        only_checks: Only in slices of the other length.
    """

    planned: PlannedTrial
    loads: tuple[Load, ...] = ()
    is_check: bool = False
    only_checks: bool = False


def baseline_first(arms: Sequence[str], aa_control: str) -> tuple[tuple[str, str], ...]:
    """(arm, baseline) of every arm: the paired trials of a run of like arms."""
    first = arms[0]
    others = [name for name in arms if name != first]
    return tuple((name, first) for name in ([*others, aa_control] if aa_control else others))


def block(
    index: int,
    loads: Sequence[Load],
    kinds: Mapping[TrialKind, Sequence[tuple[str, ...]]],
    *,
    seed: int,
    checks: bool = False,
) -> Iterator[PlannedStart]:
    """What one block measures, in its order, decided by the seed alone.

    The order of starts, of arms within each start and of loads is drawn. Within a paired trial the
    starting order alternates between blocks, so that over a run both arms are first equally often.

    Args:
        index: The block's index, from 0.
        kinds: Which kinds this block holds, and of which groups of arms, a start for each group.
        checks: Whether time-sliced starts are also measured in turns of the other length.
    """
    rng = random.Random(f"{seed}/block/{index}")
    starts = [(kind, names) for kind, groups in kinds.items() for names in groups]
    rng.shuffle(starts)
    for kind, names in starts:
        ordered = list(names)
        if kind is TrialKind.PAIRED:
            flip = random.Random(f"{seed}/{'+'.join(names)}").randrange(2)
            ordered = ordered if (index + flip) % 2 == 0 else ordered[::-1]
        else:
            rng.shuffle(ordered)
        mine = list(loads)
        rng.shuffle(mine)
        planned = PlannedTrial(
            block=index, kind=kind, arms=tuple(ordered), seed=rng.getrandbits(31)
        )
        yield PlannedStart(
            planned=planned, loads=tuple(mine), is_check=checks and kind is TrialKind.TIME_SLICED
        )
