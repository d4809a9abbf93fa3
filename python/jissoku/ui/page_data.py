"""The data of the pages that list runs, targets, experiments and machines."""

from collections.abc import Sequence

import msgspec

from jissoku.model.history import IndexedRun
from jissoku.report.tables import Table
from jissoku.ui.experiments import FoundExperiment
from jissoku.ui.formats import Value
from jissoku.ui.machine_classes import MachineClass
from jissoku.ui.runs_table import shown_arms

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
    """Every experiment that has a run."""
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
