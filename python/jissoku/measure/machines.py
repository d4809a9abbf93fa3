"""The reports of a comparison on several machines, from its records."""

from pathlib import Path

from jissoku import records
from jissoku.inference.machines import measured_machine, over_machines
from jissoku.measure.reports import WIDTH, problem_of, write_texts
from jissoku.model.machines import MachineOut, MachinesSummary
from jissoku.records import machines as store
from jissoku.report import to_json
from jissoku.report.machines import machines_to_html, machines_to_text

NOTHING_YET = "it has measured nothing yet"


def read_machines(folder: Path) -> MachinesSummary:
    """The verdicts over all machines; one record after the other is read, and none is kept."""
    run, outcomes = store.read_header(folder), store.read_outcomes(folder)
    found = [
        measured_machine(machine, *records.read(place), records.unfinished_reason(place))
        for machine, place in store.newest_records(folder, run.machines)
    ]
    known = {one.number for one in found}
    out = [
        MachineOut(
            machine=machine,
            reason=outcomes[machine].reason if machine in outcomes else NOTHING_YET,
        )
        for machine in range(1, run.machines + 1)
        if machine not in known
    ]
    return over_machines(run, found, out)


def write_machines_reports(folder: Path) -> tuple[MachinesSummary, str]:
    """Writes the reports into the folder; returns the summary, and why none is in the folder."""
    summary = read_machines(folder)
    texts = {
        "report.html": machines_to_html(summary),
        "report.json": to_json(summary),
        "report.txt": machines_to_text(summary, width=WIDTH),
    }
    return summary, problem_of(lambda: write_texts(folder, texts))
