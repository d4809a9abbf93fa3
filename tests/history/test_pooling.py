"""Pooling over occasions: against a published implementation, and simulated with known truth."""

import math
import random

import numpy as np
import pytest
from statsmodels.stats.meta_analysis import combine_effects  # type: ignore[import-untyped]

from jissoku.inference.pooling import (
    TAU_ASSUMED,
    LogRatio,
    is_confirmed,
    log_ratio,
    next_machine,
    pool,
    tau_of_unchanged,
    within_occasions,
)

TRUTH = math.log(1.3)


def measured(rng: random.Random, tau: float, *, mean: float = TRUTH, sd: float = 0.015) -> LogRatio:
    shift = rng.gauss(0, tau)
    found = log_ratio([mean + shift + rng.gauss(0, sd) for _ in range(9)])
    assert found is not None
    return found


@pytest.mark.parametrize("seed", range(6))
def test_the_mean_is_that_of_a_published_implementation(seed: int) -> None:
    rng = random.Random(seed)
    found = [measured(rng, 0.01) for _ in range(3 + seed)]
    ours = pool(found)
    assert ours is not None
    # In thousandths: its tolerance for the variance between studies is absolute.
    known = combine_effects(
        1000 * np.array([one.mean for one in found]),
        1e6 * np.array([one.variance for one in found]),
        method_re="pm",
        use_t=True,
    )
    assert ours.mean == pytest.approx(known.mean_effect_re / 1000, abs=1e-6)
    assert ours.tau**2 == pytest.approx(known.tau2 / 1e6, abs=1e-8)
    half = (ours.high - ours.low) / 2
    plain = known.sd_eff_w_re / 1000
    from_t = {3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 7: 2.447, 8: 2.365}[len(found)]
    assert half == pytest.approx(from_t * max(plain, known.sd_eff_w_re_hksj / 1000), rel=2e-3)


@pytest.mark.slow
@pytest.mark.parametrize("occasions", [3, 5, 10])
@pytest.mark.parametrize("tau", [0.005, 0.01, 0.03])
def test_the_interval_covers_the_truth(occasions: int, tau: float) -> None:
    rng = random.Random(occasions * 1000 + round(tau * 1000))
    hits = ahead = 0
    for _ in range(400):
        found = pool([measured(rng, tau) for _ in range(occasions)])
        assert found is not None
        hits += found.low <= TRUTH <= found.high
        ahead += found.next_low <= TRUTH + rng.gauss(0, tau) <= found.next_high
    # 400 simulations of a true 0.95 lie within 0.917 and 0.983 in 999 of 1000 cases. Where tau is
    # no larger than the error of one occasion, the factor that never falls below 1 makes it wider.
    assert hits / 400 >= 0.917
    assert hits / 400 <= (0.983 if tau > 0.01 else 1.0)
    assert ahead / 400 >= 0.90


def test_without_variance_between_occasions_the_interval_is_not_too_narrow() -> None:
    rng = random.Random(7)
    found = [pool([measured(rng, 0.0) for _ in range(5)]) for _ in range(400)]
    assert sum(one is not None and one.low <= TRUTH <= one.high for one in found) >= 375


def test_one_occasion_is_not_pooled() -> None:
    assert pool([measured(random.Random(1), 0.0)]) is None


@pytest.mark.parametrize("tau", [0.005, 0.02])
def test_tau_is_found_from_unchanged_pairs(tau: float) -> None:
    rng = random.Random(3)
    pairs = []
    for _ in range(200):
        one, two = (measured(rng, tau, mean=0.0) for _ in range(2))
        pairs.append(LogRatio(two.mean - one.mean, one.variance + two.variance, 16))
    found = tau_of_unchanged(pairs, 200.0)
    assert found.value == pytest.approx(tau, rel=0.25)
    assert (found.pairs, found.freedom) == (200, 200.0)


def test_tau_is_assumed_from_few_pairs() -> None:
    assert tau_of_unchanged([LogRatio(0.5, 1e-6, 8)] * 4, 4.0).value == TAU_ASSUMED


def test_equal_values_have_no_variance_between_them() -> None:
    found = pool([LogRatio(0.1, 0.0, 8)] * 3)
    assert found is not None
    assert found.mean == pytest.approx(0.1)
    assert found.tau == 0.0


def test_runs_of_one_occasion_count_once() -> None:
    mean, variance, freedom = (
        np.array(column) for column in ([0.0, 0.02, 7.0], [1e-4, 1e-4, 3e-4], [8, 8, 5])
    )
    both, alone = within_occasions(mean, variance, freedom, [0, 2])
    assert both.mean == pytest.approx(0.01)
    assert both.variance == pytest.approx(5e-5)
    assert both.freedom == 16
    assert alone.mean == pytest.approx(7.0)
    assert alone.variance == pytest.approx(3e-4)


def test_a_claim_needs_two_occasions_that_agree() -> None:
    up, down, flat = (LogRatio(mean, 1e-6, 8).change for mean in (0.1, -0.1, 0.0))
    assert is_confirmed([up, up])
    assert not is_confirmed([up])
    assert not is_confirmed([up, down])
    assert not is_confirmed([up, flat])
    assert not is_confirmed([flat, flat])


def test_another_machine_is_predicted_from_four_on() -> None:
    machines = [LogRatio(mean, 1e-6, 8) for mean in (0.1, 0.2, 0.3, 0.4)]
    assert next_machine(machines[:3]) is None
    found = next_machine(machines)
    assert found is not None
    assert found.next_low < 0.1
    assert found.next_high > 0.4
