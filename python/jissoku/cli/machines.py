"""`jissoku compare --machine`: the same comparison on several machines, and what holds for all."""

from pathlib import Path

import click
from rich.console import Console

from jissoku.cli.frame import ExitCode, exit_code, print_message, version_line
from jissoku.cli.progress import ProgressDisplay
from jissoku.errors import InputError
from jissoku.fleet.machines import MachinesPlan, measure_machines, new_plan, resumed_plan
from jissoku.measure.machines import write_machines_reports
from jissoku.model.machines import MachinesSummary, MachinesVerdict
from jissoku.report import to_json
from jissoku.report.machines import machines_renderable
from jissoku.request import ComparisonRequest

# What leaves a question open.
OPEN = {MachinesVerdict.INCONCLUSIVE, MachinesVerdict.INCOMPLETE}


def compare_machines(
    request: ComparisonRequest,
    out: Path | None,
    resume: Path | None,
    *,
    is_quiet: bool,
    as_json: bool,
) -> int:
    """Begins or resumes the comparison, and writes and prints its report."""
    with ProgressDisplay(quiet=is_quiet or as_json) as show:
        plan = _plan(request, out, resume)
        count = plan.run.machines
        show.note(f"{count} machines; seed {plan.run.seed}; records go to {plan.folder}.")
        finished, lost = measure_machines([plan], show.note, is_resumed=resume is not None)
    code = write_machines_report(plan.folder, as_json=as_json)
    if lost:
        print_message(f"{lost}; `jissoku compare --resume {plan.folder}` continues.")
        return ExitCode.FAILED
    return code if finished else ExitCode.INTERRUPTED


def _plan(request: ComparisonRequest, out: Path | None, resume: Path | None) -> MachinesPlan:
    if resume is None:
        return new_plan(request, out, version_line())
    if request != ComparisonRequest() or out is not None:
        raise InputError("--resume continues a run as it was asked for: leave out all else")
    return resumed_plan(resume, version_line())


def write_machines_report(folder: Path, *, as_json: bool) -> int:
    """Writes the three reports, prints one, and returns the exit code."""
    summary, unwritten = write_machines_reports(folder)
    if as_json:
        click.echo(to_json(summary), nl=False)
    else:
        Console(highlight=False).print(machines_renderable(summary))
        if not unwritten:
            click.echo(f"Report: {folder / 'report.html'}")
        click.echo(summary.headline)
    if unwritten:
        print_message(f"{unwritten}.")
        return ExitCode.FAILED
    return _code(summary)


def _code(summary: MachinesSummary) -> int:
    """Success if no machine is out, and something is known of each pair at the main level."""
    unfinished = [one for one in summary.machines if one.unfinished]
    main = [one for one in summary.comparisons if one.level is summary.main_level]
    return exit_code(
        is_failed=bool(summary.out or unfinished),
        is_undecided=not main or all(one.verdict in OPEN for one in main),
    )
