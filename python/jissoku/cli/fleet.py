"""`jissoku fleet`: a file of comparisons for many machines."""

from pathlib import Path

import click

from jissoku.cli.frame import ExitCode, print_message, version_line
from jissoku.cli.machines import write_machines_report
from jissoku.cli.progress import ProgressDisplay
from jissoku.errors import InputError
from jissoku.fleet import plan as plans
from jissoku.fleet.machines import measure_machines
from jissoku.measure.selection import folder_for

ACTIONS = ("run", "resume", "status")


@click.command()
@click.argument("action", type=click.Choice(ACTIONS), metavar="run|resume|status")
@click.argument("place", type=click.Path(path_type=Path), metavar="PLAN.toml|RUN")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory for records and reports of a plan. Default: a new one under runs/.",
)
@click.option("--quiet", is_flag=True, help="Print no progress.")
def fleet(action: str, place: Path, out: Path | None, *, quiet: bool) -> int:
    """Run the comparisons of a PLAN on many machines, resume a RUN, or print what it has.

    A plan names the agents of the machines (`jissoku agent --campaigns DIR`), and comparisons with
    the words of `jissoku compare`. Each machine has a queue: it begins the next comparison when it
    has ended the one before, whatever the others do.

    Exit codes: 0 success, 1 a machine failed or was lost, 2 bad input, 4 a comparison has no
    verdict, 130 interrupted.
    """
    if out is not None and action != "run":
        raise InputError(f"--out is for a new run: `fleet {action}` has the folder of one")
    if action == "status":
        for line in plans.status(place):
            click.echo(line)
        return ExitCode.OK
    with ProgressDisplay(quiet=quiet) as show:
        if action == "run":
            folder = out or folder_for("fleet", place.stem)
            found = plans.new_plans(place, folder, version_line())
        else:
            folder, found = place, plans.resumed_plans(place, version_line())
        show.note(f"{len(found)} comparisons; records go to {folder}.")
        finished, lost = measure_machines(found, show.note, is_resumed=action == "resume")
    codes = []
    for one in found:
        click.echo(f"{one.folder.name}:")
        codes.append(write_machines_report(one.folder, as_json=False))
    if lost:
        print_message(f"{lost}; `jissoku fleet resume {folder}` continues.")
        return ExitCode.FAILED
    if not finished:
        return ExitCode.INTERRUPTED
    return min((code for code in codes if code), default=ExitCode.OK)
