"""How many blocks of which trials a bound asks for."""

import pytest

from jissoku.design.sampling_plan import SamplingPlan
from jissoku.measure import ci
from jissoku.measure.comparison import sampling_plan
from jissoku.request import ComparisonRequest, from_argv
from tests.ci.test_bounds import BOUND

RATE = "rate(head) < 0.95 x rate(base)"
LATENCY = "p99(head) > 1.5 x p99(base)"


def plan(*arguments: str, is_pair: bool = True) -> SamplingPlan:
    request = from_argv(("compare", *arguments))
    assert isinstance(request, ComparisonRequest)
    return sampling_plan(request, is_pair=is_pair)


@pytest.mark.parametrize(
    ("arguments", "blocks", "closed_loop"),
    [
        ([], 9, 3),
        (["--standard"], 40, 10),
        (["--blocks", "20"], 20, 3),
        (["--blocks", "2"], 2, 2),
        (["--closed-loop"], 9, 9),
        (["--closed-loop", "--blocks", "20"], 20, 20),
        (["--pipeline", "4", "--blocks", "20"], 20, 20),
        (["--fail-if", BOUND], 30, 0),
        (["--standard", "--fail-if", BOUND], 40, 0),
        (["--fail-if", BOUND, "--blocks", "20"], 20, 0),
        (["--fail-if", LATENCY], 30, 0),
        (["--fail-if", RATE], 30, 30),
        (["--fail-if", RATE, "--blocks", "20"], 20, 20),
        (["--fail-if", RATE, "--fail-if", BOUND], 30, 30),
        (["--fail-if", "memory(head) > 2 x memory(base)"], 30, 30),
    ],
)
def test_a_bound_on_the_closed_loop_has_it_in_every_block(
    arguments: list[str], blocks: int, closed_loop: int
) -> None:
    found = plan(*arguments)
    assert (found.blocks_max, found.closed_loop_blocks) == (blocks, closed_loop)


def test_without_a_baseline_a_bound_on_cost_does_not_lengthen_a_run() -> None:
    found = plan("--fail-if", BOUND, is_pair=False)
    assert (found.blocks_max, found.closed_loop_blocks) == (9, 3)


@pytest.mark.parametrize(
    ("bound", "closed_loop"),
    [
        ("cost(candidate) > 1.01 x cost(good)", (0, 0)),
        ("p99(candidate) > 2 x p99(good)", (0, 0)),
        ("rate(candidate) < 0.95 x rate(good)", (10, 40)),
    ],
)
def test_an_undecided_step_of_bisect_is_measured_in_more_blocks(
    bound: str, closed_loop: tuple[int, int]
) -> None:
    first, second = (ci.commit_plan(bound, attempt, 60.0) for attempt in (0, 1))
    assert (first.horizon, second.horizon, second.seconds) == (10, 40, 60.0)
    assert (first.closed_loop_blocks, second.closed_loop_blocks) == closed_loop


@pytest.mark.parametrize(
    ("arguments", "horizon"),
    [
        ([], 9),
        (["--standard"], 40),
        (["--for", "2m"], 9),
        (["--for", "1h"], 40),
        (["--precision", "1%"], 40),
        (["--blocks", "9"], 0),
        (["--closed-loop"], 9),
        (["--fail-if", BOUND], 9),
        (["--fail-if", BOUND, "--blocks", "9"], 0),
    ],
)
def test_a_comparison_is_looked_at_after_every_block_unless_its_length_is_fixed(
    arguments: list[str], horizon: int
) -> None:
    assert plan(*arguments, is_pair=False).horizon == horizon


def test_the_end_of_a_run_is_in_its_plan() -> None:
    found = plan("--for", "90s", "--precision", "2%", is_pair=False)
    assert (found.seconds, found.precision) == pytest.approx((90, 0.0198), abs=1e-3)
