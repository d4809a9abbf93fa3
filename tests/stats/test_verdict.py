"""Verdicts as a table, and how often they are right for an injected effect."""

import math
import random

import pytest
from hypothesis import given, strategies as st

from jissoku.model import Verdict
from jissoku.stats.estimate import Interval
from jissoku.stats.verdict import VERDICT_BLOCKS_MIN, blocks_needed, classify, judge

# 95 % interval and 90 % interval of the log ratio in per cent, minimum effect 1 %.
TABLE = [
    ((-5.0, -2.0), (-4.5, -2.5), Verdict.LOWER),
    ((2.0, 5.0), (2.5, 4.5), Verdict.HIGHER),
    ((-3.0, -0.5), (-2.7, -0.8), Verdict.SLIGHTLY_LOWER),
    ((0.5, 3.0), (0.8, 2.7), Verdict.SLIGHTLY_HIGHER),
    ((-0.9, 0.9), (-0.7, 0.7), Verdict.EQUAL),
    ((-1.2, 1.1), (-0.98, 0.9), Verdict.EQUAL),
    ((0.1, 0.9), (0.2, 0.8), Verdict.EQUAL),  # not zero, and too small to matter
    ((-0.9, -0.1), (-0.8, -0.2), Verdict.EQUAL),
    ((-0.5, 2.0), (-0.3, 1.8), Verdict.INCONCLUSIVE),
    ((-3.0, 3.0), (-2.5, 2.5), Verdict.INCONCLUSIVE),
    ((0.0, 2.0), (0.2, 1.8), Verdict.INCONCLUSIVE),  # touching zero excludes nothing
]


@pytest.mark.parametrize(("wide", "narrow", "expected"), TABLE)
def test_an_interval_has_one_word(
    wide: tuple[float, float], narrow: tuple[float, float], expected: Verdict
) -> None:
    def interval(ends: tuple[float, float]) -> Interval:
        low, high = (end / 100 for end in ends)
        return Interval((low + high) / 2, low, high)

    assert classify(interval(wide), interval(narrow), 0.01) is expected


def test_fewer_than_six_blocks_decide_nothing_and_say_how_many_are_missing() -> None:
    for blocks in range(VERDICT_BLOCKS_MIN):
        found = judge([0.5] * blocks, 0.01)
        assert found.verdict is Verdict.INCONCLUSIVE
        assert found.blocks_needed == VERDICT_BLOCKS_MIN - blocks
        assert "too few" in found.remark


def test_where_the_methods_disagree_nothing_is_decided() -> None:
    # One wild block hides from Student's t what every other block says.
    logs = [0.02, 0.021, 0.019, 0.02, 0.022, 0.018, 0.021, 0.02, -0.3]
    found = judge(logs, 0.01)
    assert found.verdict is Verdict.INCONCLUSIVE
    found = judge([0.02, 0.021, 0.019, 0.02, 0.022, 0.018, 0.021, 0.02, 0.6], 0.01)
    assert found.verdict is Verdict.INCONCLUSIVE
    assert "disagree" in found.remark


@given(st.lists(st.floats(-0.1, 0.1, allow_nan=False), min_size=2, max_size=15))
def test_exchanging_the_arms_mirrors_the_verdict(logs: list[float]) -> None:
    assert judge([-x for x in logs], 0.01).verdict is judge(logs, 0.01).verdict.inverted


def _words(injected: float, spread: float, blocks: int, minimum_effect: float) -> list[Verdict]:
    rng = random.Random(f"{injected}/{spread}/{blocks}")
    return [
        judge(
            [rng.gauss(math.log1p(injected), spread) for _ in range(blocks)], minimum_effect
        ).verdict
        for _ in range(400)
    ]


def test_two_per_cent_are_found_in_quick_mode() -> None:
    words = _words(0.02, 0.01, 9, 0.01)
    found = sum(verdict in (Verdict.HIGHER, Verdict.SLIGHTLY_HIGHER) for verdict in words)
    assert found >= 0.95 * len(words)
    assert not any(v in (Verdict.LOWER, Verdict.SLIGHTLY_LOWER) for v in words)


def test_one_per_cent_is_found_in_standard_mode() -> None:
    words = _words(0.01, 0.007, 10, 0.01)
    assert sum(verdict.is_difference for verdict in words) >= 0.8 * len(words)
    assert not any(v in (Verdict.LOWER, Verdict.SLIGHTLY_LOWER) for v in words)


@pytest.mark.parametrize("spread", [0.005, 0.015, 0.05])
def test_equals_are_called_different_no_more_often_than_promised(spread: float) -> None:
    words = _words(0.0, spread, 9, 0.01)
    # 5 % of 400 is 20 +- 4.4.
    assert sum(verdict.is_difference for verdict in words) <= 20 + 3 * 4.4


def test_quiet_equals_are_called_equal() -> None:
    words = _words(0.0, 0.005, 9, 0.01)
    assert words.count(Verdict.EQUAL) >= 0.95 * len(words)


def test_an_effect_at_the_minimum_is_called_equal_no_more_often_than_promised() -> None:
    words = _words(0.01, 0.005, 9, 0.01)
    assert words.count(Verdict.EQUAL) <= 20 + 3 * 4.4


def test_the_blocks_still_needed_would_decide() -> None:
    logs = [0.02, -0.02, 0.03, -0.01, 0.01, 0.0, 0.02, -0.01, 0.015]
    found = judge(logs, 0.01)
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.blocks_needed == blocks_needed(logs, 0.01)
    assert found.blocks_needed is not None
    assert found.blocks_needed > 0


def test_hopeless_noise_has_no_forecast() -> None:
    assert blocks_needed([3.0, -3.0, 2.0, -2.0, 1.0, -1.0], 0.01) is None
