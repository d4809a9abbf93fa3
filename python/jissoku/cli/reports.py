"""Reports of a run (`jissoku report`), and events of one that runs (`jissoku watch`)."""

from collections.abc import Sequence
from pathlib import Path

import click
from rich.console import Console
from rich.markup import escape

from jissoku import records
from jissoku._native import flame_graph
from jissoku.cli.frame import ExitCode, exit_code, print_message, print_text
from jissoku.cli.machines import write_machines_report
from jissoku.errors import InputError
from jissoku.measure import reports
from jissoku.measure.progress import follow, newest
from jissoku.model import MeasurementStatus, Profile, Summary, SweepSummary, Trial
from jissoku.model.experiment import ClaimStatus
from jissoku.model.trial import Event, EventKind
from jissoku.records import run_folder as experiments
from jissoku.records.machines import holds_machines
from jissoku.report import brief, renderable, sweep_renderable, verdict
from jissoku.report.experiment import brief_text as experiment_brief_text
from jissoku.report.terminal import why_text


def write_report(
    folder: Path,
    *,
    as_json: bool,
    is_brief: bool = False,
    is_finished: bool = True,
    lost: str = "",
    seen: Sequence[Trial] = (),
) -> int:
    """Writes the four reports into the run's folder, prints one, and returns the exit code.

    The verdict comes last. It is printed, too, if reports cannot be written, or trials could not,
    as `lost` says; the code is 1 then. A run whose trials were just `seen` here names the folders
    in its brief output as the user knows them.
    """
    warn_unfinished(folder)
    summary, json, unwritten = reports.write_reports(folder)
    if is_brief and any(trial.failure for trial in seen):
        summary = reports.read_summary(folder, seen)
    if as_json:
        click.echo(json, nl=False)
    else:
        if isinstance(summary, Summary):
            shown = brief(summary) if is_brief else renderable(summary)
        else:
            shown = sweep_renderable(summary)
        if not unwritten:
            click.echo(f"Report: {folder / 'report.html'}")
        console = Console(highlight=False)
        console.print(shown)
        if not (is_brief and isinstance(summary, Summary)):
            console.print(verdict(summary))
    for problem in filter(None, (lost, unwritten)):
        print_message(f"{problem}.")
    code = report_code(summary, is_finished=is_finished)
    return ExitCode.FAILED if lost or unwritten else code


def report_code(summary: Summary | SweepSummary, *, is_finished: bool = True) -> ExitCode:
    """Success if something was measured or compared, and no target failed or ended by itself."""
    has_ended = False
    if isinstance(summary, Summary):
        arms = [one for one in summary.arm_summaries if one.arm.name != summary.run.floor]
        has_ended = any(one.end for one in arms)
        has_result = any(comparison.ratio is not None for comparison in summary.comparisons)
        statuses = [one.status for one in summary.arm_summaries]
    else:
        has_result = any(level.rate_rps for one in summary.targets for level in one.results)
        statuses = [one.status for one in summary.targets]
    is_failed = has_ended or MeasurementStatus.FAILED in statuses
    return exit_code(is_finished=is_finished, is_failed=is_failed, is_undecided=not has_result)


def write_profile_report(
    folder: Path,
    *,
    as_json: bool,
    quiet: bool = False,
    sort: str = "self",
    profiles: Sequence[Profile] = (),
) -> int:
    """Writes the reports of a folder's profiles, and prints one of them unless `quiet`."""
    made = reports.write_profile_reports(folder, flame_graph, sort, profiles)
    if as_json:
        click.echo(made.texts["profile.json"], nl=False)
    elif not quiet:
        print_text(str(made.texts["profile.txt"]))
        for graph in made.graphs:
            click.echo(f"Flame graph: {graph.absolute().as_uri()}")
        if not made.unwritten:
            click.echo(f"Report: {folder / 'profile.html'}")
        print_text(f"{made.verdict}\n")
    if made.unwritten:
        print_message(f"{made.unwritten}.")
        return ExitCode.FAILED
    return ExitCode.OK


def publish_experiment(
    folder: Path, *, as_json: bool, is_finished: bool = True, lost: str = ""
) -> int:
    """Writes the four reports into the experiment's folder, prints one; returns the exit code.

    Of an experiment that was interrupted one screen is printed. The code is 1 if it could not be
    measured to its end, as `lost` says.
    """
    warn_unfinished(folder)
    outcome = reports.write_experiment_reports(folder)
    shown = folder / ("report.json" if as_json else "report.txt")
    text = shown.read_text(encoding="utf-8")
    if as_json:
        click.echo(text, nl=False)
    else:
        print_text(text if is_finished else experiment_brief_text(outcome))
        click.echo(f"Report: {folder / 'report.html'}")
        if not is_finished:
            click.echo(f"All that was measured: jissoku report {folder}")
    if lost:
        print_message(f"{lost}.")
        return ExitCode.FAILED
    arms = [one for summary in outcome.summaries.values() for one in summary.arm_summaries]
    return exit_code(
        is_finished=is_finished,
        is_failed=any(one.status is MeasurementStatus.FAILED for one in arms),
        is_undecided=any(one.status is ClaimStatus.UNDECIDED for one in outcome.claims),
    )


def warn_unfinished(folder: Path) -> None:
    for place in (folder, *sorted(path for path in folder.glob("*") if path.is_dir())):
        if reason := records.unfinished_reason(place):
            print_message(f"{place} is not a finished run: {reason}.")


@click.command()
@click.argument("run", type=click.Path(path_type=Path), metavar="RUN")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
@click.option(
    "--why",
    nargs=2,
    metavar="ARM ARM",
    help="Print only why the comparisons of these two are decided or not, and what would decide.",
)
def report(run: Path, *, as_json: bool, why: tuple[str, str] | None) -> int:
    """Rebuild every report of a RUN or an experiment from its records, and print the answer.

    The same records give the same bytes.
    """
    if why is not None:
        return _print_why(run, *why)
    if holds_machines(run):
        return write_machines_report(run, as_json=as_json)
    if experiments.is_experiment(run):
        return publish_experiment(run, as_json=as_json)
    if not records.read_profiles(run):
        return write_report(run, as_json=as_json)
    if not experiments.holds_run(run):
        return write_profile_report(run, as_json=as_json)
    write_profile_report(run, as_json=False, quiet=as_json)
    return write_report(run, as_json=as_json)


def _print_why(run: Path, arm: str, other: str) -> int:
    summary = reports.read_summary(run)
    if not isinstance(summary, Summary):
        raise InputError("--why is about the arms of a comparison")
    text = why_text(summary, arm, other)
    if not text:
        names = ", ".join(one.arm.name for one in summary.arm_summaries)
        raise InputError(f"there is no comparison of {arm} and {other}; arms are {names}")
    print_text(text)
    return ExitCode.OK


@click.command()
@click.argument("run", required=False, type=click.Path(path_type=Path), metavar="[RUN]")
def watch(run: Path | None) -> int:
    """Follow a RUN as it is measured, from any terminal; default: the newest one under runs/.

    It reads events that the run writes between two trials, once a second, and ends with the run.

    Exit codes: 0 the run has come to its end, 1 it ended early, 2 bad input, 130 interrupted.
    """
    folder = run or newest(Path("runs"))
    events = follow(folder)
    console = Console(highlight=False)
    console.print(f"Following {folder}.", markup=False, soft_wrap=True)
    for event in events:
        line = _line(event)
        if line:
            console.print(line, soft_wrap=True)
    reason = records.unfinished_reason(folder)
    if reason:
        console.print(f"The run is incomplete: {reason}.", markup=False, soft_wrap=True)
        return ExitCode.FAILED
    console.print(f"The run is complete: jissoku report {folder}", markup=False, soft_wrap=True)
    return ExitCode.OK


def _line(event: Event) -> str:
    if event.kind is EventKind.NOTE:
        return f"[dim]{escape(event.text)}[/]"
    if event.kind is not EventKind.TRIAL:
        return ""
    left = f"{event.seconds_left:.0f} s left"
    words = f"{event.done}/{event.total} block {event.block + 1}: {', '.join(event.arms)}"
    if event.failure:
        return f"{escape(words)} [red]failed: {escape(event.failure)}[/], {left}"
    return escape(words) + (" (rejected, run again)" if event.rejected else "") + f", {left}"
