"""Verdicts as a table, and how often they are right for an injected effect."""

import math
import random

import pytest
from hypothesis import given, strategies as st

from jissoku.inference import estimate
from jissoku.inference.decision import Rule, blocks_needed, classify, judge
from jissoku.inference.estimate import VERDICT_BLOCKS_MIN, Interval, Looks
from jissoku.model import Verdict
from jissoku.model.updated import updated

ONE_PERCENT = Rule(minimum_effect=0.01)
SEVERAL = Rule(minimum_effect=0.01, looks=Looks(9))

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
        found = judge([0.5] * blocks, ONE_PERCENT)
        assert found.verdict is Verdict.INCONCLUSIVE
        assert "too few" in found.remark


def test_where_the_methods_disagree_nothing_is_decided() -> None:
    # One wild block hides from Student's t what every other block says.
    logs = [0.02, 0.021, 0.019, 0.02, 0.022, 0.018, 0.021, 0.02, -0.3]
    found = judge(logs, ONE_PERCENT)
    assert found.verdict is Verdict.INCONCLUSIVE
    found = judge([0.02, 0.021, 0.019, 0.02, 0.022, 0.018, 0.021, 0.02, 0.6], ONE_PERCENT)
    assert found.verdict is Verdict.INCONCLUSIVE
    assert "disagree" in found.remark


@given(st.lists(st.floats(-0.1, 0.1, allow_nan=False), min_size=2, max_size=15))
def test_exchanging_the_arms_mirrors_the_verdict(logs: list[float]) -> None:
    assert (
        judge([-x for x in logs], ONE_PERCENT).verdict is judge(logs, ONE_PERCENT).verdict.inverted
    )


def _words(injected: float, spread: float, blocks: int, minimum_effect: float) -> list[Verdict]:
    rng = random.Random(f"{injected}/{spread}/{blocks}")
    return [
        judge(
            [rng.gauss(math.log1p(injected), spread) for _ in range(blocks)],
            Rule(minimum_effect=minimum_effect),
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
    assert judge(logs, ONE_PERCENT).verdict is Verdict.INCONCLUSIVE
    needed = blocks_needed(logs, ONE_PERCENT, 0.05)
    assert needed is not None
    mean, sd = estimate.mean_and_sd(logs)
    for more, is_enough in ((needed, True), (needed - 1, False)):
        n = len(logs) + more
        wide, narrow = (estimate.t_interval_from(mean, sd, n, share) for share in (0.95, 0.90))
        verdict = classify(wide, narrow, 0.01)
        shrink = math.sqrt(len(logs) / n)
        robust = []
        for share in (0.95, 0.90):
            one = estimate.hodges_lehmann(logs, share)
            assert one is not None
            low, high = (one.centre + shrink * (end - one.centre) for end in (one.low, one.high))
            robust.append(Interval(one.centre, low, high))
        agrees = classify(robust[0], robust[1], 0.01) is verdict
        assert (verdict is not Verdict.INCONCLUSIVE and agrees) is is_enough


def test_more_comparisons_need_more_blocks() -> None:
    logs = [0.03, 0.01, 0.04, 0.0, 0.05, 0.02, 0.03, -0.01, 0.04]
    needed = [blocks_needed(logs, ONE_PERCENT, 0.05 / family) or 0 for family in (1, 10, 100)]
    assert needed == sorted(needed)
    assert needed[0] < needed[2]


def test_hopeless_noise_has_no_forecast() -> None:
    assert blocks_needed([3.0, -3.0, 2.0, -2.0, 1.0, -1.0], ONE_PERCENT, 0.05) is None


def test_with_several_looks_three_blocks_decide_what_is_far_from_one() -> None:
    logs = [0.70, 0.72, 0.68]
    assert judge(logs, SEVERAL).verdict is Verdict.HIGHER
    assert judge(logs, ONE_PERCENT).verdict is Verdict.INCONCLUSIVE
    assert "at least 3 are needed" in judge(logs[:2], SEVERAL).remark


def test_with_several_looks_a_verdict_needs_more_than_with_one() -> None:
    """The interval of a look is wider, since it holds at all of them."""
    logs = [0.05, 0.002, 0.06, 0.001, 0.05, 0.09, 0.003, 0.002, 0.01]
    assert judge(logs, ONE_PERCENT).verdict.is_difference
    assert judge(logs, SEVERAL).verdict is Verdict.INCONCLUSIVE
    assert judge(logs, SEVERAL).remark == "", "the other method sees one look only"


def test_the_step_of_a_search_is_part_of_the_error() -> None:
    logs = [0.02] * 9
    exact = Rule(minimum_effect=0.01)
    assert judge(logs, exact).verdict is Verdict.HIGHER
    assert judge(logs, updated(exact, resolution=0.025)).verdict is Verdict.INCONCLUSIVE
    assert blocks_needed(logs, updated(exact, resolution=0.025), 0.05) is None
