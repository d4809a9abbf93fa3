"""CPU time per request of two load generators: rounds of load points, recorded as they end."""

import datetime as dt
import math
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from jissoku.inference import tool_values
from jissoku.inference.grading import unsupported_reason, with_results
from jissoku.inference.tool_values import Window, share
from jissoku.measure.machine import machine
from jissoku.measure.oracle import Oracle
from jissoku.measure.paired_runs import AFTER_S, Cost, PairedRuns, invalid_reason, tool_measurement
from jissoku.measure.running_tool import (
    SETTLE_S,
    RunningTool,
    ToolFailed,
    end_session,
    start,
    wait,
    wait_for_connections,
    wait_for_exit,
)
from jissoku.model import CoreAssignment
from jissoku.model.calibration import Scenario
from jissoku.model.load_tool import InstalledTool
from jissoku.model.request_cost import (
    CostRecord,
    LoadPoint,
    LoadPoints,
    SyscallCounts,
    ToolPair,
)
from jissoku.model.updated import updated
from jissoku.records.calibration import write_cost
from jissoku.system import strace
from jissoku.system.cores import pin_process
from jissoku.system.interruption import Interrupted, Interruption
from jissoku.system.processes import process_tree
from jissoku.system.strace import StraceError, counts_by_name, missing_reason

# Usual time that tracing takes to begin, in seconds.
ATTACH_S = 1.0

# A time after every other, because there is no second generator.
NEVER_NS = 2**63


class SyscallRuns:
    """Runs windows in which system calls are counted."""

    def __init__(
        self,
        cores: CoreAssignment,
        waits_for: Callable[[subprocess.Popen[Any]], object],
        check: Callable[[], object],
    ) -> None:
        """`waits_for` gets the process waited for; `check` raises on interruption."""
        self._cores = cores
        self._waits_for = waits_for
        self._check = check

    def run(self, found: InstalledTool, cell: LoadPoint, window_s: float) -> SyscallCounts:
        """Runs a generator once.

        Raises:
            CalibrationError: The oracle failed.
        """
        wanted = int(cell.ask["connections"])
        duration_s = math.ceil(SETTLE_S + ATTACH_S + window_s + AFTER_S)
        window, counts, void = Window(NEVER_NS, 0, 0), dict[str, int](), ""
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name, ExitStack() as stack:
            folder = Path(name)
            setup = Scenario(name=cell.name, oracle=cell.oracle, ask=cell.ask)
            oracle = stack.enter_context(Oracle(setup, folder, self._cores.server))
            one = start(found, cell, duration_s, folder / "0", oracle)
            stack.callback(end_session, one.process)
            try:
                wait_for_connections(one, wanted, self._check)
                window, counts = self._window(one, window_s)
            except ToolFailed as failed:
                void = str(failed)
            code = wait_for_exit(one, self._waits_for)
            oracle.end()
            seen = share(tool_values.entries_of((folder / "log").read_bytes()), window)[0]
            side = tool_measurement(one, code, seen, Cost())
        return SyscallCounts(
            cell=cell.name,
            tool=found.tool.name,
            window_ns=window.end_ns - window.start_ns,
            answers=seen.answers,
            counts=counts,
            # Foreign load on the cores changes the duration, and not the number of calls.
            void=void or invalid_reason([side], [seen], wanted, foreign=0.0),
        )

    def _window(self, one: RunningTool, window_s: float) -> tuple[Window, dict[str, int]]:
        try:
            with strace.traced(process_tree(one.process.pid), strace.COUNTS) as found:
                start_ns = time.monotonic_ns()
                wait(window_s, self._check)
                end_ns = time.monotonic_ns()
        except StraceError as error:
            raise ToolFailed(str(error)) from error
        return Window(NEVER_NS, start_ns, end_ns), counts_by_name(found.text)


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
