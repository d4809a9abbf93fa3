"""Holm's correction compared with a table computed by hand, and its family-wise error rate."""

import random

import pytest
from hypothesis import given, settings, strategies as st
from statsmodels.stats.multitest import multipletests  # type: ignore[import-untyped]

from jissoku.inference import decision
from jissoku.model import Comparison, Verdict

HOLM = [
    ([], []),
    ([0.04], [0.04]),
    ([0.01, 0.04, 0.03], [0.03, 0.06, 0.06]),
    ([0.01, None, 0.04], [0.03, None, 0.08]),  # a pair without a p-value counts
    ([None, None], [None, None]),
    ([0.5, 0.9], [1.0, 1.0]),
]


@pytest.mark.parametrize(("given", "expected"), HOLM)
def test_holm(given: list[float | None], expected: list[float | None]) -> None:
    assert list(decision.holm(given)) == [p if p is None else pytest.approx(p) for p in expected]


@pytest.mark.slow
@settings(max_examples=8)  # statsmodels collects garbage at every call
@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_holm_is_the_one_of_statsmodels(p_values: list[float]) -> None:
    expected = multipletests(p_values, method="holm")[1]
    assert decision.holm(p_values) == pytest.approx(tuple(expected))


@pytest.mark.slow
def test_ten_null_comparisons_together_raise_a_false_alarm_in_one_run_of_twenty() -> None:
    rng = random.Random(7)
    runs, alarms = 300, 0
    for _ in range(runs):
        family = [
            decision.decide(
                Comparison(arm=str(arm), against="a", verdict=Verdict.INCONCLUSIVE),
                {block: rng.gauss(0, 0.01) for block in range(9)},
            )
            for arm in range(10)
        ]
        alarms += any(found.proven for found in decision.settle(family))
    # 5 % of 300 is 15 +- 3.8.
    assert alarms <= 15 + 3 * 3.8
