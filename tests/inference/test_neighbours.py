"""Other programs are a condition of a result: they withhold nothing, and every sentence says so."""

import pytest

from jissoku.inference import summarise
from jissoku.inference.blocks import neighbours
from jissoku.model import Condition, CrossCheckName, Metric, Trial, TrialKind
from jissoku.model.updated import updated
from tests.inference import factories
from tests.inference.factories import TrueValues

TRUTHS = {"a": TrueValues(cost_ns=5000), "b": TrueValues(cost_ns=9000)}


def seen(**changes: object) -> Trial:
    trial = factories.trial(TrialKind.FIXED_RATE, factories.arm_measurement())
    return updated(trial, conditions=updated(factories.QUIET, **changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "condition"),
    [
        ({}, Condition.QUIET),
        ({"foreign_fraction": None}, Condition.QUIET),
        ({"foreign_fraction": 0.06}, Condition.QUIET),  # a tick of 10 ms is rounding
        ({"foreign_fraction": 0.07}, Condition.SHARED),
        ({"foreign_fraction": 0.40}, Condition.SHARED),
        ({"foreign_fraction": 0.42}, Condition.BUSY),
        ({"foreign_fraction": 1.8}, Condition.BUSY),
        ({"generator_wait_fraction": 0.3}, Condition.SHARED),
        ({"generator_wait_fraction": 0.3, "generator_busy_polls": False}, Condition.QUIET),
        ({"steal_fraction": 0.3, "server_cores_busy_fraction": 0.5}, Condition.QUIET),
        ({"steal_fraction": 0.3, "server_cores_busy_fraction": 0.95}, Condition.SHARED),
    ],
)
def test_the_share_of_others_is_the_condition(
    changes: dict[str, object], condition: Condition
) -> None:
    assert neighbours([seen(**changes)]).condition is condition


def test_no_share_is_more_than_all() -> None:
    assert neighbours([seen(foreign_fraction=1.8)]).share == 1.0
    assert neighbours([]).share == 0.0


def test_a_run_beside_a_busy_program_has_its_verdict_and_says_so() -> None:
    run = factories.sliced("ab")
    trials = [factories.beside(trial, 0.48) for trial in factories.trials(run, TRUTHS)]
    found = summarise(run, trials)
    (cost,) = found.by(Metric.COST)
    assert cost.proven
    assert (cost.condition, cost.other_programs) == (Condition.BUSY, 0.48)
    assert cost.sentence.endswith("(proven), beside other programs that used 48 % of the cores")
    assert "beside other programs that used 48 % of the cores" in found.headline
    assert (found.condition, found.other_programs) == (Condition.BUSY, 0.48)
    titles = [warning.title for warning in found.warnings]
    assert titles.count("Other programs ran beside the measurement") == 1
    assert not any("rejected" in title for title in titles)


def test_a_quiet_run_does_not_speak_of_it() -> None:
    run = factories.sliced("ab")
    found = summarise(run, factories.trials(run, TRUTHS))
    assert found.condition is Condition.QUIET
    assert "beside" not in found.headline


def test_a_disturbed_cross_check_is_a_missing_one() -> None:
    run = factories.sliced("ab")
    truths = TRUTHS | {"b": updated(TRUTHS["b"], alone=0.4)}
    trials = factories.trials(run, truths)
    (against,) = summarise(run, trials).by(Metric.COST)
    assert not against.proven
    noisy = [
        factories.beside(trial, 0.5) if trial.kind is TrialKind.FIXED_RATE else trial
        for trial in trials
    ]
    (found,) = summarise(run, noisy).by(Metric.COST)
    assert [check.name for check in found.cross_checks] == [CrossCheckName.OTHER_SLICE]
    assert found.proven
