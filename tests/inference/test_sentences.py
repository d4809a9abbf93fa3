"""Headlines, ranks and warnings."""

import random
from collections.abc import Callable, Mapping

import pytest
from hypothesis import given, strategies as st

from jissoku.inference import summarise
from jissoku.inference.run_warnings import report_warnings
from jissoku.inference.sentences import headline, ranks
from jissoku.model import (
    CheckOutcome,
    Comparison,
    Condition,
    Load,
    LoadLevel,
    MeasurementStatus,
    Summary,
    Trial,
    TrialKind,
    Verdict,
    Workload,
)
from jissoku.model.summary import ArmSummary, ReportWarning, Severity
from jissoku.model.trial import FailedCheck
from jissoku.model.updated import updated
from jissoku.model.wording import join_names
from jissoku.request import ComparisonRequest
from tests.inference import factories
from tests.inference.factories import MIDDLE, QUIETEST, TrueValues

LIGHT = Load(rate_rps=1_000, level=LoadLevel.LIGHT)
HEAVIER = Load(rate_rps=50_000, level=LoadLevel.HEAVY)


def summary_of(truths: Mapping[str, TrueValues], *loads: Load, capacity_blocks: int = 0) -> Summary:
    run = factories.sliced(list(truths), loads=loads or (MIDDLE,), objective="p99<10ms")
    trials = factories.trials(run, truths, noise=QUIETEST, capacity_blocks=capacity_blocks)
    return summarise(run, trials)


def of(**costs_ns: float) -> dict[str, TrueValues]:
    return {name: TrueValues(cost_ns=cost) for name, cost in costs_ns.items()}


def test_two_targets_have_the_sentence_of_their_comparison() -> None:
    summary = summary_of(of(a=5000, b=6000))
    assert summary.headline == f"{summary.comparisons[0].sentence}."


def test_the_first_the_next_and_the_last_are_named() -> None:
    headline = summary_of(of(a=5000, b=6000, c=9000)).headline
    assert headline.startswith(
        "At 20,000 requests/s (medium load) a uses the least CPU time per request of 3 (proven);"
        " next is b with 1.20"
    )
    assert "; last is c with 1.8" in headline
    assert headline.endswith(" the CPU time of a.")


def test_leaders_without_a_difference_share_the_rank() -> None:
    headline = summary_of(of(a=5000, b=5001, c=9000)).headline
    assert headline.startswith(
        "At 20,000 requests/s (medium load) none is proven to use less CPU time per request than"
        " a and b, which are not separated; next is c with 1.8"
    )


def test_the_next_is_given_against_a_leader_that_it_is_proven_to_be_behind() -> None:
    summary = summary_of(of(a=5000, b=5001, c=9000))
    open_pairs = [
        updated(pair, proven=pair.proven and {pair.arm, pair.against} != {"a", "c"})
        for pair in summary.comparisons
    ]
    assert summary.headline.endswith(" the CPU time of a.")
    again = headline(summary.run, summary.arm_summaries, open_pairs, summary.main_load)
    assert again.endswith(" the CPU time of b.")


def test_without_any_difference_there_is_no_first() -> None:
    headline = summary_of(of(a=5000, b=5001, c=5000)).headline
    assert "are not separated by CPU time per request" in headline
    assert "least" not in headline


def test_a_lead_within_the_minimum_effect_is_slight() -> None:
    # The interval of 1.021 excludes 1 and reaches below 1.02.
    headline = summary_of(of(a=5000, b=5105, c=9000)).headline
    assert headline.startswith(
        "At 20,000 requests/s (medium load) a uses slightly less CPU time per request than b, the"
        " next of 3 (proven); next is b with 1.02"
    )
    assert "uses the least" not in headline


def test_a_failed_target_is_named() -> None:
    run = factories.sliced(["a", "b", "c"])
    known = of(a=5000, b=6000)
    beside = factories.sliced(["a", "b"])
    trials = factories.trials(beside, known, noise=QUIETEST)
    broken = [factories.failed(t.kind, "c", *t.arms, index=900 + t.index) for t in trials[:2]]
    headline = summarise(run, [*trials, *broken]).headline
    assert headline.endswith("; c has no result.")


def test_an_order_that_changes_with_the_load_is_in_the_headline() -> None:
    changes = of(a=5000) | {"b": TrueValues(cost_ns=6000, costs_ns={1_000: 4000})}
    headline = summary_of(changes, LIGHT, MIDDLE).headline
    assert headline.startswith("b uses 1.20")
    assert headline.endswith(
        "; the order changes with the load: at 1,000 requests/s (light load) b uses less than a."
    )
    many = changes | of(c=9000)
    assert (
        "at 1,000 requests/s (light load) b uses less than a"
        in summary_of(many, LIGHT, MIDDLE).headline
    )


def test_an_order_that_is_open_at_another_load_has_not_changed() -> None:
    ties = of(a=5000) | {"b": TrueValues(cost_ns=6000, costs_ns={1_000: 4995})}
    assert "changes" not in summary_of(ties, LIGHT, MIDDLE).headline


def test_advice_names_the_best_of_each_metric() -> None:
    truths = {
        "a": TrueValues(cost_ns=5000, latency_ns=200_000, capacity_rps=30_000),
        "b": TrueValues(cost_ns=6000, latency_ns=100_000, capacity_rps=60_000),
    }
    assert summary_of(truths, capacity_blocks=9).advice == (
        "Least CPU time per request: a at 20,000 requests/s (medium load).",
        "Shortest p99 latency: b at 20,000 requests/s (medium load).",
        "Highest capacity: b.",
    )


def test_advice_changes_with_the_load() -> None:
    truths = of(a=5000, c=5000) | {"b": TrueValues(cost_ns=7000, costs_ns={1_000: 4000})}
    first = summary_of(truths, LIGHT, MIDDLE, HEAVIER).advice[0]
    assert first == (
        "Least CPU time per request: b at 1,000 requests/s (light load); a and c (no difference"
        " shown)"
        " at 20,000 requests/s (medium load) and 50,000 requests/s (heavy load)."
    )


def test_advice_names_no_target_without_a_difference() -> None:
    assert summary_of(of(a=5000, b=5000)).advice == ()


def test_advice_says_what_is_not_known() -> None:
    run = factories.sliced(["a", "b"])
    few = factories.trials(run, of(a=5000, b=6000), blocks=4)
    assert summarise(run, few).advice == (
        "Not decided by CPU time per request: b / a at 20,000 requests/s (medium load).",
    )


def test_many_undecided_pairs_are_counted() -> None:
    run = factories.sliced(list("abcd"))
    few = factories.trials(run, of(a=5000, b=6000, c=7000, d=8000), blocks=4)
    (last,) = summarise(run, few).advice
    assert last.count(" / ") == 4
    assert last.endswith(" and 2 more.")


@pytest.mark.parametrize(
    ("given", "text"),
    [(["a"], "a"), (["a", "b"], "a and b"), (["a", "b", "c"], "a, b and c")],
)
def test_names_are_listed_as_people_do(given: list[str], text: str) -> None:
    assert join_names(given) == text


TABLE = [
    ("abc", "ab ac bc", [1, 2, 3]),
    ("abc", "", [1, 1, 1]),
    ("abc", "ac bc", [1, 1, 3]),
    ("abc", "ab ac", [1, 2, 2]),
    ("abc", "ac", [1, 1, 2]),  # b may be equal to either
    ("abc", "ab bc", [1, 2, 3]),  # a is better than c, as b is between them
    ("abcd", "ac ad bc bd", [1, 1, 3, 3]),
    ("abcd", "ad", [1, 1, 1, 2]),
    ("a", "", [1]),
    ("", "", []),
]


@pytest.mark.parametrize(("ordered", "apart", "expected"), TABLE)
def test_arms_with_as_many_better_ones_share_a_rank(
    ordered: str, apart: str, expected: list[int]
) -> None:
    known = {frozenset(pair) for pair in apart.split()}
    found = ranks(list(ordered), lambda a, b: frozenset((a, b)) in known)
    assert [found[name] for name in ordered] == expected


PAIRS = st.sets(st.sampled_from(["ab", "ac", "ad", "bc", "bd", "cd"]))


@given(PAIRS)
def test_ranks_follow_proven_comparisons(apart: set[str]) -> None:
    found = ranks("abcd", lambda a, b: a + b in apart)
    assert all(found[pair[0]] < found[pair[1]] for pair in apart)


@given(PAIRS)
def test_a_rank_counts_the_arms_that_are_proven_to_be_better(apart: set[str]) -> None:
    found = ranks("abcd", lambda a, b: a + b in apart)
    for name in "abcd":
        reached, new = set[str](), {name}
        while new:
            new = {pair[0] for pair in apart if pair[1] in new} - reached
            reached |= new
        assert found[name] == 1 + len(reached)


TURN_NS, OTHER_TURN_NS = 200_000_000, 100_000_000
LOWER = Load(rate_rps=5_000, level=LoadLevel.MEDIUM)
HEAVY = Load(rate_rps=20_000, level=LoadLevel.HEAVY)
BLOCKS = 9


def _sliced(block: int, load: Load, floor_ns: float) -> Trial:
    """A time-sliced trial of the floor and an arm that uses twice as much."""
    measurements = [
        factories.arm_measurement(name, cpu_ns=round(cost * 20_000), active_duration_ns=500_000_000)
        for name, cost in (("floor", floor_ns), ("a", 2 * floor_ns))
    ]
    workload = Workload(rate_rps=load.rate_rps)
    return factories.trial(
        TrialKind.TIME_SLICED,
        *measurements,
        block=block,
        index=block,
        slice_ns=TURN_NS,
        workload=workload,
    )


def _trials(
    load: Load, cost_ns: Callable[[int], float], *, blocks: int = BLOCKS, spread: float = 0.004
) -> list[Trial]:
    rng = random.Random(7)
    return [
        _sliced(block, load, cost_ns(block) * (1 + rng.gauss(0, spread))) for block in range(blocks)
    ]


def _steady(_: int) -> float:
    return 10_000


def _rising(block: int) -> float:
    """By 6 % from the first block to the last of nine."""
    return 10_000 * (1 + 0.06 * block / (BLOCKS - 1))


def _changes(trials: list[Trial], *, floor: str = "floor") -> list[ReportWarning]:
    run = factories.run(["a", "floor"], floor=floor, loads=(LOWER, HEAVY))
    run = updated(run, slice_ns=TURN_NS, check_slice_ns=OTHER_TURN_NS)
    return [
        warning
        for warning in report_warnings(run, trials, (), ())
        if "machine changed" in warning.title
    ]


def test_a_floor_that_moves_is_reported_with_its_load() -> None:
    (warning,) = _changes([*_trials(LOWER, _steady), *_trials(HEAVY, _rising)])
    assert warning.severity is Severity.WARNING
    assert warning.title == "The machine changed during the run"
    assert "At 20,000 requests/s (heavy load) the floor's CPU time per request moved by +4." in (
        warning.text
    )


def test_each_load_at_which_it_moves_is_reported() -> None:
    assert len(_changes([*_trials(LOWER, _rising), *_trials(HEAVY, _rising)])) == 2


def test_a_floor_that_becomes_cheaper_moved_too() -> None:
    (warning,) = _changes(_trials(LOWER, lambda block: 1e8 / _rising(block)))
    assert "moved by -4." in warning.text


@pytest.mark.parametrize(
    "trials",
    [
        _trials(LOWER, _steady),
        _trials(LOWER, lambda block: 10_000 * (1 + 0.02 * block / (BLOCKS - 1))),
        _trials(LOWER, _rising, spread=0.10),
        _trials(LOWER, _rising, blocks=5),
        [],
    ],
    ids=["steady", "less than 3 %", "lost in the noise", "too few blocks", "no trials"],
)
def test_no_warning_for(trials: list[Trial]) -> None:
    assert _changes(trials) == []


def test_a_run_without_a_floor_has_no_such_flag() -> None:
    assert _changes(_trials(LOWER, _rising), floor="") == []


def test_only_trials_that_count_are_looked_at() -> None:
    check = FailedCheck(name="steal", outcome=CheckOutcome.REJECT, message="steal")
    disturbed = [updated(trial, failed_checks=(check,)) for trial in _trials(LOWER, _rising)]
    assert _changes(disturbed) == []


def test_turns_of_the_other_length_do_not_mix_in() -> None:
    """They come first in a block, and only in the first blocks."""
    other = [
        updated(_sliced(block, LOWER, 9_000), slice_ns=OTHER_TURN_NS, index=-1)
        for block in range(3)
    ]
    assert _changes([*other, *_trials(LOWER, _steady)]) == []


def test_a_time_that_was_not_enough_for_all_loads_is_named_once() -> None:
    run = factories.run(["a", "floor"], floor="floor", loads=(LOWER, HEAVY))
    trials = _trials(HEAVY, _steady)
    given = updated(run, request=ComparisonRequest(time_limit=20.0))
    title = "--for 20s was enough for 1 of 2 loads"
    (found,) = (one for one in report_warnings(given, trials, (), ()) if one.title == title)
    assert found.text == "Not measured: 5,000 requests/s (medium load)."
    assert title not in {one.title for one in report_warnings(run, trials, (), ())}


def _calm(fraction: float) -> str:
    pair = Comparison(
        arm="a",
        against="b",
        verdict=Verdict.INCONCLUSIVE,
        load=LOWER,
        condition=Condition.BUSY,
        other_programs=0.5,
        calm_fraction=fraction,
    )
    run = factories.run(["a", "floor"], floor="floor", loads=(LOWER,))
    found = report_warnings(run, [], (), (pair,))
    (text,) = (one.text for one in found if one.title.startswith("Other programs"))
    return text


def test_no_calm_rotation_is_not_called_some() -> None:
    assert "in some rotations" in _calm(0.4)
    assert "less than 1 % at" in _calm(0.001)
    assert "in some rotations" not in _calm(0.0)
    assert "no rotation of the time slices was calm" in _calm(0.0)


def test_several_without_a_result_have_none() -> None:
    run = factories.sliced(["a", "b", "c"])
    broken = [
        ArmSummary(arm=arm, status=MeasurementStatus.FAILED) for arm in run.arms if arm.name != "c"
    ]
    assert headline(run, broken, (), None) == "No ranking: a and b have no valid result."
