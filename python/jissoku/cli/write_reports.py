"""From a run's records to its reports, on disk and on the screen."""

from collections.abc import Mapping
from pathlib import Path

import click
from rich.console import Console, RenderableType

from jissoku import records, report, stats
from jissoku.cli import exit_codes
from jissoku.errors import InputError
from jissoku.model import MeasurementStatus, Summary, SweepSummary

WIDTH = 100


def write_report(folder: Path, *, as_json: bool) -> int:
    """Writes the four reports into the run's folder, prints one, and returns the exit code."""
    run, trials = records.read(folder)
    warn_unfinished(folder)
    sweep = records.read_sweep(folder)
    if sweep is not None:
        return _publish_sweep(folder, stats.summarise_sweep(run, sweep, trials), as_json=as_json)
    summary = stats.summarise(run, trials)
    texts = {
        "report.html": report.to_html(summary),
        "report.md": report.to_markdown(summary),
        "report.json": report.to_json(summary),
        "report.txt": report.to_text(summary, width=WIDTH),
    }
    write(folder, texts)
    _show(folder, texts["report.json"] if as_json else report.renderable(summary))
    return _code(summary)


def _publish_sweep(folder: Path, summary: SweepSummary, *, as_json: bool) -> int:
    texts = {
        "report.html": report.sweep_to_html(summary),
        "report.md": report.sweep_to_markdown(summary),
        "report.json": report.sweep_to_json(summary),
        "report.txt": report.sweep_to_text(summary, width=WIDTH),
    }
    write(folder, texts)
    _show(folder, texts["report.json"] if as_json else report.sweep_renderable(summary))
    if any(target.status is MeasurementStatus.FAILED for target in summary.targets):
        return exit_codes.FAILED
    decided = any(
        target.sustained_rps is not None or (target.model is not None and target.model.is_adequate)
        for target in summary.targets
    )
    return exit_codes.OK if decided else exit_codes.UNDECIDED


def _show(folder: Path, shown: RenderableType) -> None:
    """Prints JSON as it is, and anything else for people."""
    if isinstance(shown, str):
        click.echo(shown, nl=False)
        return
    Console(highlight=False).print(shown)
    click.echo(f"Report: {folder / 'report.html'}")


def _code(summary: Summary) -> int:
    if any(arm_summary.status is MeasurementStatus.FAILED for arm_summary in summary.arm_summaries):
        return exit_codes.FAILED
    decided = any(comparison.ratio is not None for comparison in summary.comparisons)
    return exit_codes.OK if decided else exit_codes.UNDECIDED


def warn_unfinished(folder: Path) -> None:
    """Says so on standard error where a run, or one of an experiment's, has not come to its end."""
    for place in (folder, *sorted(path for path in folder.glob("*") if path.is_dir())):
        if reason := records.unfinished_reason(place):
            click.echo(f"jissoku: {place} is not a finished run: {reason}.", err=True)


def write(folder: Path, texts: Mapping[str, str]) -> None:
    """Writes files, by name, into a folder that is made if it is not there.

    Raises:
        InputError: The folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{folder} cannot be written: {error.strerror}") from error
