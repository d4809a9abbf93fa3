"""The data of the pages that list runs, targets, experiments and machines."""

from collections.abc import Sequence

import msgspec

from jissoku.model.history import IndexedRun, RunRow, StandingRow
from jissoku.report.documents import (
    Cell,
    Document,
    Section,
    Sheet,
    document_markdown,
    records_sheet,
    value_json,
)
from jissoku.report.history_text import day, runs_text
from jissoku.report.sanitize import clean
from jissoku.report.tables import Table
from jissoku.ui.experiments import FoundExperiment
from jissoku.ui.formats import PageData, of_document
from jissoku.ui.machine_classes import MachineClass
from jissoku.ui.runs_table import shown_arms

RUN_COLUMNS = (*RunRow.__struct_fields__, "arms", "folder", "unfinished")

DAY_COLUMNS = ("machine", "day", "runs", "trials", "rejected", "noise_floor", "checks")


def runs_data(runs: Sequence[IndexedRun]) -> PageData:
    """Runs in the order of their list; the text has that of the terminal, the newest last."""
    records = [
        {
            **msgspec.to_builtins(run.row),
            "arms": shown_arms(run),
            "folder": run.folder,
            "unfinished": run.unfinished,
        }
        for run in runs
    ]

    def document() -> Document:
        rows = tuple(
            (
                day(run.row.started_utc),
                run.row.run,
                run.row.experiment or run.row.verb,
                shown_arms(run),
                run.row.workload_text,
                run.row.headline,
                str(run.row.trials),
                str(run.row.trials_rejected),
                str(run.row.verdicts),
            )
            for run in runs
        )
        header = (
            "started (UTC)", "run", "command", "targets", "workload", "result", "trials",
            "rejected", "proven",
        )  # fmt: skip
        return Document(title="Runs", sections=(Section(table=Table(header=header, rows=rows)),))

    return PageData(
        name="runs",
        txt=lambda: clean(runs_text(sorted(runs, key=_started))),
        md=lambda: document_markdown(document()),
        json=lambda: value_json({"runs": records}),
        sheet=lambda: records_sheet(RUN_COLUMNS, records),
    )


def standings_sheet(rows: Sequence[StandingRow]) -> Sheet:
    """The arms of a run at each load."""
    records = [msgspec.to_builtins(row) for row in rows]
    return records_sheet(StandingRow.__struct_fields__, records)


def experiments_data(found: Sequence[FoundExperiment]) -> PageData:
    """Every experiment that has a run."""
    records: list[dict[str, Cell]] = [
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
    rows = tuple(
        (
            one.name,
            day(one.runs[0].row.started_utc),
            str(len(one.runs)),
            "finished" if one.is_finished else "not run to its end",
        )
        for one in found
    )
    header = ("experiment", "started (UTC)", "workloads", "state")
    table = Table(header=header, rows=rows)
    return of_document(
        "experiments",
        Document(title="Experiments", sections=(Section(table=table),)),
        {"experiments": records},
        records_sheet(
            ("experiment", "started_utc", "workloads", "is_finished", "run", "folder"), records
        ),
    )


def targets_data(rows: Sequence[tuple[str, int, str]]) -> PageData:
    """Every target that has a run: name, number of runs, start of the newest one."""
    columns = ("target", "runs", "newest_utc")
    table = Table(
        header=("target", "runs", "newest run (UTC)"),
        rows=tuple((name, str(count), day(newest)) for name, count, newest in rows),
    )
    return of_document(
        "targets",
        Document(title="Targets", sections=(Section(table=table),)),
        {"targets": [dict(zip(columns, row, strict=True)) for row in rows]},
        Sheet(columns=columns, rows=tuple(rows)),
    )


def machines_data(found: Sequence[MachineClass]) -> PageData:
    """Classes of machines; the sheet has a row for each day."""
    parts = [
        part
        for one in found
        for part in (
            Section(title=one.text, sentences=(_span(one),), table=one.software),
            Section(title=f"Checks that trials did not pass, {one.text}", table=one.checks),
            Section(title=f"Day by day, {one.text}", table=one.days),
        )
    ]
    value = [
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
    return of_document(
        "machines",
        Document(title="Machines", sections=tuple(parts)),
        {"machines": value},
        records_sheet(DAY_COLUMNS, [row for one in found for row in _days(one)]),
    )


def _span(one: MachineClass) -> str:
    runs = "1 run" if one.runs == 1 else f"{one.runs} runs"
    return f"{runs}, {day(one.first)} to {day(one.last)} UTC"


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


def _started(run: IndexedRun) -> tuple[str, str]:
    return run.row.started_utc, run.row.run
