"""The boundaries are those of simulated campaigns, and keep the error at every look."""

import math

import numpy as np
import pytest
from scipy import special, stats  # type: ignore[import-untyped]

from jissoku.inference import estimate
from jissoku.inference.estimate import Looks

# Simulated with 400,000 campaigns (docs/METHODOLOGY.md, "Looks after every block").
LONG = {
    3: 8.49, 4: 7.60, 5: 6.19, 6: 5.29, 7: 4.75, 8: 4.40, 9: 4.14, 12: 3.45, 15: 3.23, 20: 2.97,
    25: 2.86, 30: 2.80, 40: 2.62,
}  # fmt: skip
SHORT = {3: 6.51, 4: 5.56, 5: 4.62, 6: 4.03, 7: 3.68, 8: 3.45, 9: 3.28}


@pytest.mark.parametrize(("table", "horizon"), [(SHORT, 9), (LONG, 40)])
def test_the_boundaries_are_the_simulated_ones(table: dict[int, float], horizon: int) -> None:
    found = estimate.boundaries(tuple(table), horizon, 0.05)
    assert found == {n: pytest.approx(bound, rel=0.012) for n, bound in table.items()}


def statistics(horizon: int, campaigns: int, *, heavy: bool = False) -> np.ndarray:
    """|t| of each campaign (rows) after each number of blocks (columns)."""
    rng = np.random.default_rng(horizon)
    size = campaigns, horizon
    blocks = rng.standard_t(4, size) if heavy else rng.standard_normal(size)
    n = np.arange(1, horizon + 1)
    means = np.cumsum(blocks, 1) / n
    variances = (np.cumsum(blocks**2, 1) - n * means**2) / np.maximum(n - 1, 1)
    return np.abs(means) / np.sqrt(np.maximum(variances, 1e-300) / n)


def alarms(t: np.ndarray, horizon: int, alpha: float) -> float:
    """Part of the campaigns that cross a boundary at any look."""
    bounds = [estimate.critical(n, horizon, alpha) for n in range(1, horizon + 1)]
    return float((t > bounds).any(axis=1).mean())


@pytest.mark.parametrize("horizon", [3, 6, 9, 20])
@pytest.mark.parametrize("alpha", [0.1, 0.05, 0.01])
def test_equal_arms_are_called_different_as_often_as_the_level_says(
    horizon: int, alpha: float
) -> None:
    campaigns = 20_000
    share = alarms(statistics(horizon, campaigns), horizon, alpha)
    assert share == pytest.approx(alpha, abs=4 * math.sqrt(alpha / campaigns))


def test_heavy_tails_cause_no_more_alarms() -> None:
    assert alarms(statistics(9, 20_000, heavy=True), 9, 0.05) < 0.05


def test_a_run_of_one_look_is_students_t() -> None:
    expected = stats.t.ppf(1 - 0.05 / 2, 2)
    assert estimate.critical(3, 3, 0.05) == pytest.approx(expected)


@pytest.mark.parametrize("horizon", [9, 40])
def test_a_p_value_is_the_level_whose_boundary_is_met(horizon: int) -> None:
    for blocks in (3, 5, 9):
        for alpha in estimate.ALPHAS[1:]:
            t = estimate.critical(blocks, horizon, alpha)
            assert estimate.p_value(t, blocks, horizon) == pytest.approx(alpha, rel=0.02)
        assert estimate.p_value(0.1, blocks, horizon) == 1.0
        nominal = 2 * special.stdtr(blocks - 1, -1e4)
        assert nominal < estimate.p_value(1e4, blocks, horizon) <= 1e-4
    assert estimate.p_value(1e9, 2, horizon) == 1.0


def test_p_values_fall_with_the_distance() -> None:
    found = [estimate.p_value(t, 5, 9) for t in np.linspace(0, 400, 500)]
    assert found == sorted(found, reverse=True)


def test_what_was_shown_at_a_look_stays_shown() -> None:
    looks = Looks(9)
    logs = [0.70, 0.72, 0.68, -0.9, 2.3]
    early, late = looks.p_value(logs[:3]), looks.p_value(logs)
    assert early == late < 0.05
    assert Looks().p_value(logs) > 0.05


def test_equality_is_shown_by_two_one_sided_tests() -> None:
    for looks in (Looks(), Looks(9)):
        assert looks.p_equal([0.001, -0.001, 0.0, 0.002, -0.002, 0.001, 0.0], 0.02) < 0.01
        assert looks.p_equal([0.03, 0.029, 0.031, 0.03, 0.032, 0.028, 0.03], 0.02) > 0.9


def test_an_interval_of_a_look_has_its_boundary() -> None:
    found = Looks(9).interval(0.1, 0.02, 4, 0.95)
    half = estimate.critical(4, 9, 0.05) * 0.02 / 2
    assert (found.low, found.high) == pytest.approx((0.1 - half, 0.1 + half))
    assert math.isinf(Looks(9).interval(0.1, 0.02, 2).high)
