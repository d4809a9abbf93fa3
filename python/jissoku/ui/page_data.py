"""The data of the pages, and the pages' tables: `?format=json` gives them as JSON."""

import shlex
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import msgspec

from jissoku.inference.across_runs import latest_noise_floor
from jissoku.model import history as model
from jissoku.report import history
from jissoku.report.format import TIMES, Table, clean, load_mark, offered
from jissoku.report.tables import noise_text
from jissoku.ui.job_progress import JobTimes, Progress
from jissoku.ui.jobs import Job
from jissoku.ui.run_index import CheckCount

Value = dict[str, object]


def machine_classes(
    runs: Sequence[model.IndexedRun], checks: Sequence[CheckCount], days: Sequence[model.MachineDay]
) -> Iterator[Value]:
    """Each class of machines that has a run. Runs and days are earliest first."""
    by_machine: dict[str, list[model.RunRow]] = defaultdict(list)
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
            "days": [one for one in days if one.machine == key][
                -31:
            ],  # `jissoku doctor --history` has all.
        }


def _software(rows: Sequence[model.RunRow]) -> Table:
    """A row for each kernel and setting, with the noise floor that was known there."""
    found: dict[tuple[str, ...], list[model.RunRow]] = defaultdict(list)
    for row in rows:
        found[row.kernel, row.governor, row.turbo, row.clocksource].append(row)
    return Table(
        header=("kernel", "governor", "turbo", "clock", "from (UTC)", "runs", "noise floor"),
        rows=tuple(
            (
                *map(clean, key),
                history.day(group[0].started_utc),
                str(len(group)),
                noise_text(latest_noise_floor(group)),
            )
            for key, group in found.items()
        ),
    )


def runs_data(runs: Iterable[model.IndexedRun]) -> Value:
    return {
        "runs": [
            {
                **msgspec.to_builtins(run.row),
                "arms": history.shown_arms(run),
                "folder": run.folder,
                "unfinished": run.unfinished,
            }
            for run in runs
        ]
    }


def pair_facts(found: model.RunDifference) -> list[tuple[str, tuple[str, ...]]]:
    def of(field: str) -> tuple[str, ...]:
        return tuple(str(getattr(row, field)) for row in found.runs)

    facts = [
        ("workload", of("workload_text")),
        ("loads", tuple(", ".join(map(offered, loads)) or "-" for loads in found.loads)),
        ("machine", of("machine_text")),
        ("method", of("method")),
        ("cores of the server", of("server_cores")),
        ("kernel", of("kernel")),
        ("governor", of("governor")),
        ("jissoku", of("jissoku")),
        ("turbo", of("turbo")),
        ("clock", of("clocksource")),
        ("label", of("machine_label")),
        ("incomplete", tuple(reason or "-" for reason in found.unfinished)),
        ("only here", tuple(", ".join(names) or "-" for names in found.only)),
        ("result", of("headline")),
    ]
    # What neither has is no property of theirs.
    return [(name, values) for name, values in facts if set(values) - {"", "-"}]


def changes_table(found: model.RunDifference) -> Table:
    """A row per arm and load, arms with another program first."""
    return Table(
        header=("arm", "load", "change", "what may be said", "versions", "through", "control"),
        rows=tuple(
            (
                clean(one.arm),
                load_mark(one.load),
                history.percent(one.change),
                history.change_word(one),
                clean(_versions(one)),
                clean(", ".join(one.anchors)),
                history.control_text(one),
            )
            for one in sorted(found.changes, key=lambda one: one.is_same)
        ),
    )


def _versions(one: model.ArmChange) -> str:
    named = " to ".join(dict.fromkeys(one.versions))
    is_hidden = one.versions[0] == one.versions[1] and not one.is_same
    return f"{named}, another program" if is_hidden else named


def changes_data(
    suspected: Sequence[history.Suspicion],
    dismissed: Sequence[tuple[history.Suspicion, model.Dismissal]],
) -> Value:
    reasons = [*((one, None) for one in suspected), *((one, why.reason) for one, why in dismissed)]
    return {
        "changes": [
            {
                "key": one.key,
                "target": one.series.target,
                "change": one.change,
                "cause": one.cause,
                "answer": one.answer,
                "dismissed": reason,
            }
            for one, reason in reasons
        ]
    }


def machines_table(one: model.MachineRatio) -> tuple[str, Table]:
    title = f"{one.target} as a multiple of {one.anchor}, {load_mark(one.load)}"
    rows = tuple((clean(machine), history.multiple(ratio)) for machine, ratio in one.rows)
    return f"{title}, {one.workload_text}", Table(header=("machine", TIMES), rows=rows)


def jobs_data(jobs: Iterable[tuple[Job, JobTimes | None]]) -> Value:
    return {"jobs": [_job(job, times) for job, times in jobs]}


def job_data(job: Job, times: JobTimes | None, progress: Progress) -> Value:
    return {**_job(job, times), "progress": replace(progress, charts=())}


def _job(job: Job, times: JobTimes | None) -> Value:
    command = shlex.join(("jissoku", *job.arguments))
    return {**msgspec.structs.asdict(job), "command": command, "times": times}
