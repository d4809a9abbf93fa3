"""The headline and the advice claim no more than was proven."""

from collections.abc import Mapping

import pytest

from jissoku.inference import summarise
from jissoku.inference.sentences import join_names
from jissoku.model import Load, LoadLevel, Summary
from tests.inference import factories
from tests.inference.factories import MIDDLE, QUIETEST, TrueValues

LIGHT = Load(rate_rps=1_000, level=LoadLevel.LIGHT)
HEAVY = Load(rate_rps=50_000, level=LoadLevel.HEAVY)


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
    first = summary_of(truths, LIGHT, MIDDLE, HEAVY).advice[0]
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
