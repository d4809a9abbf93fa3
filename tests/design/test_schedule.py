import itertools
from collections import Counter

import pytest

from jissoku.design.schedule import Roles, block, roles
from jissoku.model import Kind


@pytest.mark.parametrize(
    ("arms", "floor", "expected"),
    [
        (["a", "b"], None, Roles("a", "a", (("b", "a"),))),
        (["a", "b", "floor"], "floor", Roles("a", "a", (("b", "a"), ("floor", "a")))),
        (["floor", "a", "b"], "floor", Roles("floor", "floor", (("a", "floor"), ("b", "floor")))),
        (
            ["a", "b", "c", "floor"],
            "floor",
            Roles("a", "floor", (("a", "floor"), ("b", "floor"), ("c", "floor"))),
        ),
        (["a", "floor"], "floor", Roles("a", "a", (("floor", "a"),))),
        (["floor", "a"], "floor", Roles("floor", "floor", (("a", "floor"),))),
        (["a", "b", "c"], None, Roles("a", "a", (("b", "a"), ("c", "a")))),
        (["a"], None, Roles("a", "a", ())),
    ],
)
def test_who_meets_whom(arms: list[str], floor: str | None, expected: Roles) -> None:
    assert roles(arms, floor=floor) == expected


@pytest.mark.parametrize("arms", [["a", "b", "floor"], ["a", "b", "c", "floor"]])
def test_a_twin_meets_the_reference(arms: list[str]) -> None:
    alone, beside = roles(arms, floor="floor"), roles(arms, floor="floor", twin="a again")
    assert beside.duets == (*alone.duets, ("a again", alone.reference))


def some_block(index: int, seed: int = 7) -> list[tuple[Kind, tuple[str, ...]]]:
    plan = roles(["a", "b", "c", "floor"], floor="floor")
    names = ["a", "b", "c", "floor"]
    return [(t.kind, t.arms) for t in block(index, plan, [Kind.SOLO_COST], names, seed=seed)]


def test_a_block_holds_every_trial_once() -> None:
    found = Counter((kind, frozenset(arms)) for kind, arms in some_block(0))
    assert set(found.values()) == {1}
    assert len(found) == 3 + 4


def test_the_seed_alone_decides() -> None:
    assert some_block(3) == some_block(3)
    assert any(some_block(3, seed=seed) != some_block(3) for seed in range(5))


def test_blocks_differ_in_their_order() -> None:
    assert len({tuple(some_block(index)) for index in range(6)}) > 1


def test_each_arm_of_a_pair_starts_first_in_every_second_block() -> None:
    firsts = [
        arms[0]
        for index in range(8)
        for kind, arms in some_block(index)
        if set(arms) == {"a", "floor"}
    ]
    assert Counter(firsts) == {"a": 4, "floor": 4}
    assert all(one != other for one, other in itertools.pairwise(firsts))
