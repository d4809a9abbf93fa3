"""From factors and their levels to the combinations that become arms."""

import itertools
from collections.abc import Iterator, Sequence

from jissoku.model.experiment import ConfigChange, Design, Factor, FactorLevel, TargetSpec

Combination = tuple[tuple[Factor, FactorLevel], ...]


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
        found += [_varied(spec, c, mine, design) for c in combinations(mine, design)]
    return tuple(found)


def combinations(factors: Sequence[Factor], design: Design) -> Iterator[Combination]:
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


def _full(factors: Sequence[Factor]) -> Iterator[Combination]:
    choices = [[None, *factor.level] for factor in factors]
    for chosen in itertools.product(*choices):
        pairs = zip(factors, chosen, strict=True)
        combination = tuple((factor, level) for factor, level in pairs if level is not None)
        if combination:
            yield combination


def _fractional(factors: Sequence[Factor]) -> Iterator[Combination]:
    """The smallest regular two-level design in which no two factors share a column.

    Columns are the products of basic ones (Box, Hunter and Hunter, Statistics for Experimenters,
    chapter 6), so every factor is on in half of the runs, and each pair of factors in a quarter;
    effects of single factors are mixed with those of pairs. The run with all factors off is the
    base itself.
    """
    runs = 2
    while runs <= len(factors):
        runs *= 2
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
    spec: TargetSpec, combination: Combination, factors: Sequence[Factor], design: Design
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
