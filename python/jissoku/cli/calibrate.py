"""`jissoku calibrate`: are a load generator's results right, and what does a request cost it?"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Self

import click
import msgspec
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.table import Column, Table

from jissoku.cli.frame import ExitCode, exit_code, version_line
from jissoku.cli.progress import lock_machine
from jissoku.errors import InputError
from jissoku.inference.late import import_libraries
from jissoku.measure import calibration
from jissoku.measure.cost import CostPlan, measure
from jissoku.measure.oracle import find_tool, read_tools
from jissoku.model import Estimate, calibration as model, time_text
from jissoku.report.page import evidence, totals
from jissoku.request.options import option, verb
from jissoku.request.shared import DIRECTORY, AsJson, Quiet
from jissoku.system.cores import core_assignment
from jissoku.targets.placeholders import default_cache

# Next to the scorecards, whose page is generated from all records in their folder.
FOLDER = "cost"

WIDTH = 140

# Rarer calls are not printed; the record has them.
CALLS_MIN = 0.005


# Minutes that a session may take with its repetitions, without start, end and the page.
BUDGETS_MIN = {"quick": 0.5, "standard": 9.5, "long": None}

# Of the scorecard of quick sessions, below the folder of the others.
QUICK = "quick"

COLOURS = {"A": "green", "B": "yellow", "F": "bold red"}


class CalibrateOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of the command.

    Attributes:
        quick: Half a minute with the most important checks, in short samples, instead of all in
            ten minutes; its scorecard is another one.
        long: Samples five times as long as those of ten minutes.
        checks: Run only these checks, such as C1,C6-C9. Default: all.
        out: Directory for records and the scorecard; records of other tools are kept.
        as_json: Print the tool's record as JSON.
        cost: Measure CPU time per request instead, paired with this tool at the same rate.
        pairs: With --cost: pairs for each kind of load.
        unix: With --cost: over Unix sockets.
        allow_clock: Allow C19 to step this machine's clock (needs root).
    """

    tool: Annotated[str | None, option()] = None
    quick: Annotated[bool, option("--quick")] = False
    long: Annotated[bool, option("--long")] = False
    budget: Annotated[
        float | None,
        option(
            "--budget",
            type=click.FloatRange(min=0),
            metavar="MINUTES",
            help="Repeat void checks only within this time.  "
            "[default: 9.5, with --quick 0.5, with --long 1.5 times the time of all checks]",
        ),
    ] = None
    checks: Annotated[str | None, option("--checks", metavar="LIST")] = None
    out: Annotated[Path, option("--out", type=DIRECTORY)] = Path("runs/calibrate")
    as_json: AsJson = False
    cost: Annotated[str | None, option("--cost", metavar="AGAINST")] = None
    pairs: Annotated[int, option("--pairs", type=click.IntRange(2, 1000))] = 10
    unix: Annotated[bool, option("--unix")] = False
    allow_clock: Annotated[bool, option("--allow-clock")] = False
    quiet: Quiet = False


@verb(CalibrateOptions)
def calibrate(options: CalibrateOptions) -> int:
    """Score a load generator, TOOL, against a server of known behaviour.

    Without TOOL, lists the known tools and how to install them.

    Exit codes: 0 every grade is an A or B, 2 bad input, 3 a check failed, 4 void or nothing graded,
    130 interrupted.
    """
    known, home = read_tools(), default_cache() / "tools"
    _check(options)
    if options.tool is None:
        _list(known, home)
        return ExitCode.OK
    for name in filter(None, (options.tool, options.cost)):
        if name not in known:
            raise InputError(f"no tool is called {name!r}: there are {', '.join(known)}")
    if options.cost is not None:
        return _cost((known[options.tool], known[options.cost]), home, options)
    mode = "quick" if options.quick else "long" if options.long else "standard"
    every = calibration.read_checks()
    wanted = calibration.select_checks(every, options.checks) if options.checks else every
    checks = tuple(one for check in wanted if (one := check.variant(mode)).setup)
    if not checks:
        raise InputError(f"{options.checks}: no part of a quick session")
    lock_machine()
    budget = BUDGETS_MIN[mode] if options.budget is None else options.budget
    plan = calibration.CalibrationPlan(
        found=find_tool(known[options.tool], home),
        checks=checks,
        mode=mode,
        cores=core_assignment(None, None),
        folder=options.out / QUICK if options.quick else options.out,
        version=version_line(),
        allows=frozenset({"clock"} if options.allow_clock else ()),
        budget_s=None if budget is None else budget * 60,
    )
    import_libraries()
    with _CalibrationDisplay(quiet=options.quiet or options.as_json) as show:
        card = calibration.calibrate(plan, show)
    page = calibration.write_page(plan.folder)
    if options.as_json:
        click.echo(msgspec.json.encode(card).decode())
    else:
        _print(card, page, [check.id for check in wanted])
    grades = {score.grade for score in card.scores}
    return exit_code(
        is_finished=card.is_finished,
        is_exceeded="F" in grades,
        is_undecided="void" in grades or not grades & {"A", "B"},
    )


def _check(options: CalibrateOptions) -> None:
    if options.cost is None and options.unix:
        raise InputError("--unix requires --cost: each check defines its own address")
    if options.cost is not None and options.tool is None:
        raise InputError(f"--cost {options.cost} needs a tool to compare with")
    if options.quick and options.long:
        raise InputError("--quick and --long exclude each other")


def _print(card: model.Scorecard, page: Path, wanted: Sequence[str]) -> None:
    found = Table("", "check", "grade", "because", box=None, pad_edge=False)
    for score in card.scores:
        found.add_row(score.check, score.title, _grade(score), evidence(score))
    Console(highlight=False).print(found)
    if card.not_repeated:
        click.echo(f"Void, and not repeated for lack of time: {', '.join(card.not_repeated)}.")
    is_quick = card.mode == QUICK
    if is_quick and (
        left := sorted({*wanted} - {score.check for score in card.scores}, key=calibration.order)
    ):
        click.echo(
            f"Not said by a quick session: {len(left)} of {len(wanted)} checks need longer samples"
            f" ({', '.join(left)}), such as those of high percentiles, timeouts and drift."
            f" `jissoku calibrate {card.tool}` has all, in ten minutes."
        )
    click.echo(f"Scorecard: {page}")
    short = ", in short samples" if is_quick else ""
    click.echo(f"{card.tool} {card.version}: {totals(card)}{short}.")


def _cost(tools: tuple[model.Tool, model.Tool], home: Path, options: CalibrateOptions) -> int:
    cells = calibration.read_cells().over_unix() if options.unix else calibration.read_cells()
    for tool in tools:
        reasons = [cell.unsupported_reason(tool) for cell in cells.cell]
        if all(reasons):
            raise InputError(f"{tool.name} cannot be measured so: {reasons[0]}")
    lock_machine()
    plan = CostPlan(
        founds=(find_tool(tools[0], home), find_tool(tools[1], home)),
        cells=cells,
        rounds=options.pairs,
        cores=core_assignment(None, None),
        folder=options.out / FOLDER,
        version=version_line(),
    )
    import_libraries()
    record = measure(plan, _CostDisplay(quiet=options.quiet or options.as_json))
    if options.as_json:
        click.echo(msgspec.json.encode(record).decode())
    else:
        # A file has no width, and folded rows are hard to read in it.
        console = Console(highlight=False, width=None if sys.stdout.isatty() else WIDTH)
        console.print(table(record))
        click.echo(sentence(record))
        if record.calls:
            console.print(calls_table(record))
        elif record.calls_reason:
            click.echo(f"System calls per request: {record.calls_reason}.")
    return code(record)


def code(record: model.CostRecord) -> int:
    """Undecided if a load that both support has no interval."""
    is_open = any(it.ratio is None and not it.unsupported_reason for it in record.figures)
    is_undecided = is_open or record.overall is None
    return exit_code(is_finished=record.is_finished, is_undecided=is_undecided)


def table(record: model.CostRecord) -> Table:
    numbers = (f"{record.tool} ns", f"{record.against} ns", "ratio", "", "pairs")
    right = (Column(name, justify="right") for name in numbers)
    others = ("requests/s", "in user code", "calls/request")
    found = Table("load", *right, *others, box=None, pad_edge=False)
    totals = {(it.cell, it.tool): _total(it) for it in record.calls}
    for row in record.figures:
        syscalls = [totals.get((row.cell, tool), "") for tool in (record.tool, record.against)]
        cells = _row(row)
        if all(syscalls):
            before = len(found.columns) - 2
            cells += ("",) * (before - len(cells)) + (" / ".join(syscalls),)
        found.add_row(row.cell, *cells)
    return found


def calls_table(record: model.CostRecord) -> Table:
    calls = Column("calls/request", justify="right")
    which = "of which (traced, in windows of their own)"
    found = Table("load", "tool", calls, which, box=None, pad_edge=False)
    for syscalls in record.calls:
        each = syscalls.per_answer()
        names = ", ".join(f"{name} {it:.2f}" for name, it in each.items() if it >= CALLS_MIN)
        found.add_row(
            syscalls.cell, syscalls.tool, _total(syscalls), names or f"void: {syscalls.void}"
        )
    return found


def _total(syscalls: model.SyscallCounts) -> str:
    each = syscalls.per_answer()
    return f"{sum(each.values()):.2f}" if each else ""


def sentence(record: model.CostRecord) -> str:
    if record.overall is None:
        return "Too few pairs count for a value over all."
    ratio = f"{record.overall.value:.3f}"
    words = f"{record.tool} costs {ratio} of {record.against} per request"
    return f"{words} {_interval(record.overall)}, {record.overall.blocks} rounds."


def _row(row: model.CostResult) -> tuple[str, ...]:
    if row.unsupported_reason:
        return ("", "", "", "", "", row.unsupported_reason)
    notes = {"void": row.void, "rates apart": row.apart}
    words = ", ".join(f"{count} {note}" for note, count in notes.items() if count)
    pairs = f"{row.pairs} ({words})" if words else f"{row.pairs}"
    if row.cost_ns is None or row.rates_rps is None:
        return ("", "", "", "", pairs)
    ratio = (f"{row.ratio.value:.3f}", _interval(row.ratio)) if row.ratio else ("", "")
    rates = " / ".join(f"{rate:,.0f}" for rate in row.rates_rps)
    user = " / ".join("?" if it is None else f"{it * 100:.0f} %" for it in row.user_fractions)
    costs = (f"{row.cost_ns[0]:,.0f}", f"{row.cost_ns[1]:,.0f}")
    return (*costs, *ratio, pairs, rates, user)


def _interval(found: Estimate) -> str:
    return f"({found.low:.3f} to {found.high:.3f})"


class _CostDisplay:
    """A line for each pair; drawing a bar would use a core that is being measured."""

    def __init__(self, *, quiet: bool) -> None:
        self._console = Console(stderr=True, highlight=False, quiet=quiet)

    def begins(self, what: str, done: int, total: int, seconds_left: float) -> None:
        """Reports progress, at the beginning and after every tenth pair."""
        if done % 10 == 0:
            left = time_text(seconds_left)
            self._console.print(f"{done}/{total} pairs, {left} left; now {what}", style="dim")

    def measured(self, pair: model.ToolPair) -> None:
        if pair.void:
            self._console.print(f"void: {pair.void} ({pair.cell})", style="yellow")
            return
        tool, against = (side.cost_ns for side in pair.sides)
        warning = ", rates apart" if pair.are_rates_apart else ""
        self._console.print(f"{tool:,.0f} / {against:,.0f} ns ({pair.cell}{warning})", style="dim")

    def counted(self, syscalls: model.SyscallCounts) -> None:
        if syscalls.void:
            self._console.print(f"void: {syscalls.void} ({syscalls.cell}, traced)", style="yellow")
            return
        each = sum(syscalls.per_answer().values())
        words = f"{each:.2f} calls/request ({syscalls.tool}, {syscalls.cell})"
        self._console.print(words, style="dim")


def _grade(score: model.Score) -> str:
    return f"[{COLOURS.get(score.grade, 'dim')}]{score.grade}[/]"


def _list(known: Mapping[str, model.Tool], home: Path) -> None:
    found = Table("tool", "here", "what it is", box=None, pad_edge=False)
    for name, tool in known.items():
        try:
            here = f"[green]{find_tool(tool, home).version}[/]"
        except InputError as error:
            here = str(error)
        found.add_row(name, here, " ".join(tool.about.split()))
    Console(highlight=False).print(found)


class _CalibrationDisplay:
    """A bar on a terminal, else a line for each check."""

    def __init__(self, *, quiet: bool) -> None:
        self._console = Console(stderr=True, highlight=False, quiet=quiet)
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
        sentence = f"{checks} checks, some {seconds / 60:.1f} min; void ones are repeated"
        self._console.print(f"{sentence} if they end within {budget_s / 60:.1f} min")

    def begins(
        self, check: model.CalibrationCheck, done: int, total: int, seconds_left: float
    ) -> None:
        left = time_text(seconds_left)
        doing = f"{check.id} {check.title}"
        if self._task is None:
            self._task = self._bar.add_task(doing, total=total, left=left)
        self._bar.update(self._task, completed=done, total=total, left=left, description=doing)
        self._bar.refresh()
        if self._bar.disable:
            self._console.print(f"{doing} ({left} left)", style="dim")

    def scored(self, score: model.Score) -> None:
        self._console.print(f"{score.check:5}{_grade(score)} {evidence(score)}")
