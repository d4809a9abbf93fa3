"""Sweeps of small servers written by the test: their records and their order."""

import os
import signal

import pytest

from jissoku import inference, records
from jissoku.errors import InputError
from jissoku.measure.loadgen import TrialTiming
from jissoku.measure.sweep import SweepConfig, run_sweep
from jissoku.model import Axis, Mode, Sweep, Trial, TrialKind, Workload
from jissoku.model.updated import updated
from tests.measure.conftest import BRIEF, Asks, CollectingListener, asks

__all__ = ["asks"]

# A sweep takes a few seconds, and a machine may be busy.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

LEVELS = (1, 2, 3, 4, 5, 6)


def climbing(asks: Asks, axis: Axis, levels: tuple[int, ...] = LEVELS) -> SweepConfig:
    config = asks({"one": ""})
    return SweepConfig(
        arms_prepared=config.arms_prepared,
        sweep=Sweep(axis=axis, levels=levels, blocks=1),
        workload=Workload(connections=2),
        mode=Mode.QUICK,
        window=TrialTiming(BRIEF.warmup_ns, BRIEF.window_ns),
        seed=1,
        cores=config.cores,
        folder=config.folder,
        version=config.version,
    )


@pytest.mark.race
def test_every_level_is_measured_and_recorded(asks: Asks) -> None:
    config = climbing(asks, Axis.CONNECTIONS)
    collected = CollectingListener()
    assert run_sweep(config, collected)
    run, trials = records.read(config.folder)
    assert records.read_sweep(config.folder) == config.sweep
    assert trials == tuple(collected.trials)
    first = [trial for trial in trials if trial.attempt == 0]
    assert sorted(trial.workload.connections for trial in first) == list(LEVELS)
    assert all(trial.level == trial.workload.connections for trial in trials)
    assert all(trial.kind is TrialKind.CLOSED_LOOP for trial in trials)
    summary = inference.summarise_sweep(run, config.sweep, trials)
    assert [result.level for result in summary.targets[0].results] == list(LEVELS)


@pytest.mark.race
def test_rates_are_chosen_after_a_pilot(asks: Asks) -> None:
    config = climbing(asks, Axis.RATE, levels=())
    assert run_sweep(config, CollectingListener())
    _, trials = records.read(config.folder)
    assert trials[0].level is None
    assert trials[0].kind is TrialKind.CLOSED_LOOP
    offered = {trial.level for trial in trials if trial.level is not None}
    assert len(offered) >= 6
    assert all(t.workload.rate_rps == t.level for t in trials if t.level is not None)


def test_a_target_without_workers_cannot_be_swept_over_them(asks: Asks) -> None:
    with pytest.raises(InputError, match="one takes no number of workers"):
        run_sweep(climbing(asks, Axis.WORKERS), CollectingListener())


def test_an_interruption_keeps_what_was_finished(asks: Asks) -> None:
    config = climbing(asks, Axis.CONNECTIONS)

    def stop(trial: Trial) -> None:
        if trial.index == 2:
            os.kill(os.getpid(), signal.SIGINT)

    assert not run_sweep(config, CollectingListener(stop))
    run, trials = records.read(config.folder)
    assert len(trials) == 3
    assert inference.summarise_sweep(run, config.sweep, trials).trials_total == 3


def test_a_level_at_which_a_target_fails_is_left_after_two(asks: Asks) -> None:
    config = climbing(asks, Axis.CONNECTIONS)
    broken = asks({"broken": "raise SystemExit(3)"})
    config = updated(
        config,
        arms_prepared=broken.arms_prepared,
        sweep=updated(config.sweep, blocks=4),
    )
    assert run_sweep(config, CollectingListener())
    _, trials = records.read(config.folder)
    assert len(trials) == 2 * len(LEVELS)
    assert all(trial.failure is not None for trial in trials)
