"""What is on this machine: `jissoku doctor` and `jissoku targets`."""

from pathlib import Path

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from jissoku.cli.frame import ExitCode, print_message
from jissoku.errors import InputError
from jissoku.measure.host import build_paths
from jissoku.measure.machine import State, run_health_checks
from jissoku.report.tables import DAY_HEADER, days_table
from jissoku.targets import catalogue
from jissoku.targets.prepare import missing_requirement

MARKS = {State.FINE: "[green]fine[/]", State.WARN: "[yellow]warning[/]", State.BAD: "[red]bad[/]"}


@click.command()
@click.option(
    "--history",
    "shows_history",
    is_flag=True,
    help="Instead, what disturbed earlier runs on each class of machines, day by day.",
)
@click.option(
    "--records",
    "roots",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="With --history: folder of runs; repeatable. Default: runs",
)
def doctor(*, shows_history: bool, roots: tuple[Path, ...]) -> int:
    """Report what on this machine would disturb a measurement, and how to fix it.

    With --history nothing is examined: a row for each day of earlier runs says how many trials
    were rejected, by which checks, and the noise floor that was known.

    Exit codes: 0 success, 2 bad input.
    """
    if shows_history:
        return _history(roots)
    if roots:
        raise InputError("--records needs --history: jissoku doctor --history --records DIR")
    print_health()
    return ExitCode.OK


def print_health() -> None:
    table = Table("", "what", "seen", "what to do", box=None, pad_edge=False)
    for check in run_health_checks():
        table.add_row(MARKS[check.state], check.name, check.observed, check.advice)
    Console(highlight=False).print(table)


def _history(roots: tuple[Path, ...]) -> int:
    # Imports the database, which a check of the machine does not need.
    from jissoku.measure.history import open_history  # noqa: PLC0415

    found = open_history(roots or (Path("runs"),), print_message)
    for sentence in found.broken:
        print_message(sentence)
    days = found.machine_days()
    for machine in dict.fromkeys(one.machine for one in days):
        of_machine = [one for one in days if one.machine == machine]
        click.echo(of_machine[-1].machine_text)
        table = Table(*DAY_HEADER, box=None, pad_edge=False)
        for row in days_table(of_machine).rows:
            table.add_row(*map(escape, row))
        Console(highlight=False).print(table)
    return ExitCode.OK


@click.command()
@click.argument("name", required=False)
def targets(name: str | None) -> None:
    """List the targets available here, and how to install the others; with NAME, describe one."""
    known = catalogue.recipes()
    console = Console(highlight=False)
    where = build_paths()
    if name is not None:
        recipe = catalogue.get_recipe(known, name)
        console.print(f"[bold]{recipe.name}[/]  capabilities: {', '.join(recipe.capabilities)}\n")
        console.print(_flowing(recipe.description), markup=False)
        console.print(f"\nLimitations: {_flowing(recipe.limitations)}", markup=False)
        console.print(f"\nStarted as: {' '.join(recipe.start.command)}", markup=False)
        return
    headings = ("target", "here", "capabilities", "how to install it")
    table = Table(*headings, box=None, pad_edge=False)
    for recipe in known.values():
        lack = missing_requirement(recipe, where)
        here = "[green]yes[/]" if lack is None else f"no: {lack.reason}"
        table.add_row(
            recipe.name, here, " ".join(recipe.capabilities), lack.install_hint if lack else ""
        )
    console.print(table)


def _flowing(text: str) -> str:
    """Paragraphs without the line breaks of the file."""
    return "\n\n".join(" ".join(part.split()) for part in text.strip().split("\n\n"))
