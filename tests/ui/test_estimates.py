"""How long jobs take, and when those that wait start."""

import datetime as dt
import os
from pathlib import Path
from typing import Any

import pytest

from jissoku.model.trial import EventKind
from jissoku.model.updated import updated
from jissoku.request import ComparisonRequest
from jissoku.system.processes import start_ticks
from jissoku.ui.forms import Choices, comparison_span, read_form
from jissoku.ui.job_progress import JobTimes, Span, job_times
from jissoku.ui.jobs import Job, JobState
from tests.ui.measurement import event, trial

NOON = dt.datetime(2026, 11, 25, 12, 0, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("span", "text"),
    [
        (Span(30, 30), "about 30 s"),
        (Span(360, 364), "about 6 min"),
        (Span(600, 2_300), "10 to 38 min"),
        (Span(45, None), "at least 45 s"),
        (Span(0, None), ""),
        (Span(80, 200), "80 s to 3 min"),
        (Span(0, 5), "about 5 s"),
    ],
)
def test_a_span_is_rounded_as_people_do(span: Span, text: str) -> None:
    assert span.text == text


def test_one_after_the_other() -> None:
    assert Span(1, 2) + Span(3, 4) == Span(4, 6)
    assert Span(1, 2) + Span(3, None) == Span(4, None)


def spans(targets: int, **options: Any) -> Span:
    return comparison_span(ComparisonRequest(**options), targets)


def test_a_quick_comparison_of_seven_takes_minutes() -> None:
    # On two virtual cores: 14 s for a block of seven targets and the floor at three loads.
    found = spans(7)
    assert found.low_s == found.high_s == pytest.approx(270, rel=0.2)
    assert spans(1).low_s < found.low_s / 3


def test_options_of_the_form_count() -> None:
    standard = spans(2, quick=False)
    assert standard.high_s is not None
    assert standard.high_s > 2 * standard.low_s
    fixed = spans(2, quick=False, blocks=10)
    assert fixed.high_s == fixed.low_s == standard.low_s
    assert spans(2, quick=False, rate=5_000, blocks=10).low_s < fixed.low_s
    known = Choices(targets={"go"}, experiments=())
    for fields, is_known in (({}, True), ({"verify": ["yes"]}, False)):
        takes = read_form("explain", {"target": ["go"]} | fields, known).takes
        assert (takes.high_s is not None) is is_known


def job(name: str, state: JobState, seconds: tuple[float, float | None], folder: str = "") -> Job:
    return Job(
        id=name, title=name, arguments=("compare",), folder=folder or f"/nowhere/{name}",
        state=state, seconds_min=seconds[0], seconds_max=seconds[1],
    )  # fmt: skip


def running(folder: Path, seconds: tuple[float, float | None]) -> Job:
    """This process as a job that runs, as if it had just started."""
    pid = os.getpid()
    found = job("running", JobState.RUNNING, seconds, str(folder))
    return updated(found, pid=pid, start_ticks=start_ticks(pid))


def times(*jobs: Job) -> dict[str, JobTimes]:
    return job_times(jobs)


def test_a_job_starts_when_those_before_it_have_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jissoku.ui.job_progress.seconds_since", lambda _: 40.0)
    found = times(
        job("old", JobState.ENDED, (60, 60)),
        job("first", JobState.WAITING, (100, 400)),
        job("second", JobState.WAITING, (50, None)),
        job("third", JobState.WAITING, (10, 10)),
        running(Path("/nowhere"), (100, 120)),
    )
    assert "old" not in found
    assert found["running"].left == Span(60, 80)
    assert [found[name].place for name in ("running", "first", "second", "third")] == [0, 1, 2, 3]
    assert found["first"].starts == Span(60, 80)
    assert found["second"].starts == Span(160, 480)
    assert found["third"].starts == Span(210, None)
    assert found["first"].starts_text(NOON) == "about 12:01 UTC"
    assert found["second"].starts_text(NOON) == "12:02 to 12:08 UTC"
    assert found["third"].starts_text(NOON) == "after 12:03 UTC"
    assert found["running"].starts_text(NOON) == ""


def test_trials_so_far_prolong_an_estimate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jissoku.ui.job_progress.seconds_since", lambda _: 90.0)
    (tmp_path / "run.json").touch()
    lines = [event(EventKind.START, pid=1), trial(0, "jissoku", seconds_left=500.0)]
    (tmp_path / "events.jsonl").write_text("".join(f"{line}\n" for line in lines))
    found = times(running(tmp_path, (100, 120)))
    assert found["running"].left == Span(500, 500)


def test_what_runs_over_its_estimate_may_end_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jissoku.ui.job_progress.seconds_since", lambda _: 900.0)
    found = times(running(Path("/nowhere"), (100, 120)))
    assert found["running"].left == Span(0, 0)
