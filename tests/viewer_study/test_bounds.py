"""What an open page may do: equivalence has to be shown, a broken bound has to be proven."""

import math
import random

import pytest

from jissoku.inference.self_test import BoundState
from jissoku.model import Comparison, Estimate, Verdict
from jissoku.model.updated import updated
from tests.viewer_study.bounds import check_ratio, check_rejections, check_spread

PAIR = Comparison(arm="again", against="ours", verdict=Verdict.INCONCLUSIVE)


def campaigns(
    count: int, ratio: float = 1.0, *, sd: float = 0.006, seed: int = 1
) -> list[Comparison]:
    """Campaigns of nine blocks with this true ratio and spread from block to block."""
    rng = random.Random(seed)
    found = []
    for _ in range(count):
        logs = [math.log(ratio) + rng.gauss(0, sd) for _ in range(9)]
        mean = sum(logs) / 9
        spread = math.sqrt(sum((log - mean) ** 2 for log in logs) / 8)
        value = math.exp(mean)
        estimate = Estimate(value=value, low=value, high=value, blocks=9, sd_log=spread)
        found.append(updated(PAIR, ratio=estimate))
    return found


@pytest.mark.parametrize(
    ("ratio", "state"),
    [
        (1.0, BoundState.PASS),
        (1.002, BoundState.UNDECIDED),
        (1.02, BoundState.FAIL),
        (0.98, BoundState.FAIL),
    ],
)
def test_the_ratio_has_to_be_shown_equal(ratio: float, state: BoundState) -> None:
    row = check_ratio("page", campaigns(20, ratio, seed=2), campaigns(20, seed=3))
    assert row.state is state, row.result
    assert row.campaigns == 40


def test_noise_that_hides_the_bound_decides_nothing() -> None:
    row = check_ratio("page", campaigns(5, sd=0.03, seed=2), campaigns(5, sd=0.03, seed=3))
    assert row.state is BoundState.UNDECIDED


@pytest.mark.parametrize(
    ("sd", "state"), [(0.006, BoundState.PASS), (0.012, BoundState.FAIL), (0.003, BoundState.PASS)]
)
def test_a_wider_spread_has_to_be_proven(sd: float, state: BoundState) -> None:
    row = check_spread("page", campaigns(20, sd=sd, seed=2), campaigns(20, seed=3))
    assert row.state is state, row.result


@pytest.mark.parametrize(
    ("opened", "closed", "state"),
    [
        ((2, 180), (1, 180), BoundState.PASS),
        ((0, 180), (9, 180), BoundState.PASS),
        ((5, 180), (1, 180), BoundState.UNDECIDED),
        ((40, 180), (1, 180), BoundState.FAIL),
    ],
)
def test_more_rejections_have_to_be_proven(
    opened: tuple[int, int], closed: tuple[int, int], state: BoundState
) -> None:
    row = check_rejections("page", 40, opened, closed)
    assert row.state is state, row.result


def test_too_few_campaigns_decide_nothing() -> None:
    silent = [updated(PAIR, verdict=Verdict.INVALID)]
    rows = (
        check_ratio("page", campaigns(1), campaigns(1)),
        check_ratio("page", silent, campaigns(5)),
        check_spread("page", silent, campaigns(5)),
        check_rejections("page", 1, (0, 0), (0, 9)),
    )
    assert {row.state for row in rows} == {BoundState.UNDECIDED}
    assert {row.result for row in rows} == {"too few campaigns"}
