"""The data of the pages that compare runs: two of them, a target over time, boards and changes."""

import math
from collections.abc import Sequence

import msgspec

from jissoku.model.dismissal import Dismissal
from jissoku.model.history_answer import ArmChange, Change, MachineRatio, RunDifference, Series
from jissoku.report.boards import BOARDS_LEAD, Board
from jissoku.report.documents import (
    Cell,
    Document,
    Section,
    document_markdown,
    records_sheet,
    value_json,
)
from jissoku.report.format import TIMES, load_mark
from jissoku.report.history_html import points_table, series_sentences, series_title
from jissoku.report.history_text import (
    change_sentence,
    change_word,
    difference_text,
    history_text,
    machines_sentences,
    machines_text,
    multiple,
    tau_sentence,
)
from jissoku.report.sanitize import clean
from jissoku.report.suspicions import Suspicion, dismissed_text, suspicion_text
from jissoku.report.tables import Table
from jissoku.ui.formats import PageData, of_document
from jissoku.ui.two_runs import changes_table, pair_facts

CHANGE_COLUMNS = (
    "arm", "load_rps", "load", "version_before", "version_after", "ratio", "low", "high", "p_value",
    "anchors", "verdict", "control", "control_ratio",
)  # fmt: skip
POINT_COLUMNS = (
    "target", "arm", "anchor", "load_rps", "load", "workload", "machine", "started_utc", "version",
    "multiple", "low", "high", "runs", "breaks", "change",
)  # fmt: skip

NO_CHANGE = "No change is suspected."


def difference_data(found: RunDifference) -> PageData:
    """Two runs side by side."""

    def document() -> Document:
        facts = tuple((name, *values) for name, values in pair_facts(found))
        pair = Table(header=("property", "earlier", "later"), rows=facts)
        if found.obstacles:
            why = Section(title="Not comparable", sentences=(*found.obstacles, found.race))
            return Document(title="Two runs", sections=(Section(table=pair), why))
        title = "CPU time per request, later / earlier"
        tau = (tau_sentence(found.tau),)
        changes = Section(title=title, sentences=tau, table=changes_table(found))
        return Document(title="Two runs", sections=(Section(table=pair), changes))

    return PageData(
        name="diff",
        txt=lambda: clean(difference_text(found)),
        md=lambda: document_markdown(document()),
        json=lambda: value_json(msgspec.to_builtins(found)),
        sheet=lambda: records_sheet(CHANGE_COLUMNS, [_change(one) for one in found.changes]),
    )


def target_data(name: str, series: Sequence[Series], machines: Sequence[MachineRatio]) -> PageData:
    """A target's cost over time, and on each class of machines."""

    def document() -> Document:
        parts = (*map(_series_section, series), *map(_machines_section, machines))
        return Document(title=name, sections=parts)

    text = history_text(name, series)
    return PageData(
        name="target",
        txt=lambda: clean(text + (f"\n{machines_text(machines)}" if machines else "")),
        md=lambda: document_markdown(document()),
        json=lambda: value_json({"target": name, "series": series, "machines": machines}),
        sheet=lambda: records_sheet(POINT_COLUMNS, _points(series)),
    )


def board_data(boards: Sequence[Board]) -> PageData:
    """The newest cost of every target, a table for each question."""
    parts = tuple(Section(title=one.title, table=one.table) for one in boards)
    value = [{"title": one.title, "targets": _points(_newest(one.series))} for one in boards]
    every = [series for one in boards for series in _newest(one.series)]
    return of_document(
        "board",
        Document(title="Board", sections=(Section(sentences=(BOARDS_LEAD,)), *parts)),
        {"boards": value},
        records_sheet(POINT_COLUMNS, _points(every)),
    )


def changes_data(
    suspected: Sequence[Suspicion], dismissed: Sequence[tuple[Suspicion, Dismissal]]
) -> PageData:
    """Suspected changes, and those that are dismissed."""
    every = [*((one, None) for one in suspected), *dismissed]
    records = [_suspicion(one, reason) for one, reason in every]
    lines = [*map(suspicion_text, suspected)] or [NO_CHANGE]
    lines += [dismissed_text(*one) for one in dismissed]
    rows = tuple(
        (
            one.series.target,
            change_sentence(one.change),
            one.cause,
            one.answer if reason is None else f"dismissed: {reason.reason}",
        )
        for one, reason in every
    )
    table = Table(header=("target", "change", "it happened", "to confirm"), rows=rows)
    none = () if suspected else (NO_CHANGE,)
    document = Document(title="Suspected changes", sections=(Section(sentences=none, table=table),))
    return PageData(
        name="changes",
        txt=lambda: clean("\n".join(lines) + "\n"),
        md=lambda: document_markdown(document),
        json=lambda: value_json({"changes": records}),
        sheet=lambda: records_sheet(
            ("key", "target", *CHANGE_COLUMNS, "cause", "answer", "dismissed"), records
        ),
    )


def machines_table(one: MachineRatio) -> tuple[str, Table]:
    """A target on each class of machines, with its title."""
    title = f"{one.target} as a multiple of {one.anchor}, {load_mark(one.load)}"
    rows = tuple((clean(machine), multiple(ratio)) for machine, ratio in one.rows)
    return f"{title}, {one.workload_text}", Table(header=("machine", TIMES), rows=rows)


def _series_section(one: Series) -> Section:
    return Section(
        title=f"{series_title(one)}; {one.workload_text}; {one.machine_text}",
        sentences=tuple(series_sentences(one)),
        table=points_table(one.points),
    )


def _machines_section(one: MachineRatio) -> Section:
    title, table = machines_table(one)
    return Section(title=title, sentences=machines_sentences(one), table=table)


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
