"""`jissoku doctor`: properties of this machine that disturb measurements."""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from jissoku.cli import exit_codes
from jissoku.cli.machine_lock import lock_machine
from jissoku.cli.messages import print_message
from jissoku.cli.param_types import LoadLevels
from jissoku.errors import InputError
from jissoku.model import LoadLevel
from jissoku.observe.health import State, run_health_checks
from jissoku.report.machine_days import HEADER, days_table

MARKS = {
    State.FINE: "[green]fine[/]",
    State.WARN: "[yellow]warning[/]",
    State.BAD: "[red]bad[/]",
}

# Options that say how --prove measures, and how each is written.
OF_PROVE = {
    "campaigns": "--campaigns N",
    "loads": "--loads LOADS",
    "seed": "--seed N",
    "viewer": "--viewer",
    "out": "--out DIR",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorOptions:
    """The command line."""

    prove: bool
    campaigns: int
    loads: tuple[LoadLevel, ...]
    seed: int
    viewer: bool
    out: Path | None
    shows_history: bool
    roots: tuple[Path, ...]

    def check(self, given: Collection[str]) -> None:
        """Options that need or exclude each other.

        Args:
            given: Names of the options on the command line, for those that have defaults.

        Raises:
            InputError: They are not given so.
        """
        for name, words in OF_PROVE.items():
            if name in given and not self.prove:
                raise InputError(f"--{name} needs --prove: jissoku doctor --prove {words}")
        if self.shows_history and self.prove:
            raise InputError("--history shows earlier runs, and --prove measures: one of them")
        if self.roots and not self.shows_history:
            raise InputError("--records needs --history: jissoku doctor --history --records DIR")


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
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="With --prove: directory for records. Default: a new one under runs/.",
)
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
def doctor(**given: Any) -> int:
    """Report what on this machine would disturb a measurement, and how to fix it.

    With --prove the lab tests itself: equal servers may not be reported as different more often
    than chance allows, injected work must be detected, and repeated comparisons must agree. The
    difference between equal servers is stored as the noise floor for later verdicts on this
    machine.

    With --prove --viewer, campaigns of equal servers run by turns with a page open and without:
    the ratio must be the same within 0.2 %, and neither its spread nor the number of rejected
    trials may grow. No noise floor is stored.

    With --history nothing is measured: a row for each day of earlier runs says how many trials
    were rejected, by which checks, and the noise floor that was known.

    Exit codes: 0 success, 1 failure, 2 bad input, 3 a bound is exceeded, 4 a bound could not be
    decided, 130 interrupted (finished series are reported).
    """
    options = DoctorOptions(**given)
    options.check(_given())
    if options.shows_history:
        return _history(options.roots)
    if options.prove:
        lock_machine()
    _print_health()
    if not options.prove:
        return exit_codes.OK
    from jissoku.cli.self_test import (  # noqa: PLC0415 - brings the whole lab
        SelfTestOptions,
        run_self_test,
        run_viewer_test,
    )

    run = run_viewer_test if options.viewer else run_self_test
    return run(
        SelfTestOptions(
            campaigns=options.campaigns,
            levels=options.loads,
            seed=options.seed,
            folder=options.out,
        )
    )


def _given() -> set[str]:
    """The parameters that the command line names."""
    context = click.get_current_context()
    return {
        name
        for name in context.params
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE
    }


def _print_health() -> None:
    table = Table(box=None, pad_edge=False)
    for heading in ("", "what", "seen", "what to do"):
        table.add_column(heading)
    for check in run_health_checks():
        table.add_row(MARKS[check.state], check.name, check.observed, check.advice)
    Console(highlight=False).print(table)


def _history(roots: tuple[Path, ...]) -> int:
    # Imports the database, which a check of the machine does not need.
    from jissoku.pipeline.history import open_history  # noqa: PLC0415

    found = open_history(roots or (Path("runs"),), print_message)
    for sentence in found.broken:
        print_message(sentence)
    days = found.machine_days()
    for machine in dict.fromkeys(one.machine for one in days):
        of_machine = [one for one in days if one.machine == machine]
        click.echo(of_machine[-1].machine_text)
        table = Table(*HEADER, box=None, pad_edge=False)
        for row in days_table(of_machine).rows:
            table.add_row(*map(escape, row))
        Console(highlight=False).print(table)
    return exit_codes.OK
