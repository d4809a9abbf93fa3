"""`jissoku calibrate`: are a load generator's results right?"""

from pathlib import Path
from typing import Any, Self

import click
import msgspec
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.table import Table

from jissoku.cli import exit_codes, shared_options
from jissoku.cli.cost import cost as measure_cost
from jissoku.cli.machine_lock import lock_machine
from jissoku.cli.messages import version_line
from jissoku.errors import InputError
from jissoku.measure.calibration import (
    CalibrationPlan,
    calibrate as run_calibration,
    read_checks,
    select_checks,
    write_page,
)
from jissoku.measure.oracle import find_tool, read_tools
from jissoku.model.calibration import CalibrationCheck, Score, Scorecard
from jissoku.report.page import evidence, totals
from jissoku.system import cores
from jissoku.targets.placeholders import default_cache

# Minutes of the ten that a quick pass may take; the rest is for start, end and the page.
QUICK_BUDGET_MIN = 9.5

COLOURS = {"A": "green", "B": "yellow", "F": "bold red"}


@click.command()
@click.argument("tool", required=False)
@click.option(
    "--quick/--long", default=True, help="Ten minutes (the default), or samples five times as long."
)
@click.option(
    "--budget",
    type=click.FloatRange(min=0),
    metavar="MINUTES",
    help="Repeat void checks only within this time.  "
    "[default: 9.5, or with --long 1.5 times the time of all checks]",
)
@click.option(
    "--checks", metavar="LIST", help="Run only these checks, such as C1,C6-C9. Default: all."
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("runs/calibrate"),
    show_default=True,
    help="Directory for records and the scorecard; records of other tools are kept.",
)
@shared_options.as_json("the tool's record")
@click.option(
    "--cost",
    metavar="AGAINST",
    help="Measure CPU time per request instead, paired with this tool at the same rate.",
)
@click.option(
    "--pairs",
    type=click.IntRange(2, 1000),
    default=10,
    show_default=True,
    help="With --cost: pairs for each kind of load.",
)
@click.option("--unix", is_flag=True, help="With --cost: over Unix sockets.")
@click.option(
    "--allow-clock", is_flag=True, help="Allow C19 to step this machine's clock (needs root)."
)
@shared_options.quiet
def calibrate(tool: str | None, **given: Any) -> int:
    """Score a load generator, TOOL, against a server of known behaviour.

    Without TOOL, lists the known tools and how to install them.

    Exit codes: 0 every grade is an A or B, 2 bad input, 3 a check failed, 4 void or nothing graded,
    130 interrupted.
    """
    known = read_tools()
    home = default_cache() / "tools"
    if given["cost"] is None and given["unix"]:
        raise InputError("--unix requires --cost: each check defines its own address")
    if given["cost"] is not None and tool is None:
        raise InputError(f"--cost {given['cost']} needs a tool to compare with")
    if tool is None:
        _list(home)
        return exit_codes.OK
    if tool not in known:
        raise InputError(f"no tool is called {tool!r}: there are {', '.join(known)}")
    lock_machine()
    if given["cost"] is not None:
        return measure_cost((tool, given["cost"]), known, home, **given)
    checks = read_checks()
    wanted = select_checks(checks, given["checks"]) if given["checks"] else checks
    wanted = tuple(
        check.quick_variant() if given["quick"] else check.long_variant() for check in wanted
    )
    budget = given["budget"]
    if budget is None and given["quick"]:
        budget = QUICK_BUDGET_MIN
    plan = CalibrationPlan(
        found=find_tool(known[tool], home),
        checks=wanted,
        mode="quick" if given["quick"] else "long",
        cores=cores.partition_cores(cores.available_cores()),
        folder=given["out"],
        version=version_line(),
        allows=frozenset({"clock"} if given["allow_clock"] else ()),
        budget_s=None if budget is None else budget * 60,
    )
    with _CalibrationDisplay(quiet=given["quiet"] or given["as_json"]) as show:
        card = run_calibration(plan, show)
    page = write_page(given["out"])
    if given["as_json"]:
        click.echo(msgspec.json.encode(card).decode())
    else:
        Console(highlight=False).print(_table(card))
        click.echo(f"{card.tool} {card.version}: {totals(card)}. Scorecard: {page}")
        if card.not_repeated:
            click.echo(f"Void, and not repeated for lack of time: {', '.join(card.not_repeated)}.")
    return _code(card)


def _code(card: Scorecard) -> int:
    grades = {score.grade for score in card.scores}
    if not card.is_finished:
        return exit_codes.INTERRUPTED
    if "F" in grades:
        return exit_codes.BOUND_EXCEEDED
    return exit_codes.UNDECIDED if "void" in grades or not grades & {"A", "B"} else exit_codes.OK


def _table(card: Scorecard) -> Table:
    table = Table(box=None, pad_edge=False)
    for heading in ("", "check", "grade", "because"):
        table.add_column(heading)
    for score in card.scores:
        colour = COLOURS.get(score.grade, "dim")
        grade = f"[{colour}]{score.grade}[/]"
        table.add_row(score.check, score.title, grade, evidence(score))
    return table


def _list(home: Path) -> None:
    table = Table(box=None, pad_edge=False)
    for heading in ("tool", "here", "what it is"):
        table.add_column(heading)
    for name, tool in read_tools().items():
        try:
            here = f"[green]{find_tool(tool, home).version}[/]"
        except InputError as error:
            here = str(error)
        table.add_row(name, here, " ".join(tool.about.split()))
    Console(highlight=False).print(table)


class _CalibrationDisplay:
    """A bar on a terminal, else a line for each check."""

    def __init__(self, *, quiet: bool) -> None:
        self._console = Console(stderr=True, highlight=False)
        self._quiet = quiet
        self._bar = Progress(
            BarColumn(bar_width=24),
            TextColumn("{task.completed}/{task.total} checks, {task.fields[left]} left"),
            TextColumn("[dim]{task.description}[/]"),
            console=self._console,
            transient=True,
            # Drawing it ten times a second uses a hundredth of a core that is being measured.
            auto_refresh=False,
            disable=quiet or not self._console.is_terminal,
        )
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def starts(self, checks: int, seconds: float, budget_s: float) -> None:
        """Reports the expected duration."""
        if not self._quiet:
            sentence = f"{checks} checks, some {seconds / 60:.1f} min; void ones are repeated"
            self._console.print(f"{sentence} if they end within {budget_s / 60:.1f} min")

    def begins(self, check: CalibrationCheck, done: int, total: int, seconds_left: float) -> None:
        """Moves the bar."""
        minutes = f"{seconds_left / 60:.0f} min"
        left = minutes if seconds_left >= 90 else f"{seconds_left:.0f} s"
        doing = f"{check.id} {check.title}"
        if self._task is None:
            self._task = self._bar.add_task(doing, total=total, left=left)
        self._bar.update(self._task, completed=done, total=total, left=left, description=doing)
        self._bar.refresh()
        if self._bar.disable and not self._quiet:
            self._console.print(f"{doing} ({left} left)", style="dim")

    def scored(self, score: Score) -> None:
        """Reports a grade when its check has ended."""
        if not self._quiet:
            colour = COLOURS.get(score.grade, "dim")
            self._console.print(f"{score.check:5}[{colour}]{score.grade}[/] {evidence(score)}")
