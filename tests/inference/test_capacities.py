"""Ratios of capacities: the step of a search is a part of their error."""

import math

from hypothesis import assume, given, settings, strategies as st

from jissoku.design.search import first_rate, highest_met, next_rate
from jissoku.inference import latency, summarise
from jissoku.model import Capacity, CapacityStep, Metric, Trial, TrialKind, Workload
from jissoku.model.updated import updated
from tests.inference import factories


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
