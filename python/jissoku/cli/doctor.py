"""`jissoku doctor`: properties of this machine that disturb measurements."""

import click
from rich.console import Console
from rich.table import Table

from jissoku.cli import exit_codes
from jissoku.cli.machine_lock import lock_machine
from jissoku.cli.param_types import LoadLevels
from jissoku.errors import InputError
from jissoku.model import LoadLevel
from jissoku.observe.health import State, run_health_checks

MARKS = {
    State.FINE: "[green]fine[/]",
    State.WARN: "[yellow]warning[/]",
    State.BAD: "[red]bad[/]",
}


@click.command()
@click.option(
    "--prove",
    is_flag=True,
    help="Test the lab on this machine: equal arms, injected work, repetitions. Takes minutes.",
)
@click.option(
    "--campaigns",
    default=20,
    show_default=True,
    type=click.IntRange(1, 200),
    help="With --prove: number of campaigns of equal arms.",
)
@click.option(
    "--loads",
    default="medium",
    show_default=True,
    type=LoadLevels(),
    help="With --prove: loads, comma-separated: light, medium, heavy.",
)
@click.option(
    "--seed",
    type=click.IntRange(0),
    default=1,
    show_default=True,
    help="With --prove: seed of all random choices.",
)
@click.option(
    "--viewer",
    is_flag=True,
    help="With --prove: instead, test what a page of `jissoku ui` that follows a run costs it.",
)
def doctor(
    *, prove: bool, campaigns: int, loads: tuple[LoadLevel, ...], seed: int, viewer: bool
) -> int:
    """Report what on this machine would disturb a measurement, and how to fix it.

    With --prove the lab tests itself: equal servers may not be reported as different more often
    than chance allows, injected work must be detected, and repeated comparisons must agree. The
    difference between equal servers is stored as the noise floor for later verdicts on this
    machine.

    With --prove --viewer, campaigns of equal servers run by turns with a page open and without:
    the ratio must be the same within 0.2 %, and neither its spread nor the number of rejected
    trials may grow. No noise floor is stored.

    Exit codes: 0 success, 1 failure, 2 bad input, 3 a bound is exceeded, 4 a bound could not be
    decided, 130 interrupted (finished series are reported).
    """
    if viewer and not prove:
        raise InputError("--viewer needs --prove: jissoku doctor --prove --viewer")
    if prove:
        lock_machine()
    table = Table(box=None, pad_edge=False)
    for heading in ("", "what", "seen", "what to do"):
        table.add_column(heading)
    for check in run_health_checks():
        table.add_row(MARKS[check.state], check.name, check.observed, check.advice)
    Console(highlight=False).print(table)
    if not prove:
        return exit_codes.OK
    from jissoku.cli.self_test import (  # noqa: PLC0415 - brings the whole lab
        run_self_test,
        run_viewer_test,
    )

    run = run_viewer_test if viewer else run_self_test
    return run(campaigns=campaigns, levels=loads, seed=seed)
