"""Sweeps of small servers that the test wrote: what is recorded, and in which order."""

import dataclasses
import os
import signal

import pytest

from jissoku import records, stats
from jissoku.errors import InputError
from jissoku.model import Axis, Kind, Mode, Sweep, Trial, Workload
from jissoku.pipeline import Climbing, climb
from jissoku.pipeline.bench import Window
from tests.pipeline.conftest import BRIEF, Asks, Deaf, asks

__all__ = ["asks"]

# A sweep takes a few seconds, and a machine may be busy.
pytestmark = pytest.mark.timeout(240)

LEVELS = (1, 2, 3, 4, 5, 6)


def climbing(asks: Asks, axis: Axis, levels: tuple[int, ...] = LEVELS) -> Climbing:
    question = asks({"one": ""})
    return Climbing(
        contestants=question.contestants,
        missing=(),
        sweep=Sweep(axis=axis, levels=levels, blocks=1),
        workload=Workload(connections=2),
        mode=Mode.QUICK,
        window=Window(BRIEF.warmup_ns, BRIEF.window_ns),
        seed=1,
        cores=question.cores,
        folder=question.folder,
        version=question.version,
    )


@pytest.mark.race
def test_every_level_is_measured_and_recorded(asks: Asks) -> None:
    question = climbing(asks, Axis.CONNECTIONS)
    heard = Deaf()
    assert climb(question, heard)
    run, trials = records.read(question.folder)
    assert records.read_sweep(question.folder) == question.sweep
    assert trials == tuple(heard.trials)
    first = [trial for trial in trials if trial.attempt == 0]
    assert sorted(trial.workload.connections for trial in first) == list(LEVELS)
    assert all(trial.level == trial.workload.connections for trial in trials)
    assert all(trial.kind is Kind.SOLO_RATE for trial in trials)
    summary = stats.summarise_sweep(run, question.sweep, trials)
    assert [rung.level for rung in summary.climbs[0].rungs] == list(LEVELS)


@pytest.mark.race
def test_rates_are_chosen_after_a_pilot(asks: Asks) -> None:
    question = climbing(asks, Axis.RATE, levels=())
    assert climb(question, Deaf())
    _, trials = records.read(question.folder)
    assert trials[0].level is None
    assert trials[0].kind is Kind.SOLO_RATE
    offered = {trial.level for trial in trials if trial.level is not None}
    assert len(offered) >= 6
    assert all(t.workload.rate_rps == t.level for t in trials if t.level is not None)


def test_a_target_without_workers_cannot_be_swept_over_them(asks: Asks) -> None:
    with pytest.raises(InputError, match="one takes no number of workers"):
        climb(climbing(asks, Axis.WORKERS), Deaf())


def test_an_interruption_keeps_what_was_finished(asks: Asks) -> None:
    question = climbing(asks, Axis.CONNECTIONS)

    def stop(trial: Trial) -> None:
        if trial.index == 2:
            os.kill(os.getpid(), signal.SIGINT)

    assert not climb(question, Deaf(stop))
    run, trials = records.read(question.folder)
    assert len(trials) == 3
    assert stats.summarise_sweep(run, question.sweep, trials).trials_total == 3


def test_a_level_at_which_a_target_fails_is_left_after_two(asks: Asks) -> None:
    question = climbing(asks, Axis.CONNECTIONS)
    broken = asks({"broken": "raise SystemExit(3)"})
    question = dataclasses.replace(
        question,
        contestants=broken.contestants,
        sweep=dataclasses.replace(question.sweep, blocks=4),
    )
    assert climb(question, Deaf())
    _, trials = records.read(question.folder)
    assert len(trials) == 2 * len(LEVELS)
    assert all(trial.failure is not None for trial in trials)
