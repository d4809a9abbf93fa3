"""`jissoku watch`: follows a run that another process measures."""

from pathlib import Path

import click
from rich.console import Console
from rich.markup import escape

from jissoku import records
from jissoku.cli import exit_codes
from jissoku.measure.progress import follow, newest
from jissoku.model.trial import Event, EventKind


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
        return exit_codes.FAILED
    console.print(f"The run is complete: jissoku report {folder}", markup=False, soft_wrap=True)
    return exit_codes.OK


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
