"""Which trials count, and the cost of a request in them."""

import math
from typing import Any

import pytest

from jissoku.inference.blocks import ComparisonInput, loads_of, log_cost, log_ratios, valid_trials
from jissoku.model import Load, LoadLevel, Method, TrialKind, Workload
from jissoku.model.updated import updated
from tests.inference import factories
from tests.inference.factories import TrueValues

LIGHT = Load(rate_rps=1_000, level=LoadLevel.LIGHT)
TRUTHS = {"a": TrueValues(cost_ns=5000), "b": TrueValues(cost_ns=6000)}


def test_the_first_trial_of_a_block_counts() -> None:
    run = factories.sliced("ab")
    trials = factories.trials(run, TRUTHS, blocks=2, check_blocks=0, solo_blocks=0)
    again = updated(trials[0], index=99)
    found = valid_trials([again, *trials]).paired(TrialKind.TIME_SLICED, "a", "b")
    assert [trial.index for trial in found.values()] == [0, 1]
    disturbed = [factories.rejected(trials[0]), again, trials[1]]
    found = valid_trials(disturbed).paired(TrialKind.TIME_SLICED, "a", "b")
    assert [found[block].index for block in (0, 1)] == [99, 1]


def test_housekeeping_is_not_charged_to_requests() -> None:
    measurement = factories.arm_measurement(
        cpu_ns=120_000_000,
        duration_ns=3_000_000_000,
        active_duration_ns=1_000_000_000,
        slice_cpu_ns=(100_000_000,),
        idle_cpu_ns_per_s=5_000_000,
    )
    cost = log_cost(factories.trial(TrialKind.TIME_SLICED, measurement), "a")
    assert cost is not None
    assert math.exp(cost) == pytest.approx(110_000_000 / 20_000)


@pytest.mark.parametrize("changes", [{"cpu_ns": None}, {"cpu_ns": 0}, {"requests": 0}])
def test_what_was_not_seen_has_no_cost(changes: dict[str, Any]) -> None:
    assert (
        log_cost(factories.trial(TrialKind.TIME_SLICED, factories.arm_measurement(**changes)), "a")
        is None
    )


def test_a_ratio_needs_both_arms() -> None:
    trial = factories.trial(
        TrialKind.TIME_SLICED,
        factories.arm_measurement("a"),
        factories.arm_measurement("b", cpu_ns=None),
    )
    assert log_ratios({0: trial}, "b", "a") == {}


def test_a_run_in_slices_is_read_in_turns_of_its_own_length() -> None:
    run = factories.sliced("ab", loads=(LIGHT, factories.MIDDLE))
    trials = factories.trials(run, TRUTHS)
    evidence = ComparisonInput(run, valid_trials(trials), {}, run.loads)
    found = evidence.at(LIGHT).trials
    assert {trial.load_rps for trial in found} == {1_000}
    assert {trial.slice_ns for trial in found if trial.kind is TrialKind.TIME_SLICED} == {
        factories.TURN_NS
    }
    assert len([trial for trial in found if trial.kind is TrialKind.TIME_SLICED]) == 9


def test_a_run_of_paired_trials_is_evaluated_without_its_sliced_cross_check() -> None:
    run = factories.run(
        "ab", method=Method.PAIRED, loads=(factories.MIDDLE,), slice_ns=factories.TURN_NS
    )
    trials = factories.trials(run, TRUTHS)
    assert any(trial.kind is TrialKind.TIME_SLICED for trial in trials)
    found = ComparisonInput(run, valid_trials(trials), {}, run.loads).at(factories.MIDDLE).trials
    assert {trial.kind for trial in found} == {TrialKind.PAIRED, TrialKind.FIXED_RATE}


def test_loads_of_an_older_record_are_the_rates_at_which_arms_met() -> None:
    pairs = [
        factories.trial(
            TrialKind.PAIRED,
            factories.arm_measurement("a"),
            factories.arm_measurement("b"),
            workload=Workload(rate_rps=rate),
        )
        for rate in (10_000, 500)
    ]
    alone = factories.trial(TrialKind.CLOSED_LOOP, factories.arm_measurement("a"))
    found = loads_of(factories.run("ab"), (*pairs, alone))
    assert [(load.rate_rps, load.level) for load in found] == [
        (1_000, LoadLevel.GIVEN),
        (20_000, LoadLevel.GIVEN),
    ]
    assert loads_of(factories.sliced("ab"), (*pairs, alone)) == (factories.MIDDLE,)
