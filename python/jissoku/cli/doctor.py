"""`jissoku doctor`: what would spoil a measurement here."""

import click
from rich.console import Console
from rich.table import Table

from jissoku.observe.health import State, checks

MARKS = {
    State.FINE: "[green]fine[/]",
    State.MIND: "[yellow]mind[/]",
    State.BAD: "[red]bad[/]",
}


@click.command()
@click.option(
    "--prove", is_flag=True, help="Race a target against itself, and a planted 2 %: minutes."
)
@click.option(
    "--campaigns",
    default=20,
    show_default=True,
    type=click.IntRange(1, 200),
    help="With --prove: how many campaigns of equal arms.",
)
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True)
def doctor(*, prove: bool, campaigns: int, seed: int) -> None:
    """Tell what on this machine would spoil a measurement, and how to mend it."""
    table = Table(box=None, pad_edge=False)
    for heading in ("", "what", "seen", "what to do"):
        table.add_column(heading)
    for check in checks():
        table.add_row(MARKS[check.state], check.name, check.seen, check.advice)
    Console(highlight=False).print(table)
    if prove:
        from jissoku.cli.prove import run  # noqa: PLC0415 - brings the whole lab

        run(campaigns=campaigns, seed=seed)
