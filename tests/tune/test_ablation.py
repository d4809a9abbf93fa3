import math
from collections.abc import Mapping

import pytest

from jissoku.design import variants as plan
from jissoku.inference import ablation
from jissoku.inference.ablation import KnobEvidence
from jissoku.model import (
    ChangeKind,
    Comparison,
    CounterReadings,
    Decision,
    Estimate,
    Knob,
    KnobChange,
    Load,
    LoadLevel,
    TrialKind,
    Verdict,
)
from jissoku.model.recipe import Direction
from jissoku.model.trial import VerifiedResponse
from jissoku.model.updated import updated
from tests.inference import factories
from tests.inference.factories import QUIETEST, Noise, TrueValues

KNOB = Knob(
    name="cache",
    why="It is tested.",
    counter="openat",
    change=(KnobChange(kind=ChangeKind.DIRECTIVE, name="open_file_cache", value="max=10"),),
)
BASE = CounterReadings(requests=400, per_request={"openat": 1.0, "connections": 0.1})
SWITCHED = CounterReadings(requests=400, per_request={"connections": 0.1})


def said(verdict: Verdict, *, proven: bool = True) -> Comparison:
    return Comparison(arm="a", against="b", verdict=verdict, proven=proven)


def findings(**changes: object) -> KnobEvidence:
    whole = KnobEvidence(
        knob=KNOB,
        alone=said(Verdict.LOWER),
        leave_one_out=said(Verdict.HIGHER),
        base=BASE,
        switched=SWITCHED,
        same_answers=True,
    )
    return updated(whole, **changes)  # type: ignore[arg-type]


def test_the_arms_are_base_each_alone_all_and_all_but_each() -> None:
    knobs = ("a", "b", "c")
    assert [one.knobs for one in plan.one_at_a_time(knobs)] == [(), ("a",), ("b",), ("c",)]
    left = [knobs, ("b", "c"), ("a", "c"), ("a", "b")]
    assert [one.knobs for one in plan.leave_one_out(knobs)] == left
    assert plan.leave_one_out(("a",)) == ()


@pytest.mark.parametrize(
    ("changes", "decision"),
    [
        ({}, Decision.ACCEPTED),
        ({"leave_one_out": None}, Decision.ACCEPTED),
        ({"alone": said(Verdict.EQUAL)}, Decision.ACCEPTED),  # needs the others, and pays there
        ({"alone": said(Verdict.LOWER, proven=False), "leave_one_out": None}, Decision.UNDECIDED),
        ({"alone": said(Verdict.SLIGHTLY_LOWER), "leave_one_out": None}, Decision.NO_GAIN),
        ({"alone": said(Verdict.HIGHER), "leave_one_out": said(Verdict.LOWER)}, Decision.NO_GAIN),
        ({"alone": said(Verdict.INCONCLUSIVE), "leave_one_out": None}, Decision.UNDECIDED),
        ({"leave_one_out": said(Verdict.INCONCLUSIVE)}, Decision.UNDECIDED),
        ({"switched": BASE}, Decision.COUNTER_UNCHANGED),
        ({"switched": BASE, "alone": said(Verdict.INCONCLUSIVE)}, Decision.COUNTER_UNCHANGED),
        ({"base": SWITCHED, "switched": BASE}, Decision.COUNTER_UNCHANGED),
        (
            {"base": CounterReadings(requests=400, syscalls_reason="no strace")},
            Decision.COUNTER_UNAVAILABLE,
        ),
        ({"same_answers": False}, Decision.DIFFERENT),
        ({"alone": said(Verdict.FAILED)}, Decision.BROKEN),
        ({"alone": said(Verdict.INVALID)}, Decision.UNDECIDED),
        ({"alone": said(Verdict.UNREACHED)}, Decision.UNDECIDED),
    ],
)
def test_a_knob_is_decided(changes: Mapping[str, object], decision: Decision) -> None:
    assert ablation.decide_knobs([findings(**changes)])[0].decision is decision


def test_of_two_that_do_the_same_the_better_one_is_kept() -> None:
    redundant = said(Verdict.EQUAL)
    good, better = (
        findings(
            knob=updated(KNOB, name=name),
            alone=updated(said(Verdict.LOWER), ratio=ratio(value)),
            leave_one_out=redundant,
        )
        for name, value in (("good", 0.9), ("better", 0.8))
    )
    decided = {r.knob.name: r.decision for r in ablation.decide_knobs([good, better])}
    assert decided == {"good": Decision.REDUNDANT, "better": Decision.ACCEPTED}


def ratio(value: float) -> Estimate:
    return Estimate(value=value, low=value * 0.99, high=value * 1.01, blocks=9, sd_log=0.01)


@pytest.mark.parametrize(
    ("before", "after", "moves", "moved"),
    [
        (1.0, 0.0, Direction.FALLS, True),
        (1.0, 0.95, Direction.FALLS, False),
        (0.0, 1.0, Direction.FALLS, False),
        (0.0, 1.0, Direction.RISES, True),
        (0.0, 0.0, Direction.RISES, False),
        (0.0, 0.005, Direction.RISES, False),
    ],
)
def test_a_counter_has_moved(before: float, after: float, moves: Direction, *, moved: bool) -> None:
    assert ablation.has_changed(before, after, moves) is moved


def test_a_call_that_never_came_is_none_and_one_not_watched_is_unknown() -> None:
    assert ablation.counter_value(SWITCHED, "openat") == 0.0
    blind = CounterReadings(
        requests=400, per_request={"connections": 0.1}, syscalls_reason="no strace"
    )
    assert ablation.counter_value(blind, "openat") is None
    assert ablation.counter_value(blind, "connections") == 0.1
    assert ablation.counter_value(SWITCHED, "segments") is None


def test_injected_effects_are_found_and_equal_ones_are_not() -> None:
    header = factories.sliced([plan.BASELINE, "with a", "with b", plan.ALL])
    truths = {
        plan.BASELINE: TrueValues(cost_ns=10_000),
        "with a": TrueValues(cost_ns=9_000),
        "with b": TrueValues(cost_ns=10_000),
        plan.ALL: TrueValues(cost_ns=9_000),
    }
    trials = factories.trials(header, truths, noise=Noise(own=0.003))
    found = ablation.against_baseline(header, trials)
    assert set(found) == {"with a", "with b", plan.ALL}
    assert ablation.is_confirmed(found["with a"])
    assert ablation.is_confirmed(found[plan.ALL])
    assert not ablation.is_confirmed(found["with b"])
    effect = found["with a"].ratio
    assert effect is not None
    assert math.isclose(effect.value, 0.9, rel_tol=0.02)


def test_other_bytes_are_other_answers() -> None:
    answer = VerifiedResponse(
        status=200, content_type="a", body_sha256="1", body_bytes=1, head_bytes=9
    )
    measurements = [
        factories.arm_measurement("a", response=answer),
        factories.arm_measurement("b", response=updated(answer, head_bytes=8)),
    ]
    other = factories.arm_measurement("c", response=updated(answer, body_sha256="2"))
    trial = factories.trial(TrialKind.PAIRED, *measurements, other)
    assert ablation.same_answers([trial], ("a", "b"))
    assert not ablation.same_answers([trial], ("a", "c"))
    assert not ablation.same_answers([], ("a", "b"))


def test_every_arm_is_held_against_the_baseline_at_the_heaviest_load_alone() -> None:
    loads = (Load(rate_rps=1_000, level=LoadLevel.LIGHT), factories.MIDDLE)
    header = factories.sliced([plan.BASELINE, "with a", "with b"], loads=loads)
    truths = {name: TrueValues(cost_ns=10_000) for name in (plan.BASELINE, "with a", "with b")}
    found = ablation.against_baseline(header, factories.trials(header, truths))
    assert {one.against for one in found.values()} == {plan.BASELINE}
    assert {one.load for one in found.values()} == {factories.MIDDLE}
    p_values = [one.p_value for one in found.values() if one.p_value is not None]
    least = min(found.values(), key=lambda one: one.p_value or 1.0)
    assert least.p_holm == pytest.approx(min(1.0, 2 * min(p_values))), "two comparisons"


def test_an_effect_that_is_not_there_alone_is_no_gain() -> None:
    """A configuration that saves only beside others on the core saves its users nothing."""
    header = factories.sliced([plan.BASELINE, "with a"])
    truths = {
        plan.BASELINE: TrueValues(cost_ns=10_000),
        "with a": TrueValues(cost_ns=9_000, alone=1.3),
    }
    found = ablation.against_baseline(header, factories.trials(header, truths, noise=QUIETEST))[
        "with a"
    ]
    assert found.verdict is Verdict.DISPUTED
    assert not ablation.is_confirmed(found)
    assert ablation.decide_knobs([findings(alone=found, leave_one_out=None)])[0].decision is (
        Decision.UNDECIDED
    )


def test_an_arm_that_never_met_the_baseline_is_undecided() -> None:
    header = factories.sliced([plan.BASELINE, "with a", "with b"])
    truths = {name: TrueValues(cost_ns=10_000) for name in (plan.BASELINE, "with a")}
    trials = factories.trials(factories.sliced(list(truths)), truths)
    found = ablation.against_baseline(header, trials)["with b"]
    assert (found.verdict, found.remarks) == (
        Verdict.INVALID,
        ("no trial of the two together counts",),
    )
