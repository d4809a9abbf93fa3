"""The capacity search, with servers of known capacity."""

import math

import pytest
from hypothesis import given, strategies as st

from jissoku.design.schedule import (
    FIRST_OF_CLOSED_LOOP,
    GAP_MAX,
    STEP_FACTOR,
    STEPS_MAX,
    highest_met,
    next_rate,
)
from jissoku.model import CapacityStep


def search(capacity: int, first: int) -> list[CapacityStep]:
    """Every step, where rates up to `capacity` meet the objective and no others do."""
    steps: list[CapacityStep] = []
    while (rate := next_rate(steps, first)) is not None:
        steps.append(CapacityStep(rate_rps=rate, is_met=rate <= capacity))
        assert len(steps) <= STEPS_MAX
    return steps


@given(st.integers(1_000, 1_000_000), st.floats(0.1, 10.0))
def test_any_capacity_within_ten_times_of_the_first_rate_is_found(
    capacity: int, off: float
) -> None:
    steps = search(capacity, round(capacity * off))
    rate = highest_met(steps)
    assert rate is not None
    assert rate <= capacity < rate * GAP_MAX + 1, "never too high, and hardly too low"


@given(st.integers(1_000, 1_000_000), st.floats(0.9, 1.1))
def test_near_the_closed_loops_rate_a_few_steps_are_enough(capacity: int, off: float) -> None:
    assert len(search(capacity, round(FIRST_OF_CLOSED_LOOP * off * capacity))) <= 6


@pytest.mark.parametrize("capacity", range(1, 61))
def test_small_rates_are_distinguished_one_by_one(capacity: int) -> None:
    for first in range(1, 61):
        rate = highest_met(search(capacity, first))
        assert rate is not None, first
        assert rate <= capacity <= max(rate + 1, math.ceil(rate * GAP_MAX)), first


@given(st.integers(0, 1_000_000), st.integers(1, 1_000_000))
def test_it_ends(capacity: int, first: int) -> None:
    steps = search(capacity, first)
    assert 1 <= len(steps) <= STEPS_MAX
    assert len({step.rate_rps for step in steps}) == len(steps), "no rate is tried twice"


def test_it_climbs_then_goes_between() -> None:
    rates = [step.rate_rps for step in search(10_500, 8_500)]
    assert rates[:2] == [8_500, round(8_500 * STEP_FACTOR)]
    assert rates[2] > 10_500
    assert sorted(rates[3:]) == [rate for rate in sorted(rates) if rate in rates[3:]]
    assert all(rates[1] < rate < rates[2] for rate in rates[3:])


def test_an_objective_that_no_rate_meets_has_no_capacity() -> None:
    assert highest_met(search(0, 20)) is None
    assert highest_met([]) is None


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([(100, True), (200, False)], 100),
        ([(100, False), (50, True)], 50),
        ([(100, True), (90, False), (80, True)], 80),  # the lowest violated rate decides
        ([(100, True), (90, False)], None),
    ],
)
def test_what_was_met_above_a_rate_that_was_not_does_not_count(
    steps: list[tuple[int, bool]], expected: int | None
) -> None:
    made = [CapacityStep(rate_rps=rate, is_met=is_met) for rate, is_met in steps]
    assert highest_met(made) == expected
