"""Variants of targets: combinations of factors in experiments, and of knobs in `tune`."""

from collections.abc import Sequence
from dataclasses import dataclass

from jissoku.model.experiment import Factor, FactorLevel, TargetSpec
from jissoku.model.updated import updated


def arms(specs: Sequence[TargetSpec], factors: Sequence[Factor]) -> tuple[TargetSpec, ...]:
    """Every unchanged target, each followed by a variant per level of its factors, and of all.

    A variant is named after its differences: `nginx+cache`, `nginx+workers=2`; with every factor at
    once it is `nginx+all`.
    """
    found: list[TargetSpec] = []
    for spec in specs:
        found.append(spec)
        mine = [factor for factor in factors if factor.target == spec.name]
        for factor in mine:
            for level in factor.level:
                label = f"{factor.name}={level.name}" if level.name else factor.name
                found.append(_varied(spec, label, [level]))
        if len(mine) > 1:
            found.append(_varied(spec, "all", [factor.level[-1] for factor in mine]))
    return tuple(found)


def _varied(spec: TargetSpec, label: str, levels: Sequence[FactorLevel]) -> TargetSpec:
    changes = [change for level in levels for change in level.change]
    return updated(spec, name=f"{spec.name}+{label}", change=(*spec.change, *changes))


BASELINE = "as it is"
ALL = "all"
PROVEN = "with the changes"


@dataclass(frozen=True, slots=True)
class Combination:
    name: str
    knobs: tuple[str, ...]


def leave_one_out(knobs: Sequence[str]) -> tuple[Combination, ...]:
    """All together, which is the baseline, then all but each; nothing for a single knob."""
    if len(knobs) < 2:
        return ()
    rests = {one: tuple(knob for knob in knobs if knob != one) for one in knobs}
    alone = (Combination(name_leave_one_out(one), rest) for one, rest in rests.items())
    return (Combination(ALL, tuple(knobs)), *alone)


def one_at_a_time(knobs: Sequence[str]) -> tuple[Combination, ...]:
    return (Combination(BASELINE, ()), *(Combination(name_alone(knob), (knob,)) for knob in knobs))


def confirmation(more: Sequence[str], before: Sequence[str] = ()) -> tuple[Combination, ...]:
    """Accepted knobs beside those accepted before: on blocks that no choice was based on."""
    return (Combination(BASELINE, tuple(before)), Combination(PROVEN, (*before, *more)))


def name_alone(knob: str) -> str:
    return f"with {knob}"


def name_leave_one_out(knob: str) -> str:
    return f"all but {knob}"
