"""From a run's records to its reports, on disk and on the screen."""

from pathlib import Path

import click
from rich.console import Console

from jissoku import records, report, stats
from jissoku.cli import exits
from jissoku.errors import InputError
from jissoku.model import Status, Summary

WIDTH = 100


def publish(folder: Path, *, as_json: bool) -> int:
    """Writes the four reports into the run's folder, prints one, and returns the exit code."""
    run, trials = records.read(folder)
    summary = stats.summarise(run, trials)
    texts = {
        "report.html": report.to_html(summary),
        "report.md": report.to_markdown(summary),
        "report.json": report.to_json(summary),
        "report.txt": report.to_text(summary, width=WIDTH),
    }
    try:
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{folder} cannot be written: {error.strerror}") from error
    if as_json:
        click.echo(texts["report.json"], nl=False)
    else:
        Console(highlight=False).print(report.renderable(summary))
        click.echo(f"Report: {folder / 'report.html'}")
    return _code(summary)


def _code(summary: Summary) -> int:
    if any(standing.status is Status.FAILED for standing in summary.standings):
        return exits.FAILED
    decided = any(comparison.ratio is not None for comparison in summary.comparisons)
    return exits.FINE if decided else exits.UNDECIDED
