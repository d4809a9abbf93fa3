"""From a run's records to its reports, on disk and on the screen."""

from collections.abc import Mapping
from pathlib import Path

import click
from rich.console import Console, RenderableType

from jissoku import records, report, stats
from jissoku.cli import exits
from jissoku.errors import InputError
from jissoku.model import Status, Summary, SweepSummary

WIDTH = 100


def publish(folder: Path, *, as_json: bool) -> int:
    """Writes the four reports into the run's folder, prints one, and returns the exit code."""
    run, trials = records.read(folder)
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
    if any(climb.status is Status.FAILED for climb in summary.climbs):
        return exits.FAILED
    decided = any(
        climb.sustained_rps is not None or (climb.law is not None and climb.law.describes)
        for climb in summary.climbs
    )
    return exits.FINE if decided else exits.UNDECIDED


def _show(folder: Path, shown: RenderableType) -> None:
    """Prints JSON as it is, and anything else for people."""
    if isinstance(shown, str):
        click.echo(shown, nl=False)
        return
    Console(highlight=False).print(shown)
    click.echo(f"Report: {folder / 'report.html'}")


def _code(summary: Summary) -> int:
    if any(standing.status is Status.FAILED for standing in summary.standings):
        return exits.FAILED
    decided = any(comparison.ratio is not None for comparison in summary.comparisons)
    return exits.FINE if decided else exits.UNDECIDED


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
