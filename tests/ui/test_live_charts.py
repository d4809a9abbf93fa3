"""Latency and rate over time, while a run is measured."""

import re

import pytest

from jissoku import records
from jissoku.model import Run, Trial
from jissoku.model.updated import updated
from jissoku.ui.live_charts import POINTS_MAX, ROWS_MAX, live_charts
from tests.ui.conftest import HOSTILE, RECORDS


def timed(count: int) -> tuple[Run, tuple[Trial, ...]]:
    """A kept run as far as that, each trial a second and a half after the one before."""
    run, trials = records.read(RECORDS / "repeatability" / "51")
    return run, tuple(
        updated(one, elapsed_s=1.5 * number) for number, one in enumerate(trials[:count])
    )


def test_there_is_a_line_for_each_target_with_a_table_beside_it() -> None:
    run, trials = timed(40)
    latency, rate = live_charts(run, trials)
    assert (latency.title, rate.title) == ("Latency, p99", "Rate")
    measured = {one.arm for trial in trials for one in trial.measurements}
    for chart in (latency, rate):
        assert all(f"{name}: " in str(chart.drawing) for name in measured)
        assert len(chart.numbers.rows) == ROWS_MAX
    assert re.search(r"[\d.]+ (.s|ms)", latency.numbers.rows[-1][2])
    assert latency.numbers.rows[-1][1] == "58.5 s"


@pytest.mark.parametrize("count", [0, 1])
def test_nothing_is_drawn_before_there_is_a_line(count: int) -> None:
    run, trials = timed(count)
    assert all(len(one.measurements) < 2 for one in trials) or live_charts(run, trials)
    assert live_charts(run, ()) == ()
    assert live_charts(run, [updated(one, elapsed_s=None) for one in timed(9)[1]]) == ()


def test_an_event_stays_small() -> None:
    run, trials = timed(110)
    many = [updated(one, elapsed_s=number * 1.0) for number, one in enumerate(trials * 9)]
    for chart in live_charts(run, many):
        assert str(chart.drawing).count("<title>") <= POINTS_MAX + 10
        assert len(str(chart.drawing)) < 64 << 10


def test_a_name_stays_text() -> None:
    run, trials = timed(30)
    name = run.arms[0].name
    arms = tuple(updated(one, name=HOSTILE) if one.name == name else one for one in run.arms)
    renamed = [
        updated(
            trial,
            measurements=tuple(
                updated(one, arm=HOSTILE) if one.arm == name else one for one in trial.measurements
            ),
        )
        for trial in trials
    ]
    for chart in live_charts(updated(run, arms=arms), renamed):
        assert "<script>alert" not in str(chart.drawing)
