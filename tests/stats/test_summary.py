"""Whole runs: ranks, units, failures and what is said on top."""

import random
from dataclasses import replace

from jissoku.model import (
    Answer,
    Bound,
    Consequence,
    Gate,
    Kind,
    Run,
    Standing,
    Status,
    Summary,
    Trial,
    Verdict,
    Weight,
)
from jissoku.stats import summarise
from tests.stats import made
from tests.stats.made import Noise, Truth

COSTS = {"a": 5000, "b": 5002, "c": 9000, "floor": 4000}
TRUTHS = {name: Truth(cost_ns=cost) for name, cost in COSTS.items()}


def _race(*names: str) -> tuple[Run, tuple[Trial, ...]]:
    run = made.run(names, floor="floor" if "floor" in names else "")
    return run, made.trials(run, TRUTHS, noise=Noise(duet=0.004))


def _standing(summary: Summary, name: str) -> Standing:
    return next(s for s in summary.standings if s.arm.name == name)


def _titles(summary: Summary, weight: Weight) -> list[str]:
    return [flag.title for flag in summary.flags if flag.weight is weight]


def _rejected(trial: Trial) -> Trial:
    gate = Gate(name="steal", consequence=Consequence.REJECT, message="steal")
    return replace(trial, gates=(gate,))


def test_equals_share_a_rank_and_the_floor_has_none() -> None:
    summary = summarise(*_race("c", "a", "b", "floor"))
    assert next((s.arm.name, s.rank) for s in summary.standings) == ("floor", None)
    assert _standing(summary, "a").rank == _standing(summary, "b").rank == 1
    assert _standing(summary, "c").rank == 3
    assert summary.unit == "floor"
    multiple = _standing(summary, "c").multiple
    assert multiple is not None
    assert multiple.low < 2.25 < multiple.high
    assert len(_standing(summary, "c").multiples) == 9
    assert _standing(summary, "c").bound is Bound.SERVER
    assert summary.headline.startswith(
        "a and b use the least CPU per request and cannot be told apart; next is c with 1.79"
    )


def test_the_order_of_the_records_does_not_matter() -> None:
    run, trials = _race("a", "c", "floor")
    shuffled = list(trials)
    random.Random(3).shuffle(shuffled)
    assert summarise(run, shuffled) == summarise(run, trials)


def test_without_a_floor_the_baseline_is_the_unit() -> None:
    summary = summarise(*_race("a", "c"))
    assert summary.unit == "a"
    assert "The floor was not raced" in _titles(summary, Weight.CAUTION)


def test_an_arm_that_always_fails_is_failed_and_takes_nobody_along() -> None:
    run, trials = _race("a", "b", "c", "floor")
    trials = tuple(
        made.failed(t.kind, "b", index=t.index, block=t.block) if "b" in t.arms else t
        for t in trials
    )
    summary = summarise(run, trials)
    failed = _standing(summary, "b")
    assert failed.status is Status.FAILED
    assert (failed.cost_ns, failed.rate_rps, failed.multiple, failed.rank) == (None,) * 4
    assert failed.breakdowns[0].stderr == "bind: address in use"
    (flag,) = [f for f in summary.flags if f.weight is Weight.PROBLEM]
    assert flag.detail == "bind: address in use"
    words = {(c.arm, c.against): c.verdict for c in summary.comparisons}
    assert words["b", "a"] is words["c", "b"] is Verdict.FAILED
    assert words["c", "a"] is Verdict.SLOWER
    assert _standing(summary, "a").status is Status.MEASURED


def test_one_failure_costs_one_block_and_is_told() -> None:
    run, trials = _race("a", "c")
    duet = next(t for t in trials if t.kind is Kind.DUET)
    broken = made.failed(Kind.DUET, "c", "a", index=duet.index, block=duet.block)
    summary = summarise(run, [broken if t is duet else t for t in trials])
    assert _standing(summary, "c").status is Status.MEASURED
    (pair,) = summary.comparisons
    assert pair.ratio is not None
    assert pair.ratio.blocks == 8
    assert "c gave no number in 1 of 15 trials (ready)" in _titles(summary, Weight.PROBLEM)


def test_wrong_answers_are_invalid_and_have_no_number() -> None:
    run, trials = _race("a", "c")
    gate = Gate(name="errors", consequence=Consequence.INVALID, message="c: 3 body", arm="c")
    trials = tuple(replace(t, gates=(gate,)) if "c" in t.arms else t for t in trials)
    summary = summarise(run, trials)
    assert _standing(summary, "c").status is Status.INVALID
    assert _standing(summary, "c").cost_ns is None
    assert summary.comparisons[0].verdict is Verdict.INVALID
    assert _standing(summary, "a").status is Status.UNMEASURED, "its duets were all with c"


def test_a_machine_that_disturbs_more_than_a_fifth_decides_nothing() -> None:
    run, trials = _race("a", "c")
    again = [_rejected(replace(t, index=100 + t.index)) for t in trials if t.kind is Kind.DUET]
    calm = summarise(run, [*trials, *again[:2]])
    assert calm.comparisons[0].verdict is Verdict.SLOWER
    assert calm.trials_rejected == 2
    noisy = summarise(run, [*trials, *again[:3]])
    assert noisy.comparisons[0].verdict is Verdict.INVALID
    assert noisy.comparisons[0].ratio is None
    assert noisy.headline.startswith("No verdict: the machine disturbed 3 of 12 duets")
    assert {s.rank for s in noisy.standings} == {None}
    assert "Verdicts withheld" in _titles(noisy, Weight.PROBLEM)


def test_an_arm_that_is_rejected_more_often_than_others_gets_no_verdict() -> None:
    run = made.run(["a", "b", "c", "floor"], floor="floor")
    trials = made.trials(run, TRUTHS, blocks=20)
    again = [
        _rejected(replace(t, index=1000 + t.index))
        for t in trials
        if t.kind is Kind.DUET and "c" in t.arms and t.block < 12
    ]
    words = {(p.arm, p.against): p for p in summarise(run, [*trials, *again]).comparisons}
    assert words["c", "a"].verdict is Verdict.INVALID
    assert "not blind" in words["c", "a"].remarks[0]
    assert words["b", "a"].verdict is not Verdict.INVALID


def test_a_run_cut_short_says_how_many_blocks_are_missing() -> None:
    run, trials = _race("a", "c")
    (pair,) = summarise(run, [t for t in trials if t.block < 4]).comparisons
    assert pair.verdict is Verdict.INCONCLUSIVE
    assert pair.blocks_needed == 2
    assert pair.ratio is not None


def test_a_run_without_trials_is_a_summary_too() -> None:
    summary = summarise(made.run(["a", "c"]), ())
    assert summary.headline == "No ranking: too few trials counted."
    assert {s.status for s in summary.standings} == {Status.UNMEASURED}


def test_the_reference_has_one_reading_a_block() -> None:
    floor = _standing(summarise(*_race("a", "b", "c", "floor")), "floor")
    assert floor.cost_ns is not None
    assert floor.cost_ns.blocks == 9


def test_null_campaigns_rarely_call_a_difference() -> None:
    run = made.run(["a", "twin"])
    equal = {"a": Truth(cost_ns=5000), "twin": Truth(cost_ns=5000)}
    words = [
        summarise(run, made.trials(run, equal, solo_blocks=0, seed=seed)).comparisons[0].verdict
        for seed in range(40)
    ]
    # 40 campaigns at 5 %: up to 5 are within the 97.5 % bound.
    assert sum(word.tells_apart for word in words) <= 5


def test_a_twin_shows_the_noise_and_stands_in_no_ranking() -> None:
    run, trials = _race("a", "b", "c", "floor")
    summary = summarise(replace(run, twin="b"), trials)
    assert summary.twin is not None
    assert (summary.twin.arm, summary.twin.against) == ("b", "a")
    assert not summary.twin.proven
    assert "The noise of this sitting" in _titles(summary, Weight.NOTE)
    assert "b" not in {s.arm.name for s in summary.standings}
    assert all("b" not in {c.arm, c.against} for c in summary.comparisons)


def test_what_equal_servers_showed_is_no_effect_for_others() -> None:
    truths = {name: Truth(cost_ns=cost) for name, cost in {"a": 5000, "b": 5400, "c": 5300}.items()}
    run = replace(made.run(("a", "b", "c")), twin="b")
    summary = summarise(run, made.trials(run, truths, noise=Noise(duet=0.004)))
    assert "Equal servers were told apart" in _titles(summary, Weight.CAUTION)
    (pair,) = summary.comparisons
    assert pair.minimum_effect > 0.05
    assert pair.verdict is not Verdict.SLOWER


def test_arms_that_answer_something_else_are_not_comparable() -> None:
    run, trials = _race("a", "b", "floor")
    right = Answer(
        status=200, content_type="text/plain", body_sha256="x", body_bytes=13, head_bytes=80
    )
    given = {"a": right, "b": replace(right, body_bytes=14), "floor": replace(right, head_bytes=9)}
    answered = tuple(
        replace(t, lanes=tuple(replace(lane, answer=given[lane.arm]) for lane in t.lanes))
        for t in trials
    )
    titles = _titles(summarise(run, answered), Weight.CAUTION)
    assert "b and a are not comparable" in titles
    assert not any(title.startswith("floor and") for title in titles)
