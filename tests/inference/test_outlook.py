"""What would decide an undecided pair: one number of blocks, and the time that they take."""

import math

import pytest

from jissoku.inference import decision, summarise
from jissoku.inference.blocks import BlockDurations
from jissoku.inference.decision import decide, settle
from jissoku.inference.estimate import Looks
from jissoku.model import Comparison, Estimate, Load, LoadLevel, Metric, TrialKind, Verdict
from jissoku.model.updated import updated
from jissoku.model.wording import outlook, time_text
from tests.inference import factories
from tests.inference.factories import Noise, TrueValues

SEVERAL = Looks(9)
PAIR = Comparison(arm="b", against="a", verdict=Verdict.INCONCLUSIVE, minimum_effect=0.02)
CLOSE = (0.05, 0.02, 0.08)


def settled(logs: tuple[float, ...], looks: Looks, block_s: float | None) -> Comparison:
    (found,) = settle([decide(PAIR, dict(enumerate(logs)), looks, block_s=block_s)])
    return found


def test_an_undecided_pair_says_how_long_it_would_take() -> None:
    found = settled(CLOSE, SEVERAL, 20.0)
    assert found.blocks_needed
    assert not found.is_out_of_reach
    assert found.seconds_needed == pytest.approx(20.0 * found.blocks_needed)
    assert outlook(found) == f"about {time_text(20.0 * found.blocks_needed)} more may decide"
    assert outlook(found) in found.sentence


def test_without_times_it_says_how_many_blocks() -> None:
    found = settled(CLOSE, SEVERAL, None)
    assert found.seconds_needed is None
    assert outlook(found) == f"{found.blocks_needed} more blocks may decide"


@pytest.mark.parametrize(
    ("logs", "looks", "block_s"),
    [
        ((0.02, -0.02, 0.03), SEVERAL, 20.0),  # More blocks than the run has.
        ((0.05, -0.02, 0.06, -0.01, 0.01, 0.04), Looks(), 3000.0),
        ((3.0, -3.0, 2.0, -2.0, 1.0, -1.0), Looks(), 1.0),  # More than any number.
    ],
)
def test_what_the_run_cannot_decide_is_close(
    logs: tuple[float, ...], looks: Looks, block_s: float
) -> None:
    found = settled(logs, looks, block_s)
    assert found.is_out_of_reach
    assert found.ratio is not None
    assert outlook(found).startswith("practically equal or closer than ")
    assert outlook(found) in found.sentence


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (0.98, 1.03, "practically equal or closer than 3 %"),
        (0.8, 1.1, "practically equal or closer than 25 %"),
        (0.5, 3.01, "practically equal or closer than a factor of 3.1"),
        (0.0, 3.0, "practically equal or closer than any factor"),
    ],
)
def test_how_close_is_what_the_interval_allows(low: float, high: float, text: str) -> None:
    ratio = Estimate(value=1.0, low=low, high=high, blocks=3, sd_log=0.1)
    found = updated(PAIR, ratio=ratio, is_out_of_reach=True)
    assert outlook(found) == text
    unproven = updated(found, verdict=Verdict.HIGHER)
    assert outlook(unproven) == text.removeprefix("practically equal or ")


def test_nothing_is_said_of_what_is_decided_or_has_no_value() -> None:
    assert outlook(updated(PAIR, proven=True, verdict=Verdict.HIGHER, blocks_needed=3)) == ""
    assert outlook(PAIR) == ""
    failed = decision.Decided(updated(PAIR, verdict=Verdict.FAILED))
    (found,) = settle([failed])
    assert (found.blocks_needed, found.is_out_of_reach) == (None, False)


def test_times_are_rounded_up_to_what_can_be_read() -> None:
    seconds = (0.2, 38, 60, 61, 80, 599, 601, 3500)
    assert [time_text(one) for one in seconds] == [
        "5 s", "40 s", "1 min", "1 min 10 s", "1 min 20 s", "10 min", "11 min", "59 min",
    ]  # fmt: skip


def test_comparisons_that_are_proven_leave_their_part_of_the_error_to_the_others() -> None:
    """Holm's correction: the next one is compared with the error over those without an answer."""
    clear = decide(PAIR, dict(enumerate((0.70, 0.71, 0.69, 0.70))), SEVERAL)
    close = decide(PAIR, dict(enumerate((0.10, 0.02, 0.16, 0.06))), SEVERAL)
    *_, among_proven = settle([*[clear] * 9, close])
    *_, among_open = settle([*[decision.Decided(PAIR)] * 9, close])
    assert among_proven.blocks_needed is not None
    assert among_open.blocks_needed is not None
    assert among_proven.blocks_needed < among_open.blocks_needed


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("looks", [Looks(), SEVERAL])
def test_one_function_counts_from_the_first_block_on(count: int, looks: Looks) -> None:
    found = settled((0.7,) * count, looks, 10.0)
    assert found.blocks_needed == looks.first - count


LIGHT = Load(rate_rps=1_000, level=LoadLevel.LIGHT)


def test_a_block_takes_as_long_as_the_newest_one_at_its_load() -> None:
    run = factories.sliced("ab", loads=(LIGHT, factories.MIDDLE), horizon=9)
    truths = {name: TrueValues(cost_ns=5000) for name in "ab"}
    made = factories.trials(run, truths, blocks=3, check_blocks=0, solo_blocks=0)
    only_light = [one for one in made if one.load_rps == 1_000 or one.block < 2]
    # Two trials of 4 s in each of two blocks, then one of 3 s; the order of ends is that of trials.
    ends = [4.0, 8.0, 12.0, 16.0, 19.0]
    timed = [
        updated(one, index=index, elapsed_s=end)
        for index, (one, end) in enumerate(zip(only_light, ends, strict=True))
    ]
    known = BlockDurations(timed, run.slice_ns)
    assert known.seconds({TrialKind.TIME_SLICED}, 1_000) == pytest.approx(3.0)
    assert known.seconds({TrialKind.TIME_SLICED}, 20_000) == pytest.approx(8.0)
    assert known.seconds({TrialKind.CAPACITY}) is None
    assert BlockDurations(made, run.slice_ns).seconds({TrialKind.TIME_SLICED}) is None
    of_checks = [updated(one, slice_ns=factories.OTHER_TURN_NS) for one in timed]
    assert BlockDurations(of_checks, run.slice_ns).seconds({TrialKind.TIME_SLICED}) is None


def test_a_block_of_searches_that_the_end_of_a_run_cut_short_is_not_the_measure() -> None:
    run = factories.sliced("ab", horizon=9, objective="p99<10ms")
    truths = {name: TrueValues(cost_ns=5000) for name in "ab"}
    made = factories.trials(run, truths, blocks=2, check_blocks=0, solo_blocks=0, capacity_blocks=2)
    timed = [updated(one, elapsed_s=2.0 * (one.index + 1)) for one in made[:-1]]
    assert [one.kind for one in timed if one.block == 1].count(TrialKind.CAPACITY) == 1
    known = BlockDurations(timed, run.slice_ns)
    kinds = {TrialKind.CAPACITY, TrialKind.CLOSED_LOOP}
    assert known.longest_s(TrialKind.CAPACITY, kinds) == pytest.approx(4.0)
    assert BlockDurations().longest_s(TrialKind.CAPACITY, kinds) is None


def test_costs_latencies_and_capacities_say_it_alike() -> None:
    run = factories.sliced("ab", horizon=9, objective="p99<10ms")
    truths = {
        "a": TrueValues(cost_ns=5000),
        "b": TrueValues(cost_ns=5300, latency_ns=127_000, capacity_rps=35_000),
    }
    made = factories.trials(
        run, truths, blocks=3, check_blocks=0, capacity_blocks=3, noise=Noise(own=0.02)
    )
    timed = [updated(one, elapsed_s=2.0 * (one.index + 1)) for one in made]
    found = {one.metric: one for one in summarise(run, timed).comparisons}
    for metric in (Metric.COST, Metric.P99, Metric.CAPACITY):
        one = found[metric]
        assert one.is_decided or one.is_out_of_reach or one.seconds_needed, metric
        assert math.isfinite(one.seconds_needed or 0.0)
    assert any(one.seconds_needed for one in found.values())
