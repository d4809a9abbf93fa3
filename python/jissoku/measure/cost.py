"""CPU time per request of two load generators: rounds of load points, recorded as they end."""

import math
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, Protocol

from jissoku.inference import tool_values
from jissoku.inference.grading import FOREIGN_MAX, unsupported_reason, with_results
from jissoku.inference.tool_values import Share, Window, share
from jissoku.measure.machine import machine_name, now_utc
from jissoku.measure.oracle import (
    SETTLE_S,
    ForeignCpuMonitor,
    Oracle,
    RunningTool,
    ToolFailed,
    end_session,
    local_strings,
    scrub,
    start,
    wait,
)
from jissoku.model import CoreAssignment, calibration, plural, updated
from jissoku.records.files import write_cost
from jissoku.system import strace
from jissoku.system.cores import pin_process
from jissoku.system.interruption import Interrupted, Interruption
from jissoku.system.processes import cpu_time, process_tree
from jissoku.system.strace import StraceError, counts_by_name, missing_reason

# Seconds for the start of the second one while the first one runs, and after the window.
SECOND_STARTS_S = 1.5
AFTER_S = 0.5

# Usual time that tracing takes to begin, in seconds.
ATTACH_S = 1.0

# Characters of a report that are kept.
REPORT_CHARACTERS = 500

# A time after every other, because there is no second generator.
NEVER_NS = 2**63

# Maximum repetitions of a void pair, because the machine may have been busy.
ATTEMPTS = 2

# Seconds to start and end an oracle and two generators, without the window; or a traced one.
OVERHEAD_S = 4.5
CALLS_OVERHEAD_S = 4.0


@dataclass(frozen=True, slots=True)
class Cost:
    run_ns: int = 0
    ticks: tuple[int, int] = (0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class CostPlan:
    """Two generators, which may be the same, and the number of pairs of each cell."""

    founds: tuple[calibration.InstalledTool, calibration.InstalledTool]
    cells: calibration.LoadPoints
    rounds: int
    cores: CoreAssignment
    folder: Path
    version: str


@dataclass(frozen=True, slots=True)
class _CostRuns:
    _plan: CostPlan
    _interruption: Interruption

    def pair(self, cell: calibration.LoadPoint, turn: int, first: int) -> calibration.ToolPair:
        """Runs both once; the one with the index `first` is started first."""
        founds, cores, window_s = self._plan.founds, self._plan.cores, self._plan.cells.window_s
        with self._session(cell) as session:
            watch = ForeignCpuMonitor({*cores.server, *cores.generator})
            running: list[RunningTool] = []
            window, costs, void = Window(0, 0, 0), (Cost(), Cost()), ""
            second_ns = 0
            try:
                # In whole seconds, as some tools require; the one started first runs longer.
                needed_s = 2 * SETTLE_S + window_s + AFTER_S
                for place, more_s in ((first, SECOND_STARTS_S), (1 - first, 0.0)):
                    second_ns = time.monotonic_ns()
                    duration_s = math.ceil(needed_s + more_s)
                    running.append(session.start(founds[place], str(place), duration_s))
                    running[-1].wait_for_connections(_connections(cell), self._interruption)
                start_ns, end_ns, costs = self._window(running, window_s)
                window = Window(second_ns, start_ns, end_ns)
            except ToolFailed as failed:
                void = str(failed)
            codes = [one.wait_for_exit(self._interruption) for one in running]
            account, shares = session.end(window)
            foreign = watch.foreign_fraction()
            sides = [
                tool_measurement(*it) for it in zip(running, codes, shares, costs, strict=False)
            ]
        void = void or invalid_reason(sides, shares, _connections(cell), foreign)
        if account["overflowed"]:
            void = "the oracle's log was full"
        while len(sides) < len(founds):  # It was not started, since another one failed.
            sides.append(calibration.ToolMeasurement(tool=founds[1 - first].tool.name))
        return calibration.ToolPair(
            cell=cell.name,
            round=turn,
            first=first,
            window_ns=window.end_ns - window.start_ns,
            sides=(sides[first], sides[1 - first]),
            foreign=round(foreign, 4),
            late_ns=int((account["lateness_ns"] or {"p99": 0})["p99"]),
            void=void,
        )

    def syscalls(
        self, cell: calibration.LoadPoint, found: calibration.InstalledTool
    ) -> calibration.SyscallCounts:
        duration_s = math.ceil(SETTLE_S + ATTACH_S + self._plan.cells.window_s + AFTER_S)
        window, counts, void = Window(NEVER_NS, 0, 0), dict[str, int](), ""
        with self._session(cell) as session:
            one = session.start(found, "0", duration_s)
            try:
                one.wait_for_connections(_connections(cell), self._interruption)
                with strace.traced(process_tree(one.process.pid), strace.COUNTS) as traced:
                    start_ns = time.monotonic_ns()
                    wait(self._plan.cells.window_s, self._interruption)
                    window = Window(NEVER_NS, start_ns, time.monotonic_ns())
                counts = counts_by_name(traced.text)
            except (ToolFailed, StraceError) as failed:
                window, void = Window(NEVER_NS, 0, 0), str(failed)
            code = one.wait_for_exit(self._interruption)
            _, (seen, *_) = session.end(window)
            side = tool_measurement(one, code, seen, Cost())
        return calibration.SyscallCounts(
            cell=cell.name,
            tool=found.tool.name,
            window_ns=window.end_ns - window.start_ns,
            answers=seen.answers,
            counts=counts,
            # Foreign load on the cores changes the duration, and not the number of calls.
            void=void or invalid_reason([side], [seen], _connections(cell), foreign=0.0),
        )

    @contextmanager
    def _session(self, cell: calibration.LoadPoint) -> Iterator["_Session"]:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name, ExitStack() as stack:
            setup = calibration.Scenario(name=cell.name, oracle=cell.oracle, ask=cell.ask)
            oracle = stack.enter_context(Oracle(setup, Path(name), self._plan.cores.server))
            yield _Session(cell, Path(name), oracle, stack)

    def _window(
        self, running: list[RunningTool], window_s: float
    ) -> tuple[int, int, tuple[Cost, Cost]]:
        families = [process_tree(one.process.pid) for one in running]
        before = [cpu_time(family) for family in families]
        start_ns = time.monotonic_ns()
        wait(window_s, self._interruption)
        after = [cpu_time(family) for family in families]
        end_ns = time.monotonic_ns()
        costs = []
        for one, family, early, known in zip(running, families, before, after, strict=True):
            # Finding new processes takes milliseconds, so it is done afterwards.
            late = known + cpu_time(process_tree(one.process.pid) - family)
            if late.lacks(early):
                raise ToolFailed(f"{one.found.tool.name} ended before the window did")
            costs.append(Cost(late.run_ns_since(early), late.ticks_since(early)))
        return start_ns, end_ns, (costs[0], costs[1])


@dataclass(frozen=True, slots=True)
class _Session:
    cell: calibration.LoadPoint
    folder: Path
    oracle: Oracle
    stack: ExitStack

    def start(self, found: calibration.InstalledTool, name: str, duration_s: int) -> RunningTool:
        one = start(found, self.cell, duration_s, self.folder / name, self.oracle)
        self.stack.callback(end_session, one.process)
        return one

    def end(self, window: Window) -> tuple[dict[str, Any], Sequence[Share]]:
        account = self.oracle.end()
        entries = tool_values.entries_of((self.folder / "log").read_bytes())
        return account, share(entries, window)


def _connections(cell: calibration.LoadPoint) -> int:
    return int(cell.ask["connections"])


def invalid_reason(
    sides: Sequence[calibration.ToolMeasurement],
    shares: Sequence[Share],
    wanted: int,
    foreign: float,
) -> str:
    for side, seen in zip(sides, shares, strict=True):
        if side.exit_code != 0:
            return f"{side.tool} exited with {side.exit_code}"
        if side.errors:
            return f"{side.tool} reports {side.errors:.0f} errors"
        if seen.connections != wanted:
            return (
                f"{side.tool} used {seen.connections}"
                f" {plural(seen.connections, 'connection')} instead of {wanted}"
            )
        if not seen.outlasted:
            return f"{side.tool} ended before the window did"
    if foreign > FOREIGN_MAX:
        return f"others used {foreign * 100:.0f} % of the cores meanwhile"
    return ""


def tool_measurement(
    one: RunningTool, code: int | None, seen: Share, cost: Cost
) -> calibration.ToolMeasurement:
    report = (one.folder / "report").read_text(encoding="utf-8", errors="replace")
    figures = tool_values.read_values(one.found.tool.read, report)
    errors = [number for name, number in figures.items() if name.startswith("errors")]
    here = local_strings(one.found, one.filled)
    return calibration.ToolMeasurement(
        tool=one.found.tool.name,
        answers=seen.answers,
        connections=seen.connections,
        cpu_ns=cost.run_ns,
        ticks=cost.ticks,
        errors=max(errors) if errors else None,
        exit_code=code,
        command=scrub(" ".join(one.words), here),
        report=scrub(report, here)[-REPORT_CHARACTERS:],
    )


class CostListener(Protocol):
    def begins(self, what: str, done: int, total: int, seconds_left: float) -> None: ...
    def measured(self, pair: calibration.ToolPair) -> None: ...
    def counted(self, syscalls: calibration.SyscallCounts) -> None: ...


def measure(plan: CostPlan, listener: CostListener) -> calibration.CostRecord:
    tool, against = plan.founds
    tools = (tool.tool, against.tool)
    cells = [it for it in plan.cells.cell if unsupported_reason(it, tools) is None]
    empty = calibration.CostRecord(
        tool=tool.tool.name,
        against=against.tool.name,
        versions=(tool.version, against.version),
        jissoku=plan.version,
        started_utc=now_utc(),
        machine=machine_name(),
        transport="unix" if "unix" in plan.cells.cell[0].ask else "tcp",
        rounds=plan.rounds,
        window_s=plan.cells.window_s,
        is_finished=False,
        cells=plan.cells.cell,
        calls_reason=missing_reason(),
    )
    record = with_results(empty, tools)
    total = plan.rounds * len(cells)
    calls_s = 0.0 if missing_reason() else 2 * len(cells) * (plan.cells.window_s + CALLS_OVERHEAD_S)
    with Interruption() as interruption, pin_process(plan.cores.generator):
        runs = _CostRuns(plan, interruption)
        try:
            for done in range(total):
                turn, number = divmod(done, len(cells))
                seconds_left = (total - done) * (plan.cells.window_s + OVERHEAD_S) + calls_s
                listener.begins(cells[number].name, done, total, seconds_left)
                for _ in range(ATTEMPTS):
                    # The order alternates between rounds, and between cells within a round.
                    first = (turn + number) % 2
                    pair = runs.pair(cells[number], turn, first)
                    interruption.check()
                    listener.measured(pair)
                    record = updated(record, pairs=(*record.pairs, pair))
                    if not pair.void:
                        break
                record = with_results(record, tools)
                write_cost(plan.folder, record)
            founds = {found.tool.name: found for found in plan.founds}
            for cell, found in () if missing_reason() else product(cells, founds.values()):
                syscalls = runs.syscalls(cell, found)
                interruption.check()
                listener.counted(syscalls)
                record = updated(record, calls=(*record.calls, syscalls))
                write_cost(plan.folder, record)
        except Interrupted:
            return record
    record = updated(record, is_finished=True)
    write_cost(plan.folder, record)
    return record
