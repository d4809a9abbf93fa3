"""The length of time slices at a load."""

import pytest

from jissoku.design.sampling_plan import (
    MILLISECOND,
    SAMPLING_PLANS,
    SECOND,
    TuningTime,
    tuning,
    tuning_time,
)
from jissoku.inference.estimate import VERDICT_BLOCKS_MIN
from jissoku.model import Load, LoadLevel, Mode, TrialKind
from jissoku.model.updated import updated


@pytest.mark.parametrize(
    ("rate_rps", "length_ms"),
    [(20_000, 100), (2_000, 100), (1_000, 200), (500, 400), (400, 500), (100, 500), (1, 500)],
)
def test_a_slice_has_two_hundred_requests_unless_that_takes_too_long(
    rate_rps: int, length_ms: int
) -> None:
    load = Load(rate_rps=rate_rps, level=LoadLevel.LIGHT)
    for plan in (SAMPLING_PLANS[mode] for mode in Mode):
        turn = plan.slice_length(load, is_check=False)
        assert (turn.nominal_ns, turn.length_ns) == (100 * MILLISECOND, length_ms * MILLISECOND)
        check = plan.slice_length(load, is_check=True)
        assert check.nominal_ns == 200 * MILLISECOND
        assert check.length_ns == 2 * length_ms * MILLISECOND


@pytest.mark.parametrize(
    ("rate_rps", "window_ms"), [(1_000, 400), (50, 400), (10, 2_000), (1, 4_000)]
)
def test_a_window_has_some_requests_of_a_slow_server(rate_rps: int, window_ms: int) -> None:
    plan, load = SAMPLING_PLANS[Mode.QUICK], Load(rate_rps=rate_rps, level=LoadLevel.LIGHT)
    assert plan.active_ns(load, is_check=False) == window_ms * MILLISECOND
    assert plan.window(TrialKind.FIXED_RATE, rate_rps) == window_ms * MILLISECOND
    assert plan.window(TrialKind.CLOSED_LOOP) == 400 * MILLISECOND


def test_a_run_that_is_decided_once_has_searches_enough_for_a_verdict() -> None:
    plan = SAMPLING_PLANS[Mode.QUICK]
    assert plan.with_one_look.capacity_blocks == VERDICT_BLOCKS_MIN > plan.capacity_blocks
    three = updated(plan, blocks=3)
    assert three.with_one_look.capacity_blocks == 3, "the user chose three"
    assert SAMPLING_PLANS[Mode.STANDARD].with_one_look.blocks_max == 10


def test_a_tuning_says_what_it_is_likely_to_take_and_what_its_campaigns_are_limited_to() -> None:
    plan = SAMPLING_PLANS[Mode.QUICK]
    some = tuning_time(3, 3, 0, plan, pay=False)
    assert some.most_s == pytest.approx(1.2 * some.likely_s), "undecided knobs have their share"
    assert some.text == "about 55 s, at most 1 min 10 s"
    few = tuning_time(1.2, 3, 0, plan, pay=False, counted=3)
    assert few.likely_s < some.likely_s
    assert few.most_s == pytest.approx(some.most_s + 3 * 0.7), "counting may leave all open"
    assert tuning_time(3, 3, 0, plan, pay=True).likely_s > some.likely_s, "more is left out of all"
    slow = tuning_time(3, 3, 0, updated(plan, paired_window_ns=4 * SECOND), pay=False)
    assert slow.likely_s > 2 * some.likely_s
    limits = (tuning(plan, 3), tuning(plan, 3), tuning(plan, 1))
    assert some.most_s < slow.most_s <= sum(one.seconds for one in limits)
    assert tuning_time(0, 0, 0, plan, pay=True) == TuningTime(0, 0)
    with_rate = tuning_time(3, 3, 1, plan, pay=False)
    assert with_rate.most_s > some.most_s + 2 * tuning(plan).seconds, "at full load, and its proof"
    slower = tuning_time(3, 3, 1, plan, pay=False, rates_count=True)
    assert slower.likely_s > with_rate.likely_s, "the first block does not end the campaign"
    standard = tuning_time(3, 3, 0, SAMPLING_PLANS[Mode.STANDARD], pay=False)
    assert some.likely_s < standard.likely_s < standard.most_s, "limited by its blocks"
