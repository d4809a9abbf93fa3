"""The data of the pages, and the pages' tables: `?format=json` gives them as JSON."""

import math
import shlex
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields

import msgspec

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
from jissoku.report.format import TIMES, Table, clean, load_mark, offered
from jissoku.report.history import (
    Board,
    Suspicion,
    change_word,
    control_text,
    day,
    multiple,
    percent,
    shown_arms,
)
from jissoku.report.tables import noise_text
from jissoku.ui.job_progress import COUNTED, JobTimes, Progress
from jissoku.ui.jobs import Job
from jissoku.ui.run_index import CheckCount, FoundExperiment
from jissoku.ui.watched_servers import Rates, WatchedServer

# Days on the page of machines, the latest ones; `jissoku doctor --history` has all of them.
DAYS_MAX = 31

Value = dict[str, object]


def machine_classes(
    runs: Sequence[IndexedRun], checks: Sequence[CheckCount], days: Sequence[MachineDay]
) -> Iterator[Value]:
    """Each class of machines that has a run. Runs and days are earliest first."""
    by_machine: dict[str, list[RunRow]] = defaultdict(list)
    for run in runs:
        by_machine[run.row.machine].append(run.row)
    for key, rows in by_machine.items():
        trials = sum(row.trials for row in rows)
        yield {
            "machine": key,
            "text": rows[-1].machine_text,
            "runs": len(rows),
            "first_utc": rows[0].started_utc,
            "last_utc": rows[-1].started_utc,
            "labels": sorted({row.machine_label for row in rows if row.machine_label}),
            "software": _software(rows),
            "checks": Table(
                header=("check", "consequence", "trials", f"of {trials:,}"),
                rows=tuple(
                    (one.name, one.outcome, str(one.count), f"{100 * one.count / trials:.1f} %")
                    for one in checks
                    if one.machine == key
                ),
            ),
            "days": [one for one in days if one.machine == key][-DAYS_MAX:],
        }


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


def machines_data(found: Iterable[Value]) -> Value:
    return {
        "machines": [{name: _plain(value, one) for name, value in one.items()} for one in found]
    }


def _plain(value: object, machine: Value) -> object:
    if isinstance(value, Table):
        return [dict(zip(value.header, row, strict=True)) for row in value.rows]
    if isinstance(value, list) and value and isinstance(value[0], MachineDay):
        return [
            {
                "machine": machine["text"],
                "day": one.day,
                "runs": one.runs,
                "trials": one.trials,
                "rejected": one.rejected,
                "noise_floor": one.noise_floor,
                "checks": ", ".join(f"{name} {count}" for name, count in one.checks.items()),
            }
            for one in value
        ]
    return value


def runs_data(runs: Iterable[IndexedRun]) -> Value:
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
    return {**msgspec.to_builtins(found), "table": [_change(one) for one in found.changes]}


def target_data(name: str, series: Sequence[Series], machines: Sequence[MachineRatio]) -> Value:
    return {"target": name, "series": series, "machines": machines, "points": _points(series)}


def board_data(boards: Sequence[Board]) -> Value:
    return {
        "boards": [
            {
                "title": board.title,
                "targets": _points(
                    [msgspec.structs.replace(one, points=one.points[-1:]) for one in board.series]
                ),
            }
            for board in boards
        ]
    }


def changes_data(
    suspected: Sequence[Suspicion], dismissed: Sequence[tuple[Suspicion, Dismissal]]
) -> Value:
    reasons = [*((one, None) for one in suspected), *((one, why.reason) for one, why in dismissed)]
    return {
        "changes": [
            {
                "key": one.key,
                "target": one.series.target,
                **_change(one.change),
                "cause": one.cause,
                "answer": one.answer,
                "dismissed": reason,
            }
            for one, reason in reasons
        ]
    }


def machines_table(one: MachineRatio) -> tuple[str, Table]:
    """A target on each class of machines, with its title."""
    title = f"{one.target} as a multiple of {one.anchor}, {load_mark(one.load)}"
    rows = tuple((clean(machine), multiple(ratio)) for machine, ratio in one.rows)
    return f"{title}, {one.workload_text}", Table(header=("machine", TIMES), rows=rows)


def _ratio(change: Change | None) -> float | None:
    return None if change is None else math.exp(change.mean)


def _change(one: ArmChange) -> Value:
    return {
        "arm": one.arm,
        "load_rps": one.load.rate_rps,
        "load": str(one.load.level),
        "version_before": one.versions[0],
        "version_after": one.versions[1],
        "ratio": _ratio(one.change),
        "low": math.exp(one.change.low),
        "high": math.exp(one.change.high),
        "p_value": one.change.p_value,
        "anchors": ", ".join(one.anchors),
        "verdict": change_word(one),
        "control": str(one.control),
        "control_ratio": _ratio(one.control_change),
    }


def _points(series: Iterable[Series]) -> list[Value]:
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
            "multiple": _ratio(point.ratio),
            "low": math.exp(point.ratio.low),
            "high": math.exp(point.ratio.high),
            "runs": " ".join(point.runs),
            "breaks": "; ".join(point.breaks),
            "change": change_word(point.since) if point.since else "",
        }
        for one in series
        for point in one.points
    ]


def jobs_data(jobs: Iterable[tuple[Job, JobTimes | None]]) -> Value:
    return {"jobs": [_job(job, times) for job, times in jobs]}


def job_data(job: Job, times: JobTimes | None, progress: Progress) -> Value:
    table = progress.table
    return {
        **_job(job, times),
        "trials_done": progress.done,
        "trials_total": progress.total,
        "trials_s_left": progress.seconds_left,
        "arms": [
            {
                "arm": name,
                "trials": len(marks),
                "counted": marks.count(COUNTED),
                "so_far": progress.so_far.get(name, ""),
            }
            for name, marks in progress.marks.items()
        ],
        "table": table
        and {
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
        },
        "notes": progress.lines,
    }


def _job(job: Job, times: JobTimes | None) -> Value:
    waiting = times if times and times.place else None
    running = times if times and not times.place else None
    return {
        "id": job.id,
        "title": job.title,
        "state": str(job.state),
        "place": waiting and waiting.place,
        "seconds_min": job.seconds_min or None,
        "seconds_max": job.seconds_max,
        "starts_s_min": waiting and waiting.starts.low_s,
        "starts_s_max": waiting and waiting.starts.high_s,
        "left_s_min": running and running.left.low_s,
        "left_s_max": running and running.left.high_s,
        "exit_code": job.code,
        "command": shlex.join(("jissoku", *job.arguments)),
        "folder": job.folder,
    }


def servers_data(servers: Sequence[WatchedServer]) -> Value:
    names = [one.name for one in fields(Rates) if one.name != "at_ns"]
    now_ns = time.monotonic_ns()
    return {
        "rates": [
            {
                "server": server.where,
                **{name: getattr(one, name) for name in names},
                "seconds_ago": (now_ns - one.at_ns) / 1e9,
            }
            for server in servers
            for one in server.rates()
        ],
        "problems": {one.where: one.problem for one in servers if one.problem},
    }
