"""The queue and a job in the forms of `formats`."""

import datetime as dt
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jissoku.report.documents import Cell, Document, Section, records_sheet
from jissoku.report.tables import Table
from jissoku.ui.estimates import JobTimes
from jissoku.ui.formats import PageData, of_document
from jissoku.ui.jobs import Job, JobState
from jissoku.ui.live import ArmProgress, Progress

COLUMNS = (
    "id", "title", "state", "place", "seconds_min", "seconds_max", "starts_s_min", "starts_s_max",
    "left_s_min", "left_s_max", "exit_code", "command", "folder",
)  # fmt: skip
HEADER = ("job", "state", "place", "takes", "starts", "exit code")


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


def jobs_data(shown: Sequence[ShownJob], times: Mapping[str, JobTimes]) -> PageData:
    """All jobs, in the order of the page."""
    records = [_record(one.job, times.get(one.job.id)) for one in shown]
    rows = tuple(
        (one.job.title, str(one.job.state), one.place, one.takes, one.starts, one.code)
        for one in shown
    )
    table = Table(header=HEADER, rows=rows)
    return of_document(
        "queue",
        Document(title="Queue", sections=(Section(table=table),)),
        {"jobs": records},
        records_sheet(COLUMNS, records),
    )


def job_data(
    job: Job, times: JobTimes | None, progress: Progress, arms: Sequence[ArmProgress]
) -> PageData:
    """A job, with its trials so far; the sheet has a row for each arm."""
    state = [f"{job.state}, {progress.done} of {progress.total} trials"]
    columns = ("arm", "trials", "counted", "so_far")
    records: list[dict[str, Cell]] = [
        {
            "arm": one.name,
            "trials": one.trials,
            "counted": one.trials - one.rejected,
            "so_far": one.so_far,
        }
        for one in arms
    ]
    rows = tuple(tuple(str(record[name]) for name in columns) for record in records)
    header = ("target", "trials", "counted", "CPU per request so far")
    value = {
        **_record(job, times),
        "trials_done": progress.done,
        "trials_total": progress.total,
        "trials_s_left": progress.seconds_left,
        "arms": records,
        "notes": progress.lines,
    }
    return of_document(
        f"job-{job.id[:8]}",
        Document(
            title=job.title,
            sections=(
                Section(sentences=(*state, *progress.lines)),
                Section(table=Table(header=header, rows=rows)),
            ),
        ),
        value,
        records_sheet(columns, records),
    )


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
