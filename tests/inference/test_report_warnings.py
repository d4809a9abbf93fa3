"""Report warnings that depend on trials only."""

import random
from collections.abc import Callable

import pytest

from jissoku.inference.sentences import report_warnings
from jissoku.model import (
    CheckOutcome,
    FailedCheck,
    Load,
    LoadLevel,
    ReportWarning,
    Severity,
    Trial,
    TrialKind,
    Workload,
)
from jissoku.model.updated import updated
from tests.inference import factories

TURN_NS, OTHER_TURN_NS = 200_000_000, 100_000_000
MIDDLE = Load(rate_rps=5_000, level=LoadLevel.MEDIUM)
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
    run = factories.run(["a", "floor"], floor=floor, loads=(MIDDLE, HEAVY))
    run = updated(run, slice_ns=TURN_NS, check_slice_ns=OTHER_TURN_NS)
    return [
        warning
        for warning in report_warnings(run, trials, (), ())
        if "machine changed" in warning.title
    ]


def test_a_floor_that_moves_is_reported_with_its_load() -> None:
    (warning,) = _changes([*_trials(MIDDLE, _steady), *_trials(HEAVY, _rising)])
    assert warning.severity is Severity.WARNING
    assert warning.title == "The machine changed during the run"
    assert "At 20,000 requests/s (heavy load) the floor's CPU time per request moved by +4." in (
        warning.text
    )


def test_each_load_at_which_it_moves_is_reported() -> None:
    assert len(_changes([*_trials(MIDDLE, _rising), *_trials(HEAVY, _rising)])) == 2


def test_a_floor_that_becomes_cheaper_moved_too() -> None:
    (warning,) = _changes(_trials(MIDDLE, lambda block: 1e8 / _rising(block)))
    assert "moved by -4." in warning.text


@pytest.mark.parametrize(
    "trials",
    [
        _trials(MIDDLE, _steady),
        _trials(MIDDLE, lambda block: 10_000 * (1 + 0.02 * block / (BLOCKS - 1))),
        _trials(MIDDLE, _rising, spread=0.10),
        _trials(MIDDLE, _rising, blocks=5),
        [],
    ],
    ids=["steady", "less than 3 %", "lost in the noise", "too few blocks", "no trials"],
)
def test_no_warning_for(trials: list[Trial]) -> None:
    assert _changes(trials) == []


def test_a_run_without_a_floor_has_no_such_flag() -> None:
    assert _changes(_trials(MIDDLE, _rising), floor="") == []


def test_only_trials_that_count_are_looked_at() -> None:
    check = FailedCheck(name="steal", outcome=CheckOutcome.REJECT, message="steal")
    disturbed = [updated(trial, failed_checks=(check,)) for trial in _trials(MIDDLE, _rising)]
    assert _changes(disturbed) == []


def test_turns_of_the_other_length_do_not_mix_in() -> None:
    """They come first in a block, and only in the first blocks."""
    other = [
        updated(_sliced(block, MIDDLE, 9_000), slice_ns=OTHER_TURN_NS, index=-1)
        for block in range(3)
    ]
    assert _changes([*other, *_trials(MIDDLE, _steady)]) == []
