import math
from collections.abc import Mapping
from dataclasses import replace

import pytest

from jissoku.design import ablation as plan
from jissoku.model import (
    Answer,
    Change,
    Comparison,
    Counts,
    Decision,
    Estimate,
    Kind,
    Knob,
    Moves,
    Verdict,
    What,
)
from jissoku.stats import ablation
from jissoku.stats.ablation import Findings
from tests.stats import made
from tests.stats.made import Noise, Truth

KNOB = Knob(
    name="cache",
    why="It is tested.",
    counter="openat",
    change=(Change(what=What.DIRECTIVE, name="open_file_cache", value="max=10"),),
)
BASE = Counts(requests=400, per_request={"openat": 1.0, "connections": 0.1})
SWITCHED = Counts(requests=400, per_request={"connections": 0.1})


def said(verdict: Verdict, *, proven: bool = True) -> Comparison:
    return Comparison(arm="a", against="b", verdict=verdict, proven=proven)


def findings(**changes: object) -> Findings:
    whole = Findings(
        knob=KNOB,
        alone=said(Verdict.FASTER),
        without=said(Verdict.SLOWER),
        base=BASE,
        switched=SWITCHED,
        same_answers=True,
    )
    return replace(whole, **changes)  # type: ignore[arg-type]


def test_the_arms_are_base_each_alone_all_and_all_but_each() -> None:
    knobs = ("a", "b", "c")
    assert [one.knobs for one in plan.alone(knobs)] == [(), ("a",), ("b",), ("c",), knobs]
    left = [knobs, ("b", "c"), ("a", "c"), ("a", "b")]
    assert [one.knobs for one in plan.without(knobs)] == left
    assert plan.without(("a",)) == ()
    assert [one.knobs for one in plan.alone(("a",))] == [(), ("a",)]


@pytest.mark.parametrize(
    ("changes", "decision"),
    [
        ({}, Decision.ACCEPTED),
        ({"without": None}, Decision.ACCEPTED),
        ({"alone": said(Verdict.EQUAL)}, Decision.ACCEPTED),  # needs the others, and pays there
        ({"alone": said(Verdict.FASTER, proven=False), "without": None}, Decision.NO_GAIN),
        ({"alone": said(Verdict.SLIGHTLY_FASTER), "without": None}, Decision.NO_GAIN),
        ({"alone": said(Verdict.SLOWER), "without": said(Verdict.FASTER)}, Decision.NO_GAIN),
        ({"alone": said(Verdict.INCONCLUSIVE), "without": None}, Decision.UNDECIDED),
        ({"without": said(Verdict.INCONCLUSIVE)}, Decision.UNDECIDED),
        ({"switched": BASE}, Decision.UNMOVED),
        ({"base": SWITCHED, "switched": BASE}, Decision.UNMOVED),
        ({"base": Counts(requests=400, calls_reason="no strace")}, Decision.UNWATCHED),
        ({"same_answers": False}, Decision.DIFFERENT),
        ({"alone": said(Verdict.FAILED)}, Decision.BROKEN),
        ({"alone": said(Verdict.INVALID)}, Decision.UNDECIDED),
    ],
)
def test_a_knob_is_decided(changes: Mapping[str, object], decision: Decision) -> None:
    assert ablation.decide([findings(**changes)])[0].decision is decision


def test_of_two_that_do_the_same_the_better_one_is_kept() -> None:
    redundant = said(Verdict.EQUAL)
    good, better = (
        findings(
            knob=replace(KNOB, name=name),
            alone=replace(said(Verdict.FASTER), ratio=ratio(value)),
            without=redundant,
        )
        for name, value in (("good", 0.9), ("better", 0.8))
    )
    decided = {r.knob.name: r.decision for r in ablation.decide([good, better])}
    assert decided == {"good": Decision.REDUNDANT, "better": Decision.ACCEPTED}


def ratio(value: float) -> Estimate:
    return Estimate(value=value, low=value * 0.99, high=value * 1.01, blocks=9, spread=0.01)


@pytest.mark.parametrize(
    ("before", "after", "moves", "moved"),
    [
        (1.0, 0.0, Moves.FALLS, True),
        (1.0, 0.95, Moves.FALLS, False),
        (0.0, 1.0, Moves.FALLS, False),
        (0.0, 1.0, Moves.RISES, True),
        (0.0, 0.0, Moves.RISES, False),
        (0.0, 0.005, Moves.RISES, False),
    ],
)
def test_a_counter_has_moved(before: float, after: float, moves: Moves, *, moved: bool) -> None:
    assert ablation.has_moved(before, after, moves) is moved


def test_a_call_that_never_came_is_none_and_one_not_watched_is_unknown() -> None:
    assert ablation.reading(SWITCHED, "openat") == 0.0
    blind = Counts(requests=400, per_request={"connections": 0.1}, calls_reason="no strace")
    assert ablation.reading(blind, "openat") is None
    assert ablation.reading(blind, "connections") == 0.1
    assert ablation.reading(SWITCHED, "segments") is None


def test_planted_effects_are_found_and_equal_ones_are_not() -> None:
    header = made.run([plan.AS_IT_IS, "with a", "with b", plan.ALL])
    truths = {
        plan.AS_IT_IS: Truth(cost_ns=10_000),
        "with a": Truth(cost_ns=9_000),
        "with b": Truth(cost_ns=10_000),
        plan.ALL: Truth(cost_ns=9_000),
    }
    trials = made.trials(header, truths, noise=Noise(duet=0.004))
    found = ablation.against_baseline(header, trials)
    assert set(found) == {"with a", "with b", plan.ALL}
    assert ablation.holds(found["with a"])
    assert ablation.holds(found[plan.ALL])
    assert not ablation.holds(found["with b"])
    effect = found["with a"].ratio
    assert effect is not None
    assert math.isclose(effect.value, 0.9, rel_tol=0.02)


def test_other_bytes_are_other_answers() -> None:
    answer = Answer(status=200, content_type="a", body_sha256="1", body_bytes=1, head_bytes=9)
    lanes = [made.lane("a", answer=answer), made.lane("b", answer=replace(answer, head_bytes=8))]
    other = made.lane("c", answer=replace(answer, body_sha256="2"))
    trial = made.trial(Kind.DUET, *lanes, other)
    assert ablation.same_answers([trial], ("a", "b"))
    assert not ablation.same_answers([trial], ("a", "c"))
    assert not ablation.same_answers([], ("a", "b"))
