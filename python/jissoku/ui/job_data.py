"""The queue and a job as rows of pages, and as data."""

import datetime as dt
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jissoku.ui.estimates import JobTimes
from jissoku.ui.formats import Value
from jissoku.ui.jobs import Job, JobState
from jissoku.ui.live import ArmProgress, Progress

Cell = str | float | bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownJob:
    """A job as the queue shows it."""

    job: Job
    place: str
    takes: str
    starts: str
    code: str


def shown_job(job: Job, times: JobTimes | None, now: dt.datetime) -> ShownJob:
    """A row of the queue; `times` is None of a job that has ended."""
    starts = ""
    if times is not None:
        is_waiting = job.state is JobState.WAITING
        starts = times.starts_text(now) if is_waiting else _left(times)
    return ShownJob(
        job=job,
        place=str(times.place) if times and times.place else "",
        takes=(times.takes.text or "not known") if times else "",
        starts=starts,
        code="" if job.code is None else str(job.code),
    )


def jobs_data(shown: Sequence[ShownJob], times: Mapping[str, JobTimes]) -> Value:
    """All jobs, in the order of the page."""
    return {"jobs": [_record(one.job, times.get(one.job.id)) for one in shown]}


def job_data(
    job: Job, times: JobTimes | None, progress: Progress, arms: Sequence[ArmProgress]
) -> Value:
    """A job, with its trials so far."""
    return {
        **_record(job, times),
        "trials_done": progress.done,
        "trials_total": progress.total,
        "trials_s_left": progress.seconds_left,
        "arms": [
            {
                "arm": one.name,
                "trials": one.trials,
                "counted": one.trials - one.rejected,
                "so_far": one.so_far,
            }
            for one in arms
        ],
        "notes": progress.lines,
    }


def _left(times: JobTimes) -> str:
    return f"{times.left.text} left" if times.left.text else ""


def _record(job: Job, times: JobTimes | None) -> dict[str, Cell]:
    return {
        "id": job.id,
        "title": job.title,
        "state": str(job.state),
        "place": times.place if times and times.place else None,
        "seconds_min": job.seconds_min or None,
        "seconds_max": job.seconds_max,
        "starts_s_min": times.starts.low_s if times and times.place else None,
        "starts_s_max": times.starts.high_s if times and times.place else None,
        "left_s_min": times.left.low_s if times and not times.place else None,
        "left_s_max": times.left.high_s if times and not times.place else None,
        "exit_code": job.code,
        "command": shlex.join(("jissoku", *job.arguments)),
        "folder": job.folder,
    }
