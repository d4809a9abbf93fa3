"""Formatted numbers, as tables."""

import pytest
from hypothesis import given, strategies as st

from jissoku.model import Estimate, wording
from jissoku.report import format as fmt, svg

MICRO = "\N{MICRO SIGN}s"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, "0"),
        (1, "1.00"),
        (0.01234, "0.0123"),
        (1234, "1,230"),
        (9.999, "10.0"),
        (112_345, "112,000"),
    ],
)
def test_three_digits(value: float, expected: str) -> None:
    assert fmt.significant(value) == expected


@pytest.mark.parametrize(
    ("ns", "expected"),
    [(197, "197 ns"), (999.9, f"1.00 {MICRO}"), (4930, f"4.93 {MICRO}"), (231_000, f"231 {MICRO}"),
     (1_500_000, "1.50 ms"), (999_900_000, "1.00 s"), (2.5e9, "2.50 s")],
)  # fmt: skip
def test_durations(ns: float, expected: str) -> None:
    assert fmt.duration(ns) == expected


@pytest.mark.parametrize(
    ("count", "expected"), [(512, "512 B"), (2048, "2.00 KiB"), (71_000_000, "67.7 MiB")]
)
def test_sizes(count: int, expected: str) -> None:
    assert fmt.size(count) == expected


@pytest.mark.parametrize(
    ("value", "low", "high", "expected"),
    [
        (1.31, 1.28, 1.34, "1.31 [1.28, 1.34]"),
        (1.002, 0.998, 1.006, "1.002 [0.998, 1.006]"),
        (43.06, 23.7, 78.4, "43.1 [23.7, 78.4]"),
        (0.02318, 0.0128, 0.0422, "0.023 [0.013, 0.042]"),
        (7060, 6810, 7300, "7060 [6810, 7300]"),
    ],
)
def test_an_interval_has_the_decimals_that_it_justifies(
    value: float, low: float, high: float, expected: str
) -> None:
    estimate = Estimate(value=value, low=low, high=high, blocks=9, sd_log=0.01)
    assert estimate.text == expected


def test_the_inverse_of_a_ratio_is_seen_from_the_other_side() -> None:
    estimate = Estimate(value=2.0, low=1.6, high=2.5, blocks=9, sd_log=0.1)
    other = estimate.inverse
    assert (other.value, other.low, other.high) == (0.5, 0.4, 0.625)
    assert other.half_width == pytest.approx(estimate.half_width)


POSITIVE = st.lists(st.floats(1e-3, 1e9), min_size=1, max_size=8)


@pytest.mark.slow
@pytest.mark.parametrize("from_zero", [False, True])
@given(values=POSITIVE)
def test_an_axis_holds_its_values_and_has_ticks_inside(
    values: list[float],
    *,
    from_zero: bool,
) -> None:
    found = svg.scale(values, str, from_zero=from_zero)
    assert found.low <= min(values)
    assert max(values) <= found.high
    assert all(0 <= found.at(value) <= 1 for value in values)
    slack = 1e-9 * (abs(found.low) + abs(found.high))
    assert all(found.low - slack <= tick.value <= found.high + slack for tick in found.ticks)
    assert len(found.ticks) <= 13


@pytest.mark.parametrize(
    ("ns", "text", "cell"),
    [(14_200, f"14.2 {MICRO}", "14.20"), (999_999_000, f"999,999.0 {MICRO}", "999,999.00"),
     (1.5e9, "1.5 s", "1.50 s"), (-2e9, "-2.0 s", "-2.00 s")],
)  # fmt: skip
def test_a_million_microseconds_are_a_second(ns: float, text: str, cell: str) -> None:
    assert (wording.micro_text(ns), wording.micro_cell(ns)) == (text, cell)
    estimate = Estimate(value=1.5e9, low=1.4e9, high=1.6e9, blocks=9, sd_log=0.1)
    assert fmt.micro(estimate) == "1.50 [1.40, 1.60] s"
