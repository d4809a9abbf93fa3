import pytest

from jissoku.design import sampling_plan, variants
from jissoku.design.sampling_plan import WorkloadRequirements
from jissoku.model import Mode
from jissoku.model.experiment import ConfigChange, Factor, FactorLevel, TargetSpec

BASE = TargetSpec(name="it", recipe="it", change=(ConfigChange(add=("base",)),))


def factor(name: str, *levels: str) -> Factor:
    made = tuple(
        FactorLevel(name=level, change=(ConfigChange(add=(name, level)),)) for level in levels
    )
    return Factor(name=name, target="it", level=made)


def test_variants_are_each_level_and_all_factors_at_once() -> None:
    found = variants.arms([BASE], [factor("a", ""), factor("b", "2", "4")])
    assert [arm.name for arm in found] == ["it", "it+a", "it+b=2", "it+b=4", "it+all"]


def test_an_arm_keeps_the_base_changes_first() -> None:
    found = variants.arms([BASE], [factor("a", "1")])
    assert [change.add for change in found[1].change] == [("base",), ("a", "1")]


def test_factors_of_another_target_leave_it_alone() -> None:
    other = TargetSpec(name="other", recipe="other")
    found = variants.arms([BASE, other], [factor("a", "")])
    assert [arm.name for arm in found] == ["it", "it+a", "other"]


@pytest.mark.parametrize("mode", list(Mode))
def test_many_arms_get_less_each_and_never_too_few_blocks(mode: Mode) -> None:
    few = {"one": WorkloadRequirements(arms=2, compares_cost=True, needs_closed_loop=False)}
    many = {
        f"w{i}": WorkloadRequirements(arms=6, compares_cost=True, needs_closed_loop=True)
        for i in range(4)
    }
    for needs in (few, many):
        for effort in sampling_plan.fit_time_budget(mode, needs).values():
            assert effort.blocks >= sampling_plan.BLOCKS_MIN
            assert effort.blocks_max == effort.blocks
    small = sampling_plan.fit_time_budget(mode, few)["one"]
    assert sampling_plan.minutes([(few["one"], small)]) <= sampling_plan.MINUTES_MAX[mode]
    large = sampling_plan.fit_time_budget(mode, many)["w0"]
    assert (small.blocks, small.window_ns) > (large.blocks, large.window_ns)


@pytest.mark.parametrize(
    ("meets", "alone"), [(True, False), (False, True), (True, True)], ids=["met", "alone", "both"]
)
def test_only_what_claims_ask_for_is_measured(*, meets: bool, alone: bool) -> None:
    effort = sampling_plan.fit_time_budget(
        Mode.QUICK,
        {"one": WorkloadRequirements(arms=4, compares_cost=meets, needs_closed_loop=alone)},
    )["one"]
    assert (effort.closed_loop_blocks >= sampling_plan.BLOCKS_MIN) is alone
    assert (effort.closed_loop_blocks == 0) is not alone
    checks = sampling_plan.CHECK_BLOCKS if meets else 0
    assert (effort.fixed_rate_blocks, effort.cross_check_blocks) == (checks, checks)
