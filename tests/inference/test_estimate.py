"""Intervals have their nominal coverage at every look, and exact methods agree with enumeration."""

import itertools
import math
import random

import numpy as np
import pytest
from hypothesis import assume, given, strategies as st
from scipy import special, stats  # type: ignore[import-untyped]

from jissoku.inference import decision, estimate
from jissoku.inference.estimate import Company, Looks, Spread

LOGS = st.lists(st.floats(-1, 1, allow_nan=False), min_size=6, max_size=12)


def test_the_t_interval_is_the_one_of_scipy() -> None:
    logs = [0.01, 0.03, -0.01, 0.02, 0.015, 0.0]
    ours = estimate.t_interval(logs, 0.9)
    mean, sem = sum(logs) / 6, float(stats.sem(logs))
    assert (ours.low, ours.high) == pytest.approx(stats.t.interval(0.9, 5, mean, sem))


@pytest.mark.parametrize("logs", [[], [0.1]])
def test_no_interval_is_had_from_fewer_than_two_blocks(logs: list[float]) -> None:
    with pytest.raises(ValueError, match="at least 2"):
        estimate.t_interval(logs)
    assert estimate.geometric_mean(logs) is None


def test_equal_blocks_have_no_spread_and_no_doubt() -> None:
    assert estimate.Looks().p_value([0.25] * 6) == 0.0
    assert estimate.Looks().p_value([0.0] * 6) == 1.0
    assert estimate.t_interval([0.25] * 6).low == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("blocks", "confidence", "left_out"),
    # Quantiles of the signed-rank statistic: Hollander, Wolfe and Chicken, table A.4.
    [(6, 0.95, 1), (9, 0.95, 6), (10, 0.95, 9), (6, 0.90, 3), (10, 0.90, 11)],
)
def test_the_wilcoxon_interval_leaves_out_what_the_tables_say(
    blocks: int, confidence: float, left_out: int
) -> None:
    logs = [float(3**i) for i in range(blocks)]
    walsh = sorted((a + b) / 2 for i, a in enumerate(logs) for b in logs[i:])
    found = estimate.hodges_lehmann(logs, confidence)
    assert found is not None
    assert (found.low, found.high) == (walsh[left_out - 1], walsh[-left_out])


def test_five_blocks_give_no_exact_interval() -> None:
    assert estimate.hodges_lehmann([0.1, 0.2, 0.3, 0.4, 0.5]) is None


def _flips(logs: list[float]) -> float:
    seen = abs(sum(logs)) - 1e-9 * sum(map(abs, logs))
    signs = list(itertools.product((1, -1), repeat=len(logs)))
    hits = sum(abs(sum(s * x for s, x in zip(row, logs, strict=True))) >= seen for row in signs)
    return hits / len(signs)


@pytest.mark.slow
@given(LOGS)
def test_sign_flips_are_counted_exactly(logs: list[float]) -> None:
    assert estimate.sign_flip(logs) == pytest.approx(_flips(logs))


def test_the_smallest_sign_flip_p_of_nine_blocks() -> None:
    assert estimate.sign_flip([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]) == 2 / 2**9


def test_beyond_thirty_blocks_sign_flips_are_not_counted() -> None:
    assert estimate.sign_flip([0.1] * 30) is not None
    assert estimate.sign_flip([0.1] * 31) is None


@pytest.mark.slow
@given(LOGS)
def test_the_p_value_is_the_one_of_scipy(logs: list[float]) -> None:
    assume(max(logs) - min(logs) > 1e-6)
    assert estimate.Looks().p_value(logs) == pytest.approx(
        stats.ttest_1samp(logs, 0).pvalue, abs=1e-9
    )


@pytest.mark.slow
@given(LOGS, LOGS)
def test_two_samples_are_compared_as_scipy_does(ours: list[float], theirs: list[float]) -> None:
    assume(max(ours) - min(ours) > 1e-6)
    expected = stats.ttest_ind(ours, theirs, equal_var=False).pvalue
    assert estimate.welch(ours, theirs) == pytest.approx(expected, abs=1e-9)


@given(LOGS)
def test_a_trend_is_the_slope_of_scipy(logs: list[float]) -> None:
    assume(max(logs) - min(logs) > 1e-6)
    expected = stats.linregress(range(len(logs)), logs).pvalue
    assert estimate.trend(logs) == pytest.approx(expected, abs=1e-9)


def test_a_perfect_line_is_a_trend_and_a_level_is_none() -> None:
    assert estimate.trend([1.0, 2.0, 3.0]) == pytest.approx(0.0, abs=1e-6)
    assert estimate.trend([1.0, 1.0, 1.0]) == 1.0


def test_constant_samples_are_alike_or_not() -> None:
    assert estimate.welch([1.0, 1.0], [1.0, 1.0, 1.0]) == 1.0
    assert estimate.welch([1.0, 1.0], [2.0, 2.0]) == 0.0


@given(LOGS)
def test_exchanging_the_arms_mirrors_the_interval(logs: list[float]) -> None:
    for method in (estimate.t_interval, estimate.hodges_lehmann):
        one, other = method(logs), method([-x for x in logs])
        assert one is not None
        assert other is not None
        assert (one.low, one.high) == pytest.approx((-other.high, -other.low), abs=1e-12)


def test_an_outlier_is_reported() -> None:
    assert estimate.outliers([0.01, 0.012, 0.011, 0.009, 0.010, 0.5]) == (5,)
    assert estimate.outliers([0.01, 0.02, 0.03, 0.04, 0.05, 0.06]) == ()


@pytest.mark.parametrize("blocks", [6, 9, 20])
def test_intervals_cover_the_truth_as_often_as_they_promise(blocks: int) -> None:
    rng = random.Random(2026)
    rounds, covered, covered_robust = 1000, 0, 0
    for _ in range(rounds):
        logs = [rng.gauss(0.02, 0.01) for _ in range(blocks)]
        ours, robust = estimate.t_interval(logs), estimate.hodges_lehmann(logs)
        assert robust is not None
        covered += ours.low <= 0.02 <= ours.high
        covered_robust += robust.low <= 0.02 <= robust.high
    # 95 % of 1000 is 950 +- 7; five deviations are allowed.
    assert covered == pytest.approx(0.95 * rounds, abs=35)
    assert covered_robust >= 0.95 * rounds - 35


def objections(blocks: int, spread: float, shift: float = 0.0) -> float:
    """How often a check of some blocks objects at 1 % to a ratio of 12 blocks."""
    rng = np.random.default_rng(blocks)
    ours = rng.normal(0, 1, (400, 12))
    theirs = rng.normal(shift, spread, (400, blocks))
    pairs = zip(ours.tolist(), theirs.tolist(), strict=True)
    return sum(not decision.agrees(*pair, comparisons=1) for pair in pairs) / len(ours)


@pytest.mark.parametrize(("blocks", "spread"), [(2, 1.0), (2, 2.7), (3, 2.7), (6, 2.7), (6, 5.0)])
def test_a_check_of_few_blocks_seldom_objects_to_an_equal_ratio(blocks: int, spread: float) -> None:
    assert objections(blocks, spread) <= 0.025


def test_a_spread_known_from_few_values_seldom_objects_to_an_equal_ratio() -> None:
    rng = np.random.default_rng(6)
    rounds, spread, values = 400, 8.0, 6
    objected = 0
    for _ in range(rounds):
        changes = rng.normal(0, spread, values).tolist()
        known = estimate.Spread(estimate.mean_and_sd(changes)[1], values - 1)
        ours, theirs = rng.normal(0, 1, 20).tolist(), rng.normal(0, spread, 2).tolist()
        objected += not decision.agrees(ours, theirs, 1, known)
    assert objected <= 0.025 * rounds


def test_the_better_a_spread_is_known_the_smaller_a_difference_is_noticed() -> None:
    # Two blocks of one program alone, in a run whose baseline changed by 4.5 % within its blocks.
    ours = [0.0177 + sign * 0.006 for sign in (-1, 1)] * 10
    theirs = [-0.087, -0.097]
    assert decision.agrees(ours, theirs, 1, estimate.Spread(0.045, 5))
    assert not decision.agrees(ours, theirs, 1, estimate.Spread(0.045, 50))


def test_a_check_of_two_blocks_notices_a_large_difference() -> None:
    assert objections(2, 1.0, shift=27.0) >= 0.9


# Simulated with 400,000 campaigns (docs/METHODOLOGY.md, "Looks after every block").
LONG = {3: 8.49, 4: 7.60, 5: 6.19, 6: 5.29, 7: 4.75, 8: 4.40, 9: 4.14}
SHORT = {3: 6.51, 4: 5.56, 5: 4.62, 6: 4.03, 7: 3.68, 8: 3.45, 9: 3.28}


@pytest.mark.parametrize(("table", "horizon"), [(SHORT, 9), (LONG, 40)])
def test_the_boundaries_are_the_simulated_ones(table: dict[int, float], horizon: int) -> None:
    found = estimate.boundaries(horizon, 0.05)
    assert list(found) == list(range(estimate.FIRST_LOOK, horizon + 1))
    for blocks, bound in table.items():
        assert found[blocks] == pytest.approx(bound, rel=0.012)


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
    found = Looks(9).interval(0.1, Spread(0.02, 3), 4, 0.95)
    half = estimate.critical(4, 9, 0.05) * 0.02 / 2
    assert (found.low, found.high) == pytest.approx((0.1 - half, 0.1 + half))
    assert math.isinf(Looks(9).interval(0.1, Spread(0.02, 1), 2).high)


def company(arms: np.ndarray) -> tuple[dict[int, float], Company]:
    """The logarithms of the first two of some arms (rows), and what the trials say beside."""
    sums, others = arms[0] + arms[1], tuple(dict(enumerate(row)) for row in arms[2:])
    return dict(enumerate(arms[0] - arms[1])), Company(dict(enumerate(sums)), others)


def arms_of(seed: int, sds: list[float], blocks: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.array(sds)[:, None] * rng.standard_normal((len(sds), blocks))


def test_what_a_block_changes_in_all_arms_is_no_spread() -> None:
    arms = arms_of(1, [0.05] * 6, 5)
    logs, known = company(arms)
    _, beside = company(arms + np.array([0.0, 0.4, -0.2, 0.1, 0.9]))
    first, second = (one.spread(logs, range(5)) for one in (known, beside))
    assert (first.sd, first.freedom) == pytest.approx((second.sd, second.freedom))


def test_two_arms_that_vary_alike_have_more_degrees_of_freedom_than_their_ratio() -> None:
    found = [company(arms_of(seed, [0.05] * 7, 5)) for seed in range(200)]
    spreads = [known.spread(logs, range(5)) for logs, known in found]
    assert 5.5 < np.mean([one.freedom for one in spreads]) <= 7.2
    # The median of the others has an error, too, which only widens.
    assert 0.05**2 * 2 < np.mean([one.sd**2 for one in spreads]) < 0.05**2 * 3


def test_one_arm_that_varies_alone_has_those_of_its_ratio() -> None:
    logs, known = company(arms_of(3, [0.05, *[0.0] * 6], 5))
    found, own = known.spread(logs, range(5)), estimate.own_spread(list(logs.values()))
    assert (found.sd, found.freedom) == pytest.approx((own.sd, own.freedom))


def test_too_few_other_arms_or_blocks_with_them_say_nothing() -> None:
    logs, known = company(arms_of(4, [0.05] * 4, 5))
    own = estimate.own_spread(list(logs.values()))
    assert known.spread(logs, range(5)) == own
    logs, known = company(arms_of(5, [0.05] * 6, 5))
    own = estimate.own_spread(list(logs.values()))
    early = tuple({block: one[block] for block in (0, 1)} for one in known.others)
    assert Company(known.sums, early).spread(logs, range(5)) == own
    later = tuple({block: one[block] for block in (0, 2, 4)} for one in known.others)
    assert own.freedom < Company(known.sums, later).spread(logs, range(5)).freedom


def test_other_arms_count_at_each_look_of_a_run_that_has_several() -> None:
    logs, known = company(arms_of(6, [0.05] * 7, 12))
    found = Looks(9).spreads(logs, known)
    assert set(found) == set(range(3, 10))
    assert found[4] == known.spread(logs, range(4))
    assert Looks(9).spreads(logs, None) == Looks().spreads(logs, known) == {}


@pytest.mark.slow
@pytest.mark.parametrize("sds", [[1.0] * 7, [4.0, 4.0, 4.0, 1.0, 1.0, 1.0, 1.0], [4.0] + [1.0] * 6])
@pytest.mark.parametrize("pair", [(0, 1), (0, 6), (5, 6)])
def test_equal_arms_in_company_are_called_different_no_more_often(
    sds: list[float], pair: tuple[int, int]
) -> None:
    """Also where both arms, or one of them, vary four times as much as the others."""
    order = [*pair, *(arm for arm in range(7) if arm not in pair)]
    campaigns, alarms, off = 1500, 0, 0
    for seed in range(campaigns):
        logs, known = company(arms_of(seed, [sds[arm] for arm in order], 6))
        values, spreads = tuple(logs.values()), Looks(6).spreads(logs, known)
        alarms += Looks(6).p_value(values, spreads=spreads) <= 0.05
        found = [Looks(6).interval(float(np.mean(values[:n])), spreads[n], n) for n in spreads]
        off += any(not one.low <= 0 <= one.high for one in found)
    for seen in (alarms, off):
        assert seen <= stats.binom.isf(1e-3, campaigns, 0.05)
