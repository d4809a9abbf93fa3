"""CPU time per request of two load generators: rounds of load points, recorded as they end."""

import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from jissoku.model import CoreAssignment
from jissoku.model.load_tool import InstalledTool
from jissoku.model.request_cost import (
    CostRecord,
    LoadPoint,
    LoadPoints,
    SyscallCounts,
    ToolPair,
)
from jissoku.model.updated import updated
from jissoku.observe.machine import machine
from jissoku.pipeline.paired_runs import PairedRuns
from jissoku.pipeline.syscall_runs import SyscallRuns
from jissoku.records.calibration import write_cost
from jissoku.stats.request_cost import unsupported_reason, with_results
from jissoku.system.cores import pin_process
from jissoku.system.interruption import Interrupted, Interruption
from jissoku.system.strace import missing_reason

# Maximum repetitions of a void pair, because the machine may have been busy.
ATTEMPTS = 2

# Seconds to start and end an oracle and two generators, without the window; or a traced one.
OVERHEAD_S = 4.5
CALLS_OVERHEAD_S = 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CostPlan:
    """Configuration of a cost measurement.

    Attributes:
        founds: The generator, and the one it is compared with; they may be the same.
        rounds: Pairs of each cell.
        folder: The folder of the record.
    """

    founds: tuple[InstalledTool, InstalledTool]
    cells: LoadPoints
    rounds: int
    cores: CoreAssignment
    folder: Path
    version: str


class CostListener(Protocol):
    """Receives progress."""

    def begins(self, what: str, done: int, total: int, seconds_left: float) -> None:
        """Called when a pair begins."""

    def measured(self, pair: ToolPair) -> None:
        """Called when a pair has ended."""

    def counted(self, syscalls: SyscallCounts) -> None:
        """Called when system calls have been counted."""


def measure(plan: CostPlan, listener: CostListener) -> CostRecord:
    """Runs every round; each pair is written to the record when it has ended.

    Raises:
        InputError: The folder cannot be written.
        CalibrationError: The oracle failed.
    """
    tools = (plan.founds[0].tool, plan.founds[1].tool)
    cells = [it for it in plan.cells.cell if unsupported_reason(it, tools) is None]
    record = with_results(_new_record(plan), tools)
    total = plan.rounds * len(cells)
    calls_s = 0.0 if missing_reason() else 2 * len(cells) * (plan.cells.window_s + CALLS_OVERHEAD_S)
    with Interruption() as interruption, pin_process(plan.cores.generator):
        runs = PairedRuns(
            plan.founds,
            plan.cores,
            interruption.waits_for,
            interruption.check,
        )
        try:
            for done in range(total):
                turn, number = divmod(done, len(cells))
                seconds_left = (total - done) * (plan.cells.window_s + OVERHEAD_S) + calls_s
                listener.begins(cells[number].name, done, total, seconds_left)
                for _ in range(ATTEMPTS):
                    # The order alternates between rounds, and between cells within a round.
                    first = (turn + number) % 2
                    pair = runs.run(cells[number], plan.cells.window_s, turn, first)
                    interruption.check()
                    listener.measured(pair)
                    record = updated(record, pairs=(*record.pairs, pair))
                    if not pair.void:
                        break
                record = with_results(record, tools)
                write_cost(plan.folder, record)
            for syscalls in _calls(plan, cells, interruption):
                listener.counted(syscalls)
                record = updated(record, calls=(*record.calls, syscalls))
                write_cost(plan.folder, record)
        except Interrupted:
            return record
    record = updated(record, is_finished=True)
    write_cost(plan.folder, record)
    return record


def _calls(
    plan: CostPlan, cells: Sequence[LoadPoint], interruption: Interruption
) -> Iterator[SyscallCounts]:
    """A separate window for each tool under each load; none without strace."""
    if missing_reason():
        return
    solos = SyscallRuns(plan.cores, interruption.waits_for, interruption.check)
    founds = {found.tool.name: found for found in plan.founds}
    for cell in cells:
        for found in founds.values():
            syscalls = solos.run(found, cell, plan.cells.window_s)
            interruption.check()
            yield syscalls


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
