"""`jissoku calibrate TOOL --cost AGAINST`: CPU time per request of load generators."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import msgspec
from rich.console import Console
from rich.table import Table

from jissoku.cli import exit_codes
from jissoku.cli.messages import version_line
from jissoku.errors import InputError
from jissoku.measure.calibration import read_cells
from jissoku.measure.cost import CostPlan, measure
from jissoku.measure.oracle import find_tool
from jissoku.model import Estimate
from jissoku.model.calibration import (
    CostRecord,
    CostResult,
    LoadPoints,
    SyscallCounts,
    Tool,
    ToolPair,
)
from jissoku.system import cores

# Next to the scorecards, whose page is generated from all records in their folder.
FOLDER = "cost"

WIDTH = 140

# Columns of a row of pairs, at most.
CELLS_OF_A_PAIR = 7

# Rarer calls are not printed; the record has them.
CALLS_MIN = 0.005


def cost(names: tuple[str, str], known: Mapping[str, Tool], home: Path, **given: Any) -> int:
    """Measures, prints and records the cost of a request for one tool relative to another."""
    for name in names:
        if name not in known:
            raise InputError(f"no tool is called {name!r}: there are {', '.join(known)}")
    cells = read_cells().over_unix() if given["unix"] else read_cells()
    tools = tuple(known[name] for name in names)
    _require_support(cells, tools)
    plan = CostPlan(
        founds=(find_tool(tools[0], home), find_tool(tools[1], home)),
        cells=cells,
        rounds=given["pairs"],
        cores=cores.partition_cores(cores.available_cores()),
        folder=given["out"] / FOLDER,
        version=version_line(),
    )
    record = measure(plan, _CostDisplay(quiet=given["quiet"] or given["as_json"]))
    if given["as_json"]:
        click.echo(msgspec.json.encode(record).decode())
    else:
        # A file has no width, and folded rows are hard to read in it.
        width = None if sys.stdout.isatty() else WIDTH
        console = Console(highlight=False, width=width)
        console.print(table(record))
        click.echo(sentence(record))
        if record.calls:
            console.print(calls_table(record))
        elif record.calls_reason:
            click.echo(f"System calls per request: {record.calls_reason}.")
    return code(record)


def code(record: CostRecord) -> int:
    """Undecided if a load that both support has no interval."""
    if not record.is_finished:
        return exit_codes.INTERRUPTED
    unavailable = any(it.ratio is None and not it.unsupported_reason for it in record.figures)
    return exit_codes.UNDECIDED if unavailable or record.overall is None else exit_codes.OK


def table(record: CostRecord) -> Table:
    """A row for each cell."""
    found = Table(box=None, pad_edge=False)
    found.add_column("load")
    for heading in (f"{record.tool} ns", f"{record.against} ns", "ratio", "", "pairs"):
        found.add_column(heading, justify="right")
    for heading in ("requests/s", "in user code", "calls/request"):
        found.add_column(heading)
    totals = {(it.cell, it.tool): _total(it) for it in record.calls}
    for row in record.figures:
        syscalls = [totals.get((row.cell, tool), "") for tool in (record.tool, record.against)]
        cells = _row(row)
        if all(syscalls):
            cells += ("",) * (CELLS_OF_A_PAIR - len(cells)) + (" / ".join(syscalls),)
        found.add_row(row.cell, *cells)
    return found


def calls_table(record: CostRecord) -> Table:
    """A row for each tool under each load."""
    found = Table(box=None, pad_edge=False)
    found.add_column("load")
    found.add_column("tool")
    found.add_column("calls/request", justify="right")
    found.add_column("of which (traced, in windows of their own)")
    for syscalls in record.calls:
        each = syscalls.per_answer()
        names = ", ".join(f"{name} {it:.2f}" for name, it in each.items() if it >= CALLS_MIN)
        found.add_row(
            syscalls.cell, syscalls.tool, _total(syscalls), names or f"void: {syscalls.void}"
        )
    return found


def _total(syscalls: SyscallCounts) -> str:
    each = syscalls.per_answer()
    return f"{sum(each.values()):.2f}" if each else ""


def sentence(record: CostRecord) -> str:
    if record.overall is None:
        return "Too few pairs count for a value over all."
    words = f"{record.tool} costs {_ratio(record.overall)} of {record.against} per request"
    return f"{words} {_interval(record.overall)}, {record.overall.blocks} rounds."


def _row(row: CostResult) -> tuple[str, ...]:
    if row.unsupported_reason:
        return ("", "", "", "", "", row.unsupported_reason)
    notes = {"void": row.void, "rates apart": row.apart}
    words = ", ".join(f"{count} {note}" for note, count in notes.items() if count)
    pairs = f"{row.pairs} ({words})" if words else f"{row.pairs}"
    if row.cost_ns is None or row.rates_rps is None:
        return ("", "", "", "", pairs)
    ratio = (_ratio(row.ratio), _interval(row.ratio)) if row.ratio else ("", "")
    rates = " / ".join(f"{rate:,.0f}" for rate in row.rates_rps)
    user = " / ".join("?" if it is None else f"{it * 100:.0f} %" for it in row.user_fractions)
    costs = (f"{row.cost_ns[0]:,.0f}", f"{row.cost_ns[1]:,.0f}")
    return (*costs, *ratio, pairs, rates, user)


def _ratio(found: Estimate) -> str:
    return f"{found.value:.3f}"


def _interval(found: Estimate) -> str:
    return f"({found.low:.3f} to {found.high:.3f})"


def _require_support(cells: LoadPoints, tools: tuple[Tool, ...]) -> None:
    """Raises InputError if a tool supports none of the loads."""
    for tool in tools:
        reasons = [cell.unsupported_reason(tool) for cell in cells.cell]
        if all(reasons):
            raise InputError(f"{tool.name} cannot be measured so: {reasons[0]}")


class _CostDisplay:
    """A line for each pair; drawing a bar would use a core that is being measured."""

    def __init__(self, *, quiet: bool) -> None:
        self._console = Console(stderr=True, highlight=False, quiet=quiet)

    def begins(self, what: str, done: int, total: int, seconds_left: float) -> None:
        """Reports progress, at the beginning and after every tenth pair."""
        if done % 10 == 0:
            left = f"{seconds_left / 60:.0f} min" if seconds_left >= 90 else f"{seconds_left:.0f} s"
            self._console.print(f"{done}/{total} pairs, {left} left; now {what}", style="dim")

    def measured(self, pair: ToolPair) -> None:
        """Reports a pair's ratio, or why the pair is void."""
        if pair.void:
            self._console.print(f"void: {pair.void} ({pair.cell})", style="yellow")
            return
        tool, against = (side.cost_ns for side in pair.sides)
        warning = ", rates apart" if pair.are_rates_apart else ""
        self._console.print(f"{tool:,.0f} / {against:,.0f} ns ({pair.cell}{warning})", style="dim")

    def counted(self, syscalls: SyscallCounts) -> None:
        """Reports the system calls per response, or why they were not counted."""
        if syscalls.void:
            self._console.print(f"void: {syscalls.void} ({syscalls.cell}, traced)", style="yellow")
            return
        each = sum(syscalls.per_answer().values())
        self._console.print(
            f"{each:.2f} calls/request ({syscalls.tool}, {syscalls.cell})", style="dim"
        )
