"""Verdicts as a table, how often they are right, their correction, and what would decide."""

import math
import random
from collections.abc import Iterator, Mapping
from itertools import combinations

import pytest
from hypothesis import given, settings, strategies as st
from statsmodels.stats.multitest import multipletests  # type: ignore[import-untyped]

from jissoku.inference import decision, estimate, summarise
from jissoku.inference.blocks import BlockDurations
from jissoku.inference.decision import Rule, blocks_needed, classify, decide, judge_logs, settle
from jissoku.inference.estimate import VERDICT_BLOCKS_MIN, Interval, Looks
from jissoku.model import Comparison, Estimate, Load, LoadLevel, Metric, TrialKind, Verdict
from jissoku.model.updated import updated
from jissoku.model.wording import outlook, time_text
from tests.inference import factories
from tests.inference.factories import Noise, TrueValues

ONE_PERCENT = Rule(minimum_effect=0.01)
ONE_PERCENT_LATER = Rule(minimum_effect=0.01, looks=Looks(9))

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
        found = judge_logs([0.5] * blocks, ONE_PERCENT)
        assert found.verdict is Verdict.INCONCLUSIVE
        assert "too few" in found.remark


def test_where_the_methods_disagree_nothing_is_decided() -> None:
    # One wild block hides from Student's t what every other block says.
    logs = [0.02, 0.021, 0.019, 0.02, 0.022, 0.018, 0.021, 0.02, -0.3]
    found = judge_logs(logs, ONE_PERCENT)
    assert found.verdict is Verdict.INCONCLUSIVE
    found = judge_logs([0.02, 0.021, 0.019, 0.02, 0.022, 0.018, 0.021, 0.02, 0.6], ONE_PERCENT)
    assert found.verdict is Verdict.INCONCLUSIVE
    assert "disagree" in found.remark


@given(st.lists(st.floats(-0.1, 0.1, allow_nan=False), min_size=2, max_size=15))
def test_exchanging_the_arms_mirrors_the_verdict(logs: list[float]) -> None:
    mirrored = judge_logs([-x for x in logs], ONE_PERCENT).verdict
    assert mirrored is judge_logs(logs, ONE_PERCENT).verdict.inverted


def _words(injected: float, spread: float, blocks: int, minimum_effect: float) -> list[Verdict]:
    rng = random.Random(f"{injected}/{spread}/{blocks}")
    return [
        judge_logs(
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
    assert judge_logs(logs, ONE_PERCENT).verdict is Verdict.INCONCLUSIVE
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
    assert judge_logs(logs, ONE_PERCENT_LATER).verdict is Verdict.HIGHER
    assert judge_logs(logs, ONE_PERCENT).verdict is Verdict.INCONCLUSIVE
    assert "at least 3 are needed" in judge_logs(logs[:2], ONE_PERCENT_LATER).remark


def test_with_several_looks_a_verdict_needs_more_than_with_one() -> None:
    """The interval of a look is wider, since it holds at all of them."""
    logs = [0.05, 0.002, 0.06, 0.001, 0.05, 0.09, 0.003, 0.002, 0.01]
    assert judge_logs(logs, ONE_PERCENT).verdict.is_difference
    assert judge_logs(logs, ONE_PERCENT_LATER).verdict is Verdict.INCONCLUSIVE
    assert judge_logs(logs, ONE_PERCENT_LATER).remark == "", "the other method sees one look only"


def test_the_step_of_a_search_is_part_of_the_error() -> None:
    logs = [0.02] * 9
    exact = Rule(minimum_effect=0.01)
    assert judge_logs(logs, exact).verdict is Verdict.HIGHER
    assert judge_logs(logs, updated(exact, resolution=0.025)).verdict is Verdict.INCONCLUSIVE
    assert blocks_needed(logs, updated(exact, resolution=0.025), 0.05) is None


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


def with_p_values(known: Mapping[str, float | None]) -> list[Comparison]:
    """Of pairs that are written as `ab`."""
    return [
        Comparison(arm=pair[0], against=pair[1], verdict=Verdict.HIGHER, p_value=p)
        for pair, p in known.items()
    ]


def test_pairs_that_cannot_be_equal_together_are_not_counted_together() -> None:
    """If a and b differ, c differs from one of them: one of three is left, and not two."""
    family = with_p_values({"ba": 0.001, "ca": 0.03, "cb": 0.04})
    found, unproven = decision.corrected(family)
    assert list(found) == pytest.approx([0.003, 0.03, 0.04])
    assert unproven == 1
    elsewhere = [updated(one, load=factories.MIDDLE, p_value=None) for one in family]
    found, _ = decision.corrected([*family, *elsewhere])
    assert list(found[:3]) == pytest.approx([0.006, 0.12, 0.16])
    assert decision.corrected(with_p_values({"ba": 0.02, "ca": 0.5, "cb": None}))[1] == 3


def test_pairs_with_one_arm_alone_are_corrected_by_holm() -> None:
    star = {"ba": 0.001, "ca": 0.01, "da": 0.04, "ea": None}
    found, unproven = decision.corrected(with_p_values(star))
    assert found == decision.holm(list(star.values()))
    assert unproven == 2


def partitions(arms: str) -> Iterator[list[str]]:
    """Every way in which arms can be equal."""
    if not arms:
        yield []
        return
    for rest in partitions(arms[1:]):
        yield [arms[0], *rest]
        for index, group in enumerate(rest):
            yield [*rest[:index], arms[0] + group, *rest[index + 1 :]]


@pytest.mark.parametrize("seed", range(20))
def test_the_most_pairs_that_can_be_equal_are_those_of_the_best_partition(seed: int) -> None:
    rng = random.Random(seed)
    every = list(combinations("abcdef", 2))
    family, apart = rng.sample(every, 12), rng.sample(every, rng.randint(0, 8))
    expected = max(
        sum({*pair} <= {*group} for pair in family for group in groups)
        for groups in partitions("abcdef")
        if not any({*pair} <= {*group} for pair in apart for group in groups)
    )
    assert decision.most_equal(frozenset(family), frozenset(apart)) == expected


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
        ((0.6, -0.6, 0.4, -0.4, 0.2, -0.2), Looks(), 1.0),  # More than any number.
    ],
)
def test_what_the_run_cannot_decide_is_close(
    logs: tuple[float, ...], looks: Looks, block_s: float
) -> None:
    found = settled(logs, looks, block_s)
    assert found.is_out_of_reach
    assert found.ratio is not None
    assert outlook(found).startswith("not decided: they differ by less than ")
    assert outlook(found) in found.sentence


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (0.98, 1.03, "not decided: they differ by less than 3 %, or not at all"),
        (0.8, 1.1, "not decided: they differ by less than 25 %, or not at all"),
        (0.5, 3.01, ""),  # It may be anything: nothing is said.
        (0.0, 3.0, ""),
    ],
)
def test_how_close_is_what_the_interval_allows(low: float, high: float, text: str) -> None:
    ratio = Estimate(value=1.0, low=low, high=high, blocks=3, sd_log=0.1)
    found = updated(PAIR, ratio=ratio, is_out_of_reach=True)
    assert outlook(found) == text
    unproven = updated(found, verdict=Verdict.HIGHER)
    assert outlook(unproven) == text.replace("not decided", "not proven")


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
