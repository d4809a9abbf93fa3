"""Which knobs need timed trials, and when one has had enough of them."""

import pytest

from jissoku.inference import ablation
from jissoku.model import Comparison, CounterReadings, Decision, Estimate, Knob, Verdict
from jissoku.model.recipe import Direction
from jissoku.model.updated import updated
from tests.tune.test_ablation import KNOB

SLIGHT = Verdict.SLIGHTLY_LOWER
BASE = CounterReadings(requests=400, per_request={"openat": 1.0, "connections": 0.1})
SAME = CounterReadings(requests=400, per_request={"openat": 1.0, "connections": 0.1})
MOVED = CounterReadings(requests=400, per_request={"connections": 0.1})
BROKEN = CounterReadings(requests=0, syscalls_reason="it died")
BLIND = CounterReadings(requests=400, syscalls_reason="no strace")


@pytest.mark.parametrize(
    ("knob", "base", "switched", "decision"),
    [
        (KNOB, BASE, SAME, Decision.COUNTER_UNCHANGED),
        (KNOB, MOVED, BASE, Decision.COUNTER_UNCHANGED),
        (KNOB, BASE, BROKEN, Decision.BROKEN),
        (KNOB, BASE, MOVED, None),
        (updated(KNOB, direction=Direction.RISES), MOVED, BASE, None),
        (KNOB, BLIND, BLIND, None),
        (KNOB, BASE, BLIND, None),
        (updated(KNOB, counter="connections"), BASE, MOVED, Decision.COUNTER_UNCHANGED),
        # What it counts needs trials under load.
        (updated(KNOB, counter="user_us"), BASE, SAME, None),
    ],
)
def test_a_knob_whose_counter_stays_needs_no_timed_trial(
    knob: Knob, base: CounterReadings, switched: CounterReadings, decision: Decision | None
) -> None:
    found = ablation.without_trials(knob, base, switched)
    assert (found.decision if found else None) is decision
    if decision is Decision.BROKEN:
        assert found is not None
        assert found.sentence == "it died"


def measured(low: float, high: float, *, proven: bool = False) -> Comparison:
    ratio = Estimate(value=(low * high) ** 0.5, low=low, high=high, blocks=3, sd_log=0.01)
    return Comparison(
        arm="with it",
        against="as it is",
        verdict=Verdict.LOWER if proven else Verdict.INCONCLUSIVE,
        proven=proven,
        ratio=ratio,
        minimum_effect=0.01,
    )


@pytest.mark.parametrize(
    ("found", "aim", "is_settled"),
    [
        (measured(0.8, 0.9, proven=True), Verdict.LOWER, True),
        (updated(measured(0.75, 0.995, proven=True), verdict=SLIGHT), Verdict.LOWER, False),
        (updated(measured(0.992, 0.997, proven=True), verdict=SLIGHT), Verdict.LOWER, True),
        (updated(measured(0.75, 0.995, proven=True), verdict=SLIGHT), Verdict.HIGHER, True),
        (measured(0.8, 0.9), Verdict.LOWER, False),  # Not with all knobs counted.
        (measured(0.995, 1.05), Verdict.LOWER, True),
        (measured(0.985, 1.05), Verdict.LOWER, False),
        (measured(0.95, 1.005), Verdict.HIGHER, True),
        (measured(0.95, 1.015), Verdict.HIGHER, False),
        (updated(measured(1, 1), ratio=None), Verdict.LOWER, False),
    ],
)
def test_a_knob_that_surely_does_not_pay_is_measured_no_longer(
    found: Comparison, aim: Verdict, *, is_settled: bool
) -> None:
    assert ablation.is_settled(found, aim) is is_settled


def test_what_excludes_a_gain_decides() -> None:
    evidence = ablation.KnobEvidence(
        knob=KNOB,
        alone=measured(0.995, 1.05),
        leave_one_out=None,
        base=BASE,
        switched=MOVED,
        same_answers=True,
    )
    open_one = updated(evidence, alone=measured(0.97, 1.05))
    decisions = [found.decision for found in ablation.decide_knobs([evidence, open_one])]
    assert decisions == [Decision.NO_GAIN, Decision.UNDECIDED]
