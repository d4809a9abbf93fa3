"""What a request costs one load generator, against another: rounds of cells, kept as they go."""

import datetime as dt
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import msgspec

from jissoku.calibrate.cost import (
    CostRecord,
    CostResult,
    LoadPoint,
    LoadPoints,
    SyscallCounts,
    ToolMeasurement,
    ToolPair,
    write_cost,
)
from jissoku.calibrate.paired_runs import PairedRuns, ProcessLookup
from jissoku.calibrate.syscall_runs import SyscallRuns
from jissoku.calibrate.tool import InstalledTool
from jissoku.interruption import Interrupted, Interruption
from jissoku.model import CoreAssignment, Estimate
from jissoku.observe.cores import pin_process
from jissoku.observe.machine import machine
from jissoku.observe.processes import all_processes, process_tree
from jissoku.observe.strace import Trace, missing_reason
from jissoku.stats import estimate

# A pair that is void is repeated so often; the machine may have been busy.
ATTEMPTS = 2

# With fewer ticks than this the split into user and kernel time would be guesswork.
TICKS_MIN = 20

# Starting and ending an oracle and two generators, beside the window; or one that is traced.
OVERHEAD_S = 4.5
CALLS_OVERHEAD_S = 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CostPlan:
    """What is to be measured.

    Attributes:
        founds: The generator, and the one that it is held against; they may be the same.
        rounds: Pairs of each cell.
        folder: Where the record goes.
    """

    founds: tuple[InstalledTool, InstalledTool]
    cells: LoadPoints
    rounds: int
    cores: CoreAssignment
    folder: Path
    version: str


class CostListener(Protocol):
    """Hears of progress."""

    def begins(self, what: str, done: int, total: int, seconds_left: float) -> None:
        """Hears of a pair that begins."""

    def measured(self, pair: ToolPair) -> None:
        """Hears of a pair that has ended."""

    def counted(self, syscalls: SyscallCounts) -> None:
        """Hears of system calls that were counted."""


def measure(plan: CostPlan, listener: CostListener) -> CostRecord:
    """Runs every round; the record on disk has each pair as soon as it has ended.

    Raises:
        InputError: The folder cannot be written.
        CalibrationError: The oracle broke.
    """
    cells = [it for it in plan.cells.cell if _unable(it, plan.founds) is None]
    record = with_results(_new_record(plan), plan.founds)
    total = plan.rounds * len(cells)
    calls_s = 0.0 if missing_reason() else 2 * len(cells) * (plan.cells.window_s + CALLS_OVERHEAD_S)
    with Interruption() as interruption, pin_process(plan.cores.generator):
        runs = PairedRuns(
            plan.founds,
            plan.cores,
            ProcessLookup(all_processes, _family),
            interruption.waits_for,
            interruption.check,
        )
        try:
            for done in range(total):
                turn, number = divmod(done, len(cells))
                seconds_left = (total - done) * (plan.cells.window_s + OVERHEAD_S) + calls_s
                listener.begins(cells[number].name, done, total, seconds_left)
                for _ in range(ATTEMPTS):
                    # Who is first changes from round to round, and from cell to cell within one.
                    first = (turn + number) % 2
                    pair = runs.run(cells[number], plan.cells.window_s, turn, first)
                    interruption.check()
                    listener.measured(pair)
                    record = msgspec.structs.replace(record, pairs=(*record.pairs, pair))
                    if not pair.void:
                        break
                record = with_results(record, plan.founds)
                write_cost(plan.folder, record)
            for syscalls in _calls(plan, cells, interruption):
                listener.counted(syscalls)
                record = msgspec.structs.replace(record, calls=(*record.calls, syscalls))
                write_cost(plan.folder, record)
        except Interrupted:
            return record
    record = msgspec.structs.replace(record, is_finished=True)
    write_cost(plan.folder, record)
    return record


def _calls(
    plan: CostPlan, cells: Sequence[LoadPoint], interruption: Interruption
) -> Iterator[SyscallCounts]:
    """A window of its own for each tool under each load; none without strace."""
    if missing_reason():
        return
    solos = SyscallRuns(plan.cores, _family, Trace, interruption.waits_for, interruption.check)
    founds = {found.tool.name: found for found in plan.founds}
    for cell in cells:
        for found in founds.values():
            syscalls = solos.run(found, cell, plan.cells.window_s)
            interruption.check()
            yield syscalls


def with_results(record: CostRecord, founds: tuple[InstalledTool, InstalledTool]) -> CostRecord:
    """The record with what its pairs come to."""
    figures = []
    for cell in record.cells:
        unable = _unable(cell, founds)
        pairs = [pair for pair in record.pairs if pair.cell == cell.name]
        figures.append(
            CostResult(cell=cell.name, unsupported_reason=unable)
            if unable
            else cost_result(cell, pairs)
        )
    names = [cell.name for cell in record.cells if _unable(cell, founds) is None]
    return msgspec.structs.replace(
        record, figures=tuple(figures), overall=overall(names, record.pairs)
    )


def cost_result(cell: LoadPoint, pairs: Sequence[ToolPair]) -> CostResult:
    """What the pairs of one cell come to."""
    counted = [pair for pair in pairs if not pair.void]
    found = CostResult(
        cell=cell.name,
        pairs=len(counted),
        void=len(pairs) - len(counted),
        apart=sum(pair.are_rates_apart for pair in counted),
    )
    if not counted:
        return found
    sides = [[pair.sides[place] for pair in counted] for place in (0, 1)]
    seconds = sum(pair.window_ns for pair in counted) / 1e9
    cost_ns = [math.exp(_mean([math.log(it.cost_ns) for it in side])) for side in sides]
    rates_rps = [sum(it.answers for it in side) / seconds for side in sides]
    return msgspec.structs.replace(
        found,
        ratio=estimate.geometric_mean([pair.log_ratio for pair in counted]),
        cost_ns=(cost_ns[0], cost_ns[1]),
        rates_rps=(rates_rps[0], rates_rps[1]),
        user_fractions=(_user_fraction(sides[0]), _user_fraction(sides[1])),
    )


def overall(names: Sequence[str], pairs: Sequence[ToolPair]) -> Estimate | None:
    """The geometric mean over cells of equal weight; a round is a block if each cell counted."""
    rounds: dict[int, dict[str, float]] = {}
    for pair in pairs:
        if not pair.void:
            rounds.setdefault(pair.round, {})[pair.cell] = pair.log_ratio
    whole = [_mean(list(logs.values())) for logs in rounds.values() if len(logs) == len(names)]
    return estimate.geometric_mean(whole)


def _user_fraction(sides: Sequence[ToolMeasurement]) -> float | None:
    user, system = (sum(side.ticks[place] for side in sides) for place in (0, 1))
    return user / (user + system) if user + system >= TICKS_MIN else None


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _unable(cell: LoadPoint, founds: tuple[InstalledTool, InstalledTool]) -> str | None:
    return next((why for it in founds if (why := cell.unsupported_reason(it.tool))), None)


def _family(root: int) -> set[int]:
    return process_tree(root, all_processes())


def _new_record(plan: CostPlan) -> CostRecord:
    here = machine()
    tool, against = plan.founds
    return CostRecord(
        tool=tool.tool.name,
        against=against.tool.name,
        versions=(tool.version, against.version),
        jissoku=plan.version,
        started_utc=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        machine=f"{here.cpu_model}, kernel {here.kernel}",
        transport="unix" if "unix" in plan.cells.cell[0].ask else "tcp",
        rounds=plan.rounds,
        window_s=plan.cells.window_s,
        is_finished=False,
        cells=plan.cells.cell,
        calls_reason=missing_reason(),
    )
