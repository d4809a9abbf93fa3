import pytest
from hypothesis import given, strategies as st

from jissoku.design.rate import LOAD_MAX, RATE_MAX_RPS, common_rates, rounded


@pytest.mark.parametrize(
    ("rate", "readable"),
    [
        (0.3, 1),
        (1, 1),
        (9.9, 9),
        (10, 10),
        (99, 80),
        (1234, 1200),
        (29_999, 25_000),
        (30_000, 30_000),
    ],
)
def test_rates_are_rounded_down_to_what_people_read(rate: float, readable: int) -> None:
    assert rounded(rate) == readable


@given(st.floats(min_value=1, max_value=1e7))
def test_rounding_never_raises_a_rate_and_never_halves_it(rate: float) -> None:
    assert rate / 2 < rounded(rate) <= rate


def test_arms_of_one_class_get_one_rate() -> None:
    capacities = {"floor": 150_000.0, "nginx": 90_000.0, "node": 30_000.0}
    rates = common_rates(capacities, [("nginx", "floor"), ("node", "floor")])
    assert rates == {("nginx", "floor"): 10_000, ("node", "floor"): 10_000}


def test_a_very_slow_arm_does_not_drag_the_others_down() -> None:
    capacities = {"floor": 150_000.0, "nginx": 90_000.0, "sleepy": 2_000.0}
    rates = common_rates(capacities, [("nginx", "floor"), ("sleepy", "floor")])
    assert rates == {("nginx", "floor"): RATE_MAX_RPS, ("sleepy", "floor"): 600}


def test_an_arm_that_failed_its_pilot_has_no_rate() -> None:
    assert common_rates({"floor": 1e5}, [("dead", "floor")]) == {}


@given(
    st.dictionaries(
        st.sampled_from("abcdef"), st.floats(min_value=10, max_value=1e6), min_size=2, max_size=6
    )
)
def test_no_arm_is_loaded_beyond_its_share(capacities: dict[str, float]) -> None:
    first, *others = capacities
    for pair, rate in common_rates(capacities, [(name, first) for name in others]).items():
        assert rate <= max(1, LOAD_MAX * min(capacities[name] for name in pair))
