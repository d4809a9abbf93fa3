import pytest

from jissoku.design import budget, factors
from jissoku.design.budget import Need
from jissoku.model import Mode
from jissoku.model.experiment import Change, Design, Entrant, Factor, Level

BASE = Entrant(name="it", recipe="it", change=(Change(add=("base",)),))


def factor(name: str, *levels: str) -> Factor:
    made = tuple(Level(name=level, change=(Change(add=(name, level)),)) for level in levels)
    return Factor(name=name, of="it", level=made)


def names(design: Design, *given: Factor) -> list[str]:
    return [arm.name for arm in factors.arms([BASE], given, design)]


def test_one_at_a_time_has_the_base_each_level_and_all() -> None:
    found = names(Design.ONE_AT_A_TIME, factor("a", ""), factor("b", "2", "4"))
    assert found == ["it", "it+a", "it+b=2", "it+b=4", "it+all"]


def test_a_full_design_has_every_combination() -> None:
    found = names(Design.FULL, factor("a", ""), factor("b", ""))
    assert found == ["it", "it+b", "it+a", "it+a+b"]


@pytest.mark.parametrize("count", range(1, 12))
def test_a_fractional_design_is_balanced(count: int) -> None:
    given = [factor(f"f{index}", "") for index in range(count)]
    runs = [(), *factors.combinations(given, Design.FRACTIONAL)]
    size = len(runs)
    assert size <= 2 * count + 2
    on = [{f.name for f, _ in run} for run in runs]
    for one in given:
        assert sum(one.name in run for run in on) == size / 2
        for other in given:
            if one is not other:
                assert sum({one.name, other.name} <= run for run in on) == size / 4


def test_an_arm_keeps_the_base_changes_first() -> None:
    found = factors.arms([BASE], [factor("a", "1")], Design.ONE_AT_A_TIME)
    assert [change.add for change in found[1].change] == [("base",), ("a", "1")]


def test_factors_of_another_target_leave_it_alone() -> None:
    other = Entrant(name="other", recipe="other")
    found = factors.arms([BASE, other], [factor("a", "")], Design.FULL)
    assert [arm.name for arm in found] == ["it", "it+a", "other"]


@pytest.mark.parametrize("mode", list(Mode))
def test_many_arms_get_less_each_and_never_too_few_blocks(mode: Mode) -> None:
    few = {"one": Need(arms=2, duets=1, alone=False, paced=False)}
    many = {f"w{i}": Need(arms=6, duets=5, alone=True, paced=False) for i in range(4)}
    for needs in (few, many):
        for effort in budget.choose(mode, needs).values():
            assert effort.blocks >= budget.BLOCKS_MIN
    small = budget.choose(mode, few)["one"]
    assert budget.minutes([(few["one"], small)]) <= budget.MINUTES_MAX[mode]
    assert small.window_ns > budget.choose(mode, many)["w0"].window_ns


@pytest.mark.parametrize("late", [False, True])
def test_trials_at_a_rate_are_few_where_no_claim_asks_for_latencies(late: bool) -> None:  # noqa: FBT001
    need = Need(arms=4, duets=3, alone=True, paced=False, late=late)
    effort = budget.choose(Mode.QUICK, {"one": need})["one"]
    assert effort.solo_blocks >= budget.BLOCKS_MIN
    assert effort.solos_paced == (effort.solo_blocks if late else budget.CHECK_BLOCKS)
