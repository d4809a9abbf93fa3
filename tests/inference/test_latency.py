"""Percentiles of trials and of histograms, and capacities."""

import math
import random

import numpy as np
import pytest
from hdrh.histogram import HdrHistogram  # type: ignore[import-untyped]
from hypothesis import assume, given, settings, strategies as st

from jissoku.design.schedule import first_rate, highest_met, next_rate
from jissoku.inference import estimate, latency, summarise
from jissoku.inference.blocks import valid_trials
from jissoku.model import (
    ArmMeasurement,
    Capacity,
    CapacityStep,
    Load,
    LoadLevel,
    Metric,
    Trial,
    TrialKind,
    Workload,
)
from jissoku.model.updated import updated
from tests.inference import factories

FRACTIONS = [0.0, 0.001, 0.1, 0.25, 0.5, 0.9, 0.99, 0.999, 1.0]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("count", [1, 10, 300])
def test_percentiles_are_those_of_the_library(seed: int, count: int) -> None:
    rng = random.Random(seed)
    whole = HdrHistogram(1, 60_000_000_000, 3)
    for _ in range(count):
        whole.record_value(int(10 ** rng.uniform(0, 10.5)))
    found = latency.decode(whole.encode().decode())
    assert found.total == whole.get_total_count() == count
    for fraction in FRACTIONS:
        assert found.at(fraction) == whole.get_value_at_percentile(100 * fraction), fraction


@given(st.lists(st.integers(1, 2_000), min_size=1, max_size=60), st.floats(0, 1))
def test_a_percentile_of_few_is_that_of_numpy(values: list[int], fraction: float) -> None:
    """On a logarithmic scale; these values have buckets of their own."""
    whole = HdrHistogram(1, 60_000_000_000, 3)
    for value in values:
        whole.record_value(value)
    found = latency.decode(whole.encode().decode()).between(fraction)
    logs = np.log([whole.get_highest_equivalent_value(value) for value in values])
    expected = np.quantile(logs, fraction, method="median_unbiased")
    assert math.log(found) == pytest.approx(expected, abs=1e-9)


def test_a_histogram_of_another_range_is_read_too() -> None:
    small = HdrHistogram(1, 1_000_000, 2)
    small.record_value(5_000, 10)
    found = latency.decode(small.encode().decode())
    assert found.total == 10
    assert found.at(0.5) == pytest.approx(5_000, rel=0.01)


def test_an_empty_histogram_has_no_percentile() -> None:
    empty = latency.decode(HdrHistogram(1, 60_000_000_000, 3).encode().decode())
    assert (empty.total, empty.at(0.99)) == (0, 0)


LIGHT = Load(rate_rps=1_000, level=LoadLevel.LIGHT)


@pytest.mark.parametrize(
    ("fraction", "requests", "expected"),
    [(0.99, 10_000, True), (0.99, 9_999, False), (0.999, 100_000, True), (0.5, 199, False)],
)
def test_a_hundred_answers_must_lie_above(
    *, fraction: float, requests: int, expected: bool
) -> None:
    assert latency.is_supported(fraction, requests) is expected


def test_each_trial_gives_one_percentile_and_their_logs_are_averaged() -> None:
    measurements = {}
    product = 1.0
    for block, median in enumerate((100_000, 110_000, 130_000)):
        said, blob = factories.histogram(median, 1)
        measurements[block] = factories.arm_measurement(latency_ns=said, histogram=blob)
        product *= said.p50
    found = {one.label: one for one in latency.percentiles(measurements)}
    assert set(found) == {"p50", "p90", "p99", "p99.9"}
    del measurements[2]
    fewer = {one.label for one in latency.percentiles(measurements)}
    assert fewer == {"p50", "p90", "p99"}, "two blocks, none of which supports p99.9 alone"
    p50 = found["p50"]
    assert p50.median_ns == pytest.approx(product ** (1 / 3))
    assert p50.estimate_ns is not None
    assert p50.estimate_ns.value == pytest.approx(product ** (1 / 3))
    assert p50.estimate_ns.blocks == 3


def test_one_trial_has_a_percentile_without_an_interval() -> None:
    (p50, *_) = latency.percentiles({0: factories.arm_measurement()})
    assert p50.estimate_ns is None
    assert p50.median_ns == pytest.approx(factories.arm_measurement().latency_ns.p50)


def test_the_curve_ascends_and_ends_where_support_does() -> None:
    points = latency.curve([factories.arm_measurement()] * 3)
    assert points[0].fraction == 0
    assert points[-1].fraction == pytest.approx(0.995, abs=0.001)
    assert [p.latency_ns for p in points] == sorted(p.latency_ns for p in points)
    at_90 = min(points, key=lambda p: abs(p.fraction - 0.9))
    assert at_90.latency_ns == pytest.approx(factories.arm_measurement().latency_ns.p90, rel=0.01)


def test_nothing_measured_nothing_drawn() -> None:
    assert latency.curve([]) == ()
    assert latency.percentiles({}) == ()


# A block of the light load in quick mode: 0.8 s at 1,000 requests/s.
FEW = 800
MEDIAN_NS, SIGMA = 120_000, 0.35
Z99 = 2.3263478740408408
TRUE_P99_NS = MEDIAN_NS * math.exp(SIGMA * Z99)


def few(rng: np.random.Generator, block_sd: float, blocks: int = 9) -> dict[int, ArmMeasurement]:
    """One measurement per block, each with few responses above its p99."""
    found = {}
    for block in range(blocks):
        shared = rng.normal(0, block_sd)
        values = MEDIAN_NS * np.exp(shared + rng.normal(0, SIGMA, FEW))
        kept = HdrHistogram(1, 60_000_000_000, 3)
        for value in values.astype(int).tolist():
            kept.record_value(value)
        found[block] = factories.arm_measurement(requests=FEW, histogram=kept.encode().decode())
    return found


def test_all_blocks_together_support_what_none_does() -> None:
    measurements = few(np.random.default_rng(1), 0.0)
    logs = latency.log_percentiles(measurements, 0.99)
    assert len(logs) == 9
    value = estimate.geometric_mean(list(logs.values()))
    assert value is not None
    assert value.low < TRUE_P99_NS < value.high
    assert value.half_width < 0.2
    brief = {block: measurements[block] for block in list(measurements)[:6]}
    assert latency.log_percentiles(brief, 0.99) == {}, "48 of 4,800 responses lie above"
    blind = measurements | {4: updated(measurements[4], histogram="")}
    assert latency.log_percentiles(blind, 0.99) == {}
    one_short = measurements | {4: updated(measurements[4], requests=199)}
    assert latency.log_percentiles(one_short, 0.99) == {}, "fewer than two of a block lie above"
    two = {block: updated(measurements[block], requests=9_000) for block in (0, 1)}
    assert latency.log_percentiles(two, 0.99) == {}, "two blocks"


def test_a_percentile_that_is_not_recorded_comes_from_the_histogram() -> None:
    measurement = next(iter(few(np.random.default_rng(5), 0.0).values()))
    true_p95_ns = MEDIAN_NS * math.exp(SIGMA * 1.6448536)
    assert latency.percentile_ns(measurement, 0.95) == pytest.approx(true_p95_ns, rel=0.1)
    assert latency.percentile_ns(updated(measurement, histogram=""), 0.95) == 0


@pytest.mark.slow
@pytest.mark.parametrize("block_sd", [0.0, 0.1, 0.4])
def test_the_interval_of_a_p99_of_few_covers_the_truth(block_sd: float) -> None:
    """With and without blocks that differ as a whole."""
    rng = np.random.default_rng(20)
    truth = math.log(TRUE_P99_NS)
    rounds, covered = 200, 0
    for _ in range(rounds):
        logs = list(latency.log_percentiles(few(rng, block_sd), 0.99).values())
        found = estimate.t_interval(logs)
        covered += found.low <= truth <= found.high
    # 95 % of 200 is 190 +- 3.1; four deviations are allowed below.
    assert covered >= 190 - 4 * 3.1


def stalled(rng: np.random.Generator, blocks: int) -> dict[int, ArmMeasurement]:
    """As beside other programs: in a block now and then, hundreds of responses wait together."""
    found = {}
    for block in range(blocks):
        values = MEDIAN_NS * np.exp(rng.normal(0, SIGMA, 2 * FEW))
        for _ in range(rng.poisson(0.5)):
            late = min(len(values), int(rng.exponential(0.08 * len(values))))
            values[:late] += np.linspace(rng.exponential(60e6), 0, late)
            rng.shuffle(values)
        kept = HdrHistogram(1, 60_000_000_000, 3)
        for value in values.astype(int).tolist():
            kept.record_value(value)
        histogram = kept.encode().decode()
        found[block] = factories.arm_measurement(requests=2 * FEW, histogram=histogram)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("blocks", [4, 9])
def test_equal_servers_that_stall_are_seldom_called_different(blocks: int) -> None:
    """A percentile of all blocks together is that of the worst one, and its spread is not seen."""
    rng = np.random.default_rng(21)
    rounds, wrong = 200, 0
    for _ in range(rounds):
        sides = [latency.log_percentiles(stalled(rng, blocks), 0.99) for _ in range(2)]
        found = estimate.t_interval([sides[0][block] - sides[1][block] for block in sides[0]])
        wrong += found.low > 0 or found.high < 0
    # 5 % of 200 is 10 +- 3.1; four deviations are allowed above.
    assert wrong <= 10 + 4 * 3.1


def test_pairs_are_read_in_the_same_way_on_both_sides() -> None:
    """Of what was recorded where both sides support it; else of the histograms, for both."""
    rng = np.random.default_rng(3)
    slow, fast = few(rng, 0.0), few(rng, 0.0)
    trials = [
        factories.trial(
            TrialKind.TIME_SLICED,
            updated(slow[block], arm="slow", rate_rps_offered=None),
            updated(fast[block], arm="fast", rate_rps_offered=None),
            block=block,
            index=block,
        )
        for block in slow
    ]
    known = valid_trials(trials)
    of_few = latency.log_latency_ratios(known, Metric.P99, "slow", "fast")
    ours, theirs = (latency.log_percentiles(side, 0.99) for side in (slow, fast))
    assert of_few == {block: ours[block] - theirs[block] for block in ours}
    whole = latency.log_latency_ratios(known, Metric.P50, "slow", "fast")
    assert set(whole.values()) == {0.0}, "each block's own, which are all the same here"


def searched(block: int, arm: str, capacity: float, near: float) -> Trial:
    """A search of a target that meets its objective up to a rate."""
    seed = block * 2 + (arm == "b")
    steps: list[CapacityStep] = []
    while (rate := next_rate(steps, first_rate(near, seed))) is not None:
        steps.append(CapacityStep(rate_rps=rate, is_met=rate <= capacity))
    found = Capacity(objective="p99<10ms", rate_rps=highest_met(steps), steps=tuple(steps))
    kept = factories.trial(TrialKind.CAPACITY, arms=(arm,), capacity=found, block=block)
    return updated(kept, index=seed, workload=Workload(rate_rps=None))


@settings(max_examples=60)
@given(st.floats(1.5, 200_000), st.floats(0.2, 5.0), st.integers(0, 1000), st.integers(3, 9))
def test_no_capacity_ratio_has_an_interval_narrower_than_its_steps(
    capacity: float, ratio: float, first: int, blocks: int
) -> None:
    """Not even if every search says the same; and it holds the true ratio."""
    assume(capacity * ratio >= 1.5)
    run = factories.sliced(["a", "b"], objective="p99<10ms", horizon=9)
    trials = [
        searched(first + block, arm, true, true)
        for block in range(blocks)
        for arm, true in (("a", capacity), ("b", capacity * ratio))
    ]
    summary = summarise(run, trials)
    (pair,) = summary.by(Metric.CAPACITY)
    assert pair.ratio is not None
    step = latency.search_resolution(trials, "b", "a")
    assert step > 0
    assert math.log(pair.ratio.high / pair.ratio.low) >= 2 * step - 1e-9
    for known in summary.arm_summaries:
        assert known.capacity_rps is not None
        assert known.capacity_rps.low < known.capacity_rps.high


def test_intervals_of_capacity_ratios_hold_the_true_ratio() -> None:
    run = factories.sliced(["a", "b"], objective="p99<10ms", horizon=9)
    missed = 0
    for case in range(200):
        true = {"a": 20_000.0, "b": 20_000.0 * 1.01 ** (case % 40)}
        trials = [
            searched(1000 * case + block, arm, capacity, capacity)
            for block in range(3 + case % 7)
            for arm, capacity in true.items()
        ]
        (pair,) = summarise(run, trials).by(Metric.CAPACITY)
        assert pair.ratio is not None
        missed += not pair.ratio.low <= true["b"] / true["a"] <= pair.ratio.high
    assert missed <= 10


def test_a_capacity_far_from_another_is_proven_by_three_searches() -> None:
    run = factories.sliced(["a", "b"], objective="p99<10ms", horizon=9)
    trials = [
        searched(block, arm, capacity, capacity)
        for block in range(3)
        for arm, capacity in (("a", 40_000.0), ("b", 1_400.0))
    ]
    (pair,) = summarise(run, trials).by(Metric.CAPACITY)
    assert pair.proven
