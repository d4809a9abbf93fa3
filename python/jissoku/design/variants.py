"""Variants of targets: combinations of factors in experiments, and of knobs in `tune`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from jissoku.model.experiment import ConfigChange, Design, Factor, FactorLevel, TargetSpec

FactorCombination = tuple[tuple[Factor, FactorLevel], ...]


def arms(
    specs: Sequence[TargetSpec], factors: Sequence[Factor], design: Design
) -> tuple[TargetSpec, ...]:
    """Every unchanged target, each followed by its variants.

    A variant is named after its differences: `nginx+cache`, `nginx+workers=2`; with every factor of
    a one-at-a-time design at once it is `nginx+all`.
    """
    found: list[TargetSpec] = []
    for spec in specs:
        found.append(spec)
        mine = [factor for factor in factors if factor.target == spec.name]
        found += [_varied(spec, c, mine, design) for c in factor_combinations(mine, design)]
    return tuple(found)


def factor_combinations(factors: Sequence[Factor], design: Design) -> Iterator[FactorCombination]:
    if not factors:
        return
    match design:
        case Design.FULL:
            yield from _full(factors)
        case Design.ONE_AT_A_TIME:
            yield from (((factor, level),) for factor in factors for level in factor.level)
            if len(factors) > 1:
                yield tuple((factor, factor.level[-1]) for factor in factors)
        case Design.FRACTIONAL:
            yield from _fractional(factors)


def _full(factors: Sequence[Factor]) -> Iterator[FactorCombination]:
    choices = [[None, *factor.level] for factor in factors]
    for chosen in product(*choices):
        pairs = zip(factors, chosen, strict=True)
        combination = tuple((factor, level) for factor, level in pairs if level is not None)
        if combination:
            yield combination


def _fractional(factors: Sequence[Factor]) -> Iterator[FactorCombination]:
    """The smallest regular two-level design in which no two factors share a column.

    Columns are the products of basic ones (Box, Hunter and Hunter, Statistics for Experimenters,
    chapter 6): every factor is on in half of the runs, each pair in a quarter, and effects of
    single factors are mixed with those of pairs. All factors off is the base itself.
    """
    runs = 1 << len(factors).bit_length()
    # Basic columns first: with as many factors as basic columns the design is the full one.
    columns = sorted(range(1, runs), key=lambda mask: (mask.bit_count(), mask))
    for run in range(1, runs):
        combination = tuple(
            (factor, factor.level[-1])
            for factor, mask in zip(factors, columns, strict=False)
            if (run & mask).bit_count() % 2
        )
        if combination:
            yield combination


def _varied(
    spec: TargetSpec, combination: FactorCombination, factors: Sequence[Factor], design: Design
) -> TargetSpec:
    everything = len(combination) == len(factors) > 1 and design is Design.ONE_AT_A_TIME
    labels = [f"{f.name}={level.name}" if level.name else f.name for f, level in combination]
    changes: list[ConfigChange] = [change for _, level in combination for change in level.change]
    return TargetSpec(
        name=f"{spec.name}+{'all' if everything else '+'.join(labels)}",
        recipe=spec.recipe,
        command=spec.command,
        change=(*spec.change, *changes),
        upstream=spec.upstream,
        substitutes=spec.substitutes,
    )


BASELINE = "as it is"
ALL = "all"
PROVEN = "proven"


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
    """The unchanged target, which is the baseline, and each knob alone."""
    return (
        Combination(BASELINE, ()),
        *(Combination(name_alone(knob), (knob,)) for knob in knobs),
    )


def confirmation(more: Sequence[str], before: Sequence[str] = ()) -> tuple[Combination, ...]:
    """Accepted knobs beside those accepted before: on blocks that no choice was based on."""
    return (Combination(BASELINE, tuple(before)), Combination(PROVEN, (*before, *more)))


def name_alone(knob: str) -> str:
    return f"with {knob}"


def name_leave_one_out(knob: str) -> str:
    return f"all but {knob}"
