"""Writes the reports of a run or of its profiles, prints one of them and its path."""

from pathlib import Path

import click
from rich.console import Console

from jissoku import records, report
from jissoku._native import flame_graph
from jissoku.cli import exit_codes
from jissoku.cli.messages import print_message
from jissoku.measure.reports import write_profile_reports, write_reports
from jissoku.model import MeasurementStatus, Summary, SweepSummary


def write_report(folder: Path, *, as_json: bool, is_brief: bool = False) -> int:
    """Writes the four reports into the run's folder, prints one, and returns the exit code."""
    warn_unfinished(folder)
    summary = write_reports(folder)
    if as_json:
        click.echo((folder / "report.json").read_text(encoding="utf-8"), nl=False)
    else:
        if isinstance(summary, Summary):
            shown = report.brief(summary) if is_brief else report.renderable(summary)
        else:
            shown = report.sweep_renderable(summary)
        Console(highlight=False).print(shown)
        click.echo(f"Report: {folder / 'report.html'}")
    return _code(summary) if isinstance(summary, Summary) else _sweep_code(summary)


def write_profile_report(folder: Path, *, as_json: bool, quiet: bool = False) -> int:
    """Writes the reports of a folder's profiles, and prints one of them unless `quiet`."""
    write_profile_reports(folder, flame_graph)
    if as_json:
        click.echo((folder / "profile.json").read_text(encoding="utf-8"), nl=False)
    elif not quiet:
        click.echo((folder / "profile.txt").read_text(encoding="utf-8"), nl=False)
        click.echo(f"Report: {folder / 'profile.html'}")
    return exit_codes.OK


def _code(summary: Summary) -> int:
    if any(arm_summary.status is MeasurementStatus.FAILED for arm_summary in summary.arm_summaries):
        return exit_codes.FAILED
    decided = any(comparison.ratio is not None for comparison in summary.comparisons)
    return exit_codes.OK if decided else exit_codes.UNDECIDED


def _sweep_code(summary: SweepSummary) -> int:
    if any(target.status is MeasurementStatus.FAILED for target in summary.targets):
        return exit_codes.FAILED
    decided = any(
        target.sustained_rps is not None or (target.model is not None and target.model.is_adequate)
        for target in summary.targets
    )
    return exit_codes.OK if decided else exit_codes.UNDECIDED


def warn_unfinished(folder: Path) -> None:
    """Prints a message for each unfinished run of a folder or an experiment."""
    for place in (folder, *sorted(path for path in folder.glob("*") if path.is_dir())):
        if reason := records.unfinished_reason(place):
            print_message(f"{place} is not a finished run: {reason}.")
