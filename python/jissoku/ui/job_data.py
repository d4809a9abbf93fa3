"""A job as the queue shows it."""

import datetime as dt
from dataclasses import dataclass

from jissoku.ui.estimates import JobTimes
from jissoku.ui.jobs import Job, JobState


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


def _left(times: JobTimes) -> str:
    return f"{times.left.text} left" if times.left.text else ""
