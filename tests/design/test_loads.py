"""The grid of loads, the same in every run, and the arms that reach each load."""

import pytest
from hypothesis import given, strategies as st

from jissoku.design.schedule import (
    DECADE,
    HEAVY,
    LIGHT,
    LOAD_MAX,
    LOADS,
    MEDIUM,
    arms_reaching,
    loads,
)
from jissoku.model import FULL_LOAD, Load, LoadLevel, Mode, rate_grid

CAPACITIES = {"floor": 150_000.0, "nginx": 90_000.0, "node": 30_000.0, "tornado": 4_000.0}
NAMES = tuple(CAPACITIES)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (1_000, 100_000, (1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000)),
        (3, 60, (5, 10, 20, 50)),
        (1, 1, (1,)),
        (3, 4, ()),
    ],
)
def test_the_grid_is_one_two_five(low: int, high: int, expected: tuple[int, ...]) -> None:
    assert rate_grid(low, high) == expected


def test_quick_mode_takes_three_points_of_the_grid_and_standard_all() -> None:
    quick = [load.rate_rps for load in loads(CAPACITIES, NAMES, Mode.QUICK, 1)]
    assert quick == [LIGHT, MEDIUM, HEAVY] == [1_000, 5_000, 20_000]
    standard = loads(CAPACITIES, NAMES, Mode.STANDARD, 1)
    assert [load.rate_rps for load in standard] == list(rate_grid(LIGHT, 50_000))
    assert set(quick) <= {load.rate_rps for load in standard}, "two modes speak of the same loads"
    assert [load.level for load in standard] == [
        *[LoadLevel.LIGHT] * 2,
        *[LoadLevel.MEDIUM] * 2,
        *[LoadLevel.HEAVY] * 2,
    ]


def test_a_load_that_one_arm_alone_reaches_is_none() -> None:
    rates = [load.rate_rps for load in loads(CAPACITIES, NAMES, Mode.STANDARD, 1)]
    assert 100_000 not in rates, "only the floor reaches it"
    assert loads({"a": 1e6}, ("a",), Mode.QUICK, 1) == ()
    assert loads({"a": 1e6}, ("a", "dead"), Mode.QUICK, 1) == ()
    assert loads({}, ("a", "b"), Mode.QUICK, 1) == ()


def test_where_all_arms_are_needed_the_slowest_decides() -> None:
    slow = {"as it is": 150.0, "level 1": 900.0, "static": 20_000.0, "failed": 0.0}
    found = loads(slow, tuple(slow), Mode.QUICK, 1, needed=len(slow))
    assert [load.rate_rps for load in found] == [LIGHT // DECADE]


def test_rates_are_for_each_core_of_the_server() -> None:
    fast = ("floor", "nginx", "node")
    four = loads(CAPACITIES, fast, Mode.QUICK, 4)
    assert [load.rate_rps for load in four] == [4_000, 20_000, 80_000]


def test_where_few_arms_reach_the_light_load_the_whole_grid_moves_down() -> None:
    slow = {"a": 300.0, "b": 250.0, "c": 20.0}
    found = loads(slow, tuple(slow), Mode.QUICK, 1)
    assert [load.rate_rps for load in found] == [LIGHT // DECADE**2, LIGHT // DECADE]
    assert {load.level for load in found} == {LoadLevel.LIGHT}


def test_two_arms_are_measured_at_rates_that_the_slower_one_reaches() -> None:
    found = loads({"nginx": 90_000.0, "flask": 400.0}, ("nginx", "flask"), Mode.QUICK, 1)
    assert [load.rate_rps for load in found] == [100]
    found = loads({"nginx": 90_000.0, "flask": 900.0}, ("nginx", "flask"), Mode.QUICK, 1)
    assert [load.rate_rps for load in found] == [100, 500]


def test_one_very_slow_arm_adds_a_load_that_all_reach() -> None:
    slow = CAPACITIES | {"sleepy": 20.0}
    (lowest, *others) = loads(slow, tuple(slow), Mode.QUICK, 1)
    assert tuple(others) == loads(CAPACITIES, NAMES, Mode.QUICK, 1)
    assert lowest.rate_rps == 10
    assert arms_reaching(lowest, slow, tuple(slow)) == tuple(slow)


@given(
    st.dictionaries(st.sampled_from("abcdef"), st.floats(0.1, 1e6), min_size=2),
    st.sampled_from(list(Mode)),
    st.integers(1, 64),
)
def test_levels_are_ordered_as_their_rates_are(
    capacities: dict[str, float], mode: Mode, cores: int
) -> None:
    found = loads(capacities, tuple(capacities), mode, cores)
    rates = [load.rate_rps or 0 for load in found]
    assert rates == sorted(set(rates))
    levels = [list(LoadLevel).index(load.level) for load in found]
    assert levels == sorted(levels)
    for load in found:
        assert len(arms_reaching(load, capacities, tuple(capacities))) >= 2


def test_an_arm_below_one_request_per_second_leaves_the_loads_of_others() -> None:
    assert [
        load.rate_rps for load in loads({"a": 2.0, "b": 2.0, "c": 0.3}, "abc", Mode.QUICK, 1)
    ] == [1]
    assert loads({"a": 0.9, "b": 0.3}, "ab", Mode.QUICK, 1) == ()


def test_a_grid_that_moves_down_stays_exact() -> None:
    found = loads({"a": 10.0, "b": 10.0}, "ab", Mode.QUICK, 35)
    assert [load.rate_rps for load in found] == [round(LIGHT * 35 / DECADE**4)] == [4]


@given(
    st.dictionaries(st.sampled_from("abcdef"), st.floats(10, 1e6), min_size=2),
    st.sampled_from(list(Mode)),
    st.integers(1, 64),
)
def test_every_load_is_one_of_the_grid_that_two_arms_reach(
    capacities: dict[str, float], mode: Mode, cores: int
) -> None:
    found = loads(capacities, tuple(capacities), mode, cores)
    rates = [load.rate_rps or 0 for load in found]
    assert rates == sorted(set(rates))
    known = {rate for rate, _ in LOADS[mode]}
    for load in found:
        here = arms_reaching(load, capacities, tuple(capacities))
        assert len(here) >= 2
        assert all((load.rate_rps or 0) <= LOAD_MAX * capacities[name] for name in here)
        assert any((load.rate_rps or 0) == round(rate * cores / DECADE**d) for rate in known
                   for d in range(7))  # fmt: skip


@given(st.floats(20_000, 40_000), st.floats(-0.02, 0.02))
def test_a_pilot_that_errs_does_not_move_a_load(capacity: float, error: float) -> None:
    """It can only add or take one whose rate lies at nine tenths of the capacity."""
    right = {load.rate_rps for load in loads({"a": capacity, "b": 1e6}, "ab", Mode.QUICK, 1)}
    pilot = {"a": capacity * (1 + error), "b": 1e6}
    wrong = {load.rate_rps for load in loads(pilot, "ab", Mode.QUICK, 1)}
    for rate in right ^ wrong:
        assert rate is not None
        assert abs(rate / (LOAD_MAX * capacity) - 1) <= 0.03


def test_who_reaches_a_load() -> None:
    heavy = Load(rate_rps=20_000, level=LoadLevel.HEAVY)
    assert arms_reaching(heavy, CAPACITIES, NAMES) == ("floor", "nginx", "node")
    edge = {"a": 20_000 / LOAD_MAX, "b": 20_000 / LOAD_MAX - 1}
    assert arms_reaching(heavy, edge, ("a", "b")) == ("a",)
    assert arms_reaching(heavy, {}, ("a", "b")) == ("a", "b"), "no arm is excluded without a pilot"
    assert arms_reaching(FULL_LOAD, {"a": 1.0}, ("a", "b")) == ("a", "b")


def test_a_load_is_named_by_its_rate_and_level() -> None:
    assert Load(rate_rps=5_000, level=LoadLevel.MEDIUM).text == "5,000 requests/s (medium load)"
    assert Load(rate_rps=700, level=LoadLevel.GIVEN).text == "700 requests/s"
    assert FULL_LOAD.text == "full load (closed loop)"
