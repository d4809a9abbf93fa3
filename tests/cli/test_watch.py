"""`jissoku watch` prints what a run writes, and ends with it."""

from pathlib import Path

import pytest

from jissoku.model.trial import Event, EventKind, TrialKind
from jissoku.model.updated import updated
from jissoku.records.run_folder import EventWriter
from tests.conftest import Run

LINES = [
    "Following runs/one.",
    "Loads: [bold]5,000/s[/].",
    "1/8 block 1: a, b, 30 s left",
    "2/8 block 1: b (rejected, run again), 30 s left",
    "3/8 block 2: b failed: it exited [1], 30 s left",
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a run that has ended."""
    found = tmp_path / "runs" / "one"
    found.mkdir(parents=True)
    with EventWriter(found) as events:
        events.add(Event(kind=EventKind.NOTE, elapsed_s=1.0, text="Loads: [bold]5,000/s[/]."))
        for event in (trial(1, "a", "b"), trial(2, "b", rejected=True)):
            events.add(event)
        events.add(trial(3, "b", block=1, failure="it exited [1]"))
    return found


def trial(number: int, *arms: str, **values: object) -> Event:
    given = {"block": 0, "done": number, "total": 8, "seconds_left": 30.0} | values
    kind = TrialKind.PAIRED
    whole = Event(kind=EventKind.TRIAL, elapsed_s=1.0, index=number - 1, trial_kind=kind, arms=arms)
    return updated(whole, **given)  # type: ignore[arg-type]


def test_the_newest_run_is_followed_to_its_end(folder: Path, run: Run, tmp_path: Path) -> None:
    assert folder.is_dir()
    done = run(["watch"], tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [*LINES, "The run is complete: jissoku report runs/one"]


def test_a_run_that_ended_early_is_a_failure_with_its_reason(
    folder: Path, run: Run, tmp_path: Path
) -> None:
    (folder / "unfinished.txt").write_text("it was interrupted in block 2\n")
    done = run(["watch", "runs/one"], tmp_path)
    assert done.returncode == 1
    reason = "The run is incomplete: it was interrupted in block 2."
    assert done.stdout.splitlines() == [*LINES, reason]
