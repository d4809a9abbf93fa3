"""The data of the pages, and the pages' tables: `?format=json` gives them as JSON."""

import datetime as dt
import math
import shlex
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from jissoku.inference.across_runs import latest_noise_floor
from jissoku.model.history import (
    ArmChange,
    Change,
    Dismissal,
    IndexedRun,
    MachineDay,
    MachineRatio,
    RunDifference,
    RunRow,
    Series,
)
from jissoku.report.format import TIMES, Table, clean, load_mark, offered, to_json
from jissoku.report.history import (
    Board,
    Suspicion,
    change_word,
    control_text,
    day,
    multiple,
    percent,
)
from jissoku.report.live import LiveTable
from jissoku.report.tables import days_table, noise_text
from jissoku.ui.job_progress import JobTimes, Progress, ValuesSoFar
from jissoku.ui.jobs import Job, JobState
from jissoku.ui.run_index import CheckCount, FoundExperiment
from jissoku.ui.runs_table import shown_arms


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineClass:
    key: str
    text: str
    runs: int
    first: str
    last: str
    labels: tuple[str, ...]
    software: Table
    checks: Table
    by_day: tuple[MachineDay, ...]

    @property
    def days(self) -> Table:
        return days_table(self.by_day)


# Days on the page, the latest ones; all of them are in `jissoku doctor --history`.
DAYS_MAX = 31


def machine_classes(
    runs: Sequence[IndexedRun], checks: Sequence[CheckCount], days: Sequence[MachineDay]
) -> Iterator[MachineClass]:
    """Each class of machines that has a run.

    Args:
        runs: All, earliest first.
        checks: How often each check rejected trials.
        days: All, earliest first.
    """
    by_machine: dict[str, list[RunRow]] = defaultdict(list)
    for run in runs:
        by_machine[run.row.machine].append(run.row)
    for key, rows in by_machine.items():
        trials = sum(row.trials for row in rows)
        yield MachineClass(
            key=key,
            text=rows[-1].machine_text,
            runs=len(rows),
            first=rows[0].started_utc,
            last=rows[-1].started_utc,
            labels=tuple(sorted({row.machine_label for row in rows if row.machine_label})),
            software=_software(rows),
            checks=Table(
                header=("check", "consequence", "trials", f"of {trials:,}"),
                rows=tuple(
                    (one.name, one.outcome, str(one.count), f"{100 * one.count / trials:.1f} %")
                    for one in checks
                    if one.machine == key
                ),
            ),
            by_day=tuple(one for one in days if one.machine == key)[-DAYS_MAX:],
        )


def _software(rows: Sequence[RunRow]) -> Table:
    """A row for each kernel and setting, with the noise floor that was known there."""
    found: dict[tuple[str, ...], list[RunRow]] = defaultdict(list)
    for row in rows:
        found[row.kernel, row.governor, row.turbo, row.clocksource].append(row)
    return Table(
        header=("kernel", "governor", "turbo", "clock", "from (UTC)", "runs", "noise floor"),
        rows=tuple(
            (
                *map(clean, key),
                day(group[0].started_utc),
                str(len(group)),
                noise_text(latest_noise_floor(group)),
            )
            for key, group in found.items()
        ),
    )


# Parameters of an address that choose a form of a page or a part of it, and not its data.
NOT_DATA = {"format", "after"}

Value = Mapping[str, object]


def is_json_requested(request: Request) -> bool:
    """Whether an address asks for data instead of the page.

    Raises:
        HTTPException: It asks for another form (400).
    """
    kind = request.query_params.get("format", "html")
    if kind not in {"html", "json"}:
        raise HTTPException(400, "There is no such format: it is html or json.\n")
    return kind == "json"


def data(value: Value) -> Response:
    return json_response(to_json(value))


def json_response(text: str) -> Response:
    return Response(text, media_type="application/json; charset=utf-8")


def json_link(request: Request) -> str:
    """The address of a page's data: all of them, and not only the part shown."""
    kept = [pair for pair in request.query_params.multi_items() if pair[0] not in NOT_DATA]
    return f"{request.url.path}?{urlencode([*kept, ('format', 'json')])}"


Cell = str | float | bool | None


def runs_data(runs: Sequence[IndexedRun]) -> Value:
    """Runs in the order of their list."""
    return {
        "runs": [
            {
                **msgspec.to_builtins(run.row),
                "arms": shown_arms(run),
                "folder": run.folder,
                "unfinished": run.unfinished,
            }
            for run in runs
        ]
    }


def experiments_data(found: Sequence[FoundExperiment]) -> Value:
    return {
        "experiments": [
            {
                "experiment": one.name,
                "started_utc": one.runs[0].row.started_utc,
                "workloads": len(one.runs),
                "is_finished": one.is_finished,
                "run": one.runs[0].row.run,
                "folder": str(one.folder),
            }
            for one in found
        ]
    }


def targets_data(rows: Sequence[tuple[str, int, str]]) -> Value:
    """Every target that has a run: name, number of runs, start of the newest one."""
    columns = ("target", "runs", "newest_utc")
    return {"targets": [dict(zip(columns, row, strict=True)) for row in rows]}


def machines_data(found: Sequence[MachineClass]) -> Value:
    """Classes of machines, with what disturbed trials there day by day."""
    return {
        "machines": [
            {
                "machine": one.key,
                "text": one.text,
                "runs": one.runs,
                "first_utc": one.first,
                "last_utc": one.last,
                "labels": one.labels,
                "software": _records(one.software),
                "checks": _records(one.checks),
                "days": _days(one),
            }
            for one in found
        ]
    }


def _days(one: MachineClass) -> list[dict[str, Cell]]:
    return [
        {
            "machine": one.text,
            "day": of_day.day,
            "runs": of_day.runs,
            "trials": of_day.trials,
            "rejected": of_day.rejected,
            "noise_floor": of_day.noise_floor,
            "checks": ", ".join(f"{name} {count}" for name, count in of_day.checks.items()),
        }
        for of_day in one.by_day
    ]


def _records(table: Table) -> list[dict[str, str]]:
    return [dict(zip(table.header, row, strict=True)) for row in table.rows]


def pair_facts(found: RunDifference) -> list[tuple[str, tuple[str, str]]]:
    """Properties of both runs; what differs is marked."""

    def both(values: Sequence[str]) -> tuple[str, str]:
        return values[0], values[1]

    def of(field: str) -> tuple[str, str]:
        return both([str(getattr(row, field)) for row in found.runs])

    facts = [
        ("workload", of("workload_text")),
        ("loads", both([", ".join(map(offered, loads)) or "-" for loads in found.loads])),
        ("machine", of("machine_text")),
        ("method", of("method")),
        ("cores of the server", of("server_cores")),
        ("kernel", of("kernel")),
        ("governor", of("governor")),
        ("jissoku", of("jissoku")),
        ("turbo", of("turbo")),
        ("clock", of("clocksource")),
        ("label", of("machine_label")),
        ("incomplete", both([reason or "-" for reason in found.unfinished])),
        ("only here", both([", ".join(names) or "-" for names in found.only])),
        ("result", of("headline")),
    ]
    # What neither has is no property of theirs.
    return [(name, values) for name, values in facts if set(values) - {"", "-"}]


def changes_table(found: RunDifference) -> Table:
    """A row per arm and load, arms with another program first."""
    return Table(
        header=("arm", "load", "change", "what may be said", "versions", "through", "control"),
        rows=tuple(
            (
                clean(one.arm),
                load_mark(one.load),
                percent(one.change),
                change_word(one),
                clean(_versions(one)),
                clean(", ".join(one.anchors)),
                control_text(one),
            )
            for one in sorted(found.changes, key=lambda one: one.is_same)
        ),
    )


def _versions(one: ArmChange) -> str:
    named = " to ".join(dict.fromkeys(one.versions))
    is_hidden = one.versions[0] == one.versions[1] and not one.is_same
    return f"{named}, another program" if is_hidden else named


def difference_data(found: RunDifference) -> Value:
    """Two runs side by side."""
    return {**msgspec.to_builtins(found), "table": [_change(one) for one in found.changes]}


def target_data(name: str, series: Sequence[Series], machines: Sequence[MachineRatio]) -> Value:
    """A target's cost over time, and on each class of machines."""
    return {"target": name, "series": series, "machines": machines, "points": _points(series)}


def board_data(boards: Sequence[Board]) -> Value:
    """The newest cost of every target, a table for each question."""
    return {
        "boards": [{"title": one.title, "targets": _points(_newest(one.series))} for one in boards]
    }


def changes_data(
    suspected: Sequence[Suspicion], dismissed: Sequence[tuple[Suspicion, Dismissal]]
) -> Value:
    every = [*((one, None) for one in suspected), *dismissed]
    return {"changes": [_suspicion(one, reason) for one, reason in every]}


def machines_table(one: MachineRatio) -> tuple[str, Table]:
    """A target on each class of machines, with its title."""
    title = f"{one.target} as a multiple of {one.anchor}, {load_mark(one.load)}"
    rows = tuple((clean(machine), multiple(ratio)) for machine, ratio in one.rows)
    return f"{title}, {one.workload_text}", Table(header=("machine", TIMES), rows=rows)


def _ratio(change: Change | None) -> float | None:
    return None if change is None else math.exp(change.mean)


def _change(one: ArmChange) -> dict[str, Cell]:
    return {
        "arm": one.arm,
        "load_rps": one.load.rate_rps,
        "load": str(one.load.level),
        "version_before": one.versions[0],
        "version_after": one.versions[1],
        "ratio": math.exp(one.change.mean),
        "low": math.exp(one.change.low),
        "high": math.exp(one.change.high),
        "p_value": one.change.p_value,
        "anchors": ", ".join(one.anchors),
        "verdict": change_word(one),
        "control": str(one.control),
        "control_ratio": _ratio(one.control_change),
    }


def _suspicion(one: Suspicion, dismissed: Dismissal | None) -> dict[str, Cell]:
    return {
        "key": one.key,
        "target": one.series.target,
        **_change(one.change),
        "cause": one.cause,
        "answer": one.answer,
        "dismissed": None if dismissed is None else dismissed.reason,
    }


def _newest(series: Sequence[Series]) -> list[Series]:
    return [msgspec.structs.replace(one, points=one.points[-1:]) for one in series]


def _points(series: Sequence[Series]) -> list[dict[str, Cell]]:
    return [
        {
            "target": one.target,
            "arm": one.arm,
            "anchor": one.anchor,
            "load_rps": one.load.rate_rps,
            "load": str(one.load.level),
            "workload": one.workload_text,
            "machine": one.machine_text,
            "started_utc": point.started_utc,
            "version": point.version,
            "multiple": math.exp(point.ratio.mean),
            "low": math.exp(point.ratio.low),
            "high": math.exp(point.ratio.high),
            "runs": " ".join(point.runs),
            "breaks": "; ".join(point.breaks),
            "change": change_word(point.since) if point.since else "",
        }
        for one in series
        for point in one.points
    ]


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
    return {"jobs": [_record(one.job, times.get(one.job.id)) for one in shown]}


def job_data(job: Job, times: JobTimes | None, progress: Progress, values: ValuesSoFar) -> Value:
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
            for one in values.arms
        ],
        "table": None if values.table is None else _live_data(values.table),
        "notes": progress.lines,
    }


def _live_data(table: LiveTable) -> Value:
    return {
        "columns": table.header[1:],
        "decided": table.decided,
        "asked": table.asked,
        "rows": [
            {
                "arm": name,
                "cells": [
                    {"value": cell.value, "state": str(cell.state), "needs": cell.needs}
                    for cell in cells
                ],
            }
            for name, cells in table.rows
        ],
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
