"""Blocks: every arm in every rotation, in an order determined by the seed alone."""

import itertools
from collections import Counter
from collections.abc import Sequence

import pytest

from jissoku.design.schedule import PlannedStart, baseline_first, block
from jissoku.model import Load, LoadLevel, TrialKind

NAMES = ("a", "b", "c", "floor")
LOADS = tuple(
    Load(rate_rps=rate, level=level)
    for rate, level in (
        (1_000, LoadLevel.LIGHT),
        (5_000, LoadLevel.MEDIUM),
        (20_000, LoadLevel.HEAVY),
    )
)
ALONE: Sequence[tuple[str, ...]] = [(name,) for name in NAMES]
KINDS = {TrialKind.TIME_SLICED: [NAMES], TrialKind.FIXED_RATE: ALONE, TrialKind.CLOSED_LOOP: ALONE}


def some_block(index: int, *, seed: int = 7, checks: bool = False) -> list[PlannedStart]:
    return list(block(index, LOADS, KINDS, seed=seed, checks=checks))


def rotation(index: int) -> PlannedStart:
    (found,) = (step for step in some_block(index) if step.planned.kind is TrialKind.TIME_SLICED)
    return found


def test_a_block_holds_every_start_once() -> None:
    found = Counter((s.planned.kind, frozenset(s.planned.arms)) for s in some_block(0))
    assert set(found.values()) == {1}
    assert len(found) == 1 + 4 + 4
    assert {step.planned.block for step in some_block(5)} == {5}


@pytest.mark.parametrize("index", range(12))
def test_every_arm_is_in_every_rotation_at_every_load(index: int) -> None:
    step = rotation(index)
    assert sorted(step.planned.arms) == sorted(NAMES)
    assert sorted(step.loads, key=lambda load: load.rate_rps or 0) == list(LOADS)


def test_the_seed_alone_decides() -> None:
    assert some_block(3) == some_block(3)
    assert all(some_block(3, seed=seed) != some_block(3) for seed in (1, 2, 3))


def test_arms_and_loads_are_shuffled_in_each_block() -> None:
    firsts = Counter(rotation(index).planned.arms[0] for index in range(400))
    lights = Counter(rotation(index).loads.index(LOADS[0]) for index in range(400))
    # 400 / 4 +- 8.7 and 400 / 3 +- 9.4: four deviations are allowed.
    assert all(abs(firsts[name] - 100) < 35 for name in NAMES)
    assert all(abs(lights[place] - 133) < 38 for place in range(3))


def test_starts_of_a_block_are_shuffled() -> None:
    places = Counter(
        [step.planned.kind for step in some_block(index)].index(TrialKind.TIME_SLICED)
        for index in range(90)
    )
    assert len(places) == 9, "a rotation may come at any place of its block"


def test_every_start_has_a_seed_of_its_own() -> None:
    seeds = [step.planned.seed for index in range(20) for step in some_block(index)]
    assert len(set(seeds)) == len(seeds)


def test_only_rotations_are_checked_in_other_turns() -> None:
    assert not any(step.is_check for step in some_block(0))
    checked = {step.planned.kind for step in some_block(0, checks=True) if step.is_check}
    assert checked == {TrialKind.TIME_SLICED}


def test_each_arm_of_a_pair_starts_first_in_every_second_block() -> None:
    pairs = baseline_first(["a", "b", "c"], "")
    for seed in range(6):
        for pair in pairs:
            firsts = [
                step.planned.arms[0]
                for index in range(8)
                for step in block(index, LOADS, {TrialKind.PAIRED: pairs}, seed=seed)
                if set(step.planned.arms) == set(pair)
            ]
            assert Counter(firsts) == dict.fromkeys(pair, 4)
            assert all(one != other for one, other in itertools.pairwise(firsts))


def test_not_every_pair_begins_with_the_same_side() -> None:
    pairs = baseline_first([f"n{i}" for i in range(12)], "")
    steps = block(0, LOADS, {TrialKind.PAIRED: pairs}, seed=1)
    assert {step.planned.arms[0] == "n0" for step in steps} == {True, False}


@pytest.mark.parametrize(
    ("arms", "aa_control", "expected"),
    [
        (["a", "b"], "", (("b", "a"),)),
        (["a", "b", "c"], "", (("b", "a"), ("c", "a"))),
        (["a", "b"], "a again", (("b", "a"), ("a again", "a"))),
        (["a"], "", ()),
    ],
)
def test_paired_trials_are_of_every_arm_with_the_baseline(
    arms: list[str], aa_control: str, expected: tuple[tuple[str, str], ...]
) -> None:
    assert baseline_first(arms, aa_control) == expected
