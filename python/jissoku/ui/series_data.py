"""The data of the pages that compare runs: two of them, a target over time, boards and changes."""

import math
from collections.abc import Sequence

import msgspec

from jissoku.model.dismissal import Dismissal
from jissoku.model.history_answer import ArmChange, Change, MachineRatio, RunDifference, Series
from jissoku.report.boards import Board
from jissoku.report.format import TIMES, load_mark
from jissoku.report.history_text import change_word, multiple
from jissoku.report.sanitize import clean
from jissoku.report.suspicions import Suspicion
from jissoku.report.tables import Table
from jissoku.ui.formats import Value

Cell = str | float | bool | None


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
    """Suspected changes, and those that are dismissed."""
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
    """With the newest point only."""
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
