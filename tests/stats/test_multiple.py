"""Holm's adjustment against a table worked by hand, and what the family's width keeps."""

import random

import pytest

from jissoku.stats import estimate, multiple

HOLM = [
    ([], []),
    ([0.04], [0.04]),
    ([0.01, 0.04, 0.03], [0.03, 0.06, 0.06]),
    ([0.01, None, 0.04], [0.02, None, 0.04]),
    ([None, None], [None, None]),
    ([0.5, 0.9], [1.0, 1.0]),
]


@pytest.mark.parametrize(("given", "expected"), HOLM)
def test_holm(given: list[float | None], expected: list[float | None]) -> None:
    assert list(multiple.holm(given)) == [p if p is None else pytest.approx(p) for p in expected]


@pytest.mark.parametrize(("pairs", "confidence"), [(0, 0.95), (1, 0.95), (5, 0.99), (10, 0.995)])
def test_confidence_grows_with_the_number_of_comparisons(pairs: int, confidence: float) -> None:
    assert multiple.confidence(pairs) == pytest.approx(confidence)


def test_ten_null_comparisons_together_raise_a_false_alarm_in_one_run_of_twenty() -> None:
    rng = random.Random(7)
    runs, alarms = 300, 0
    for _ in range(runs):
        intervals = [
            estimate.t_interval([rng.gauss(0, 0.01) for _ in range(9)], multiple.confidence(10))
            for _ in range(10)
        ]
        alarms += any(found.low > 0 or found.high < 0 for found in intervals)
    # 5 % of 300 is 15 +- 3.8.
    assert alarms <= 15 + 3 * 3.8
