"""Two load generators at the same time against one oracle, with a window inside both runs."""

import math
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jissoku.inference import tool_values
from jissoku.inference.grading import FOREIGN_MAX
from jissoku.inference.tool_values import Share, Window, share
from jissoku.measure.foreign_cpu import ForeignCpuMonitor
from jissoku.measure.oracle import Oracle
from jissoku.measure.running_tool import (
    SETTLE_S,
    RunningTool,
    ToolFailed,
    end_session,
    local_strings,
    scrub,
    start,
    wait,
    wait_for_connections,
    wait_for_exit,
)
from jissoku.model import CoreAssignment
from jissoku.model.calibration import Scenario
from jissoku.model.load_tool import InstalledTool
from jissoku.model.request_cost import LoadPoint, ToolMeasurement, ToolPair
from jissoku.model.wording import plural
from jissoku.system.processes import cpu_time, process_tree

# Seconds for the start of the second one while the first one runs, and after the window.
SECOND_STARTS_S = 1.5
AFTER_S = 0.5

# Characters of a report that are kept.
REPORT_CHARACTERS = 500


@dataclass(frozen=True, slots=True)
class Cost:
    """CPU time used in a window."""

    run_ns: int = 0
    ticks: tuple[int, int] = (0, 0)


class PairedRuns:
    """Runs pairs of windows for two generators."""

    def __init__(
        self,
        founds: tuple[InstalledTool, InstalledTool],
        cores: CoreAssignment,
        waits_for: Callable[[subprocess.Popen[Any]], object],
        check: Callable[[], object],
    ) -> None:
        """`waits_for` gets the process waited for; `check` raises on interruption."""
        self._founds = founds
        self._cores = cores
        self._waits_for = waits_for
        self._check = check

    def run(self, cell: LoadPoint, window_s: float, turn: int, first: int) -> ToolPair:
        """Runs both once; the one with the index `first` is started first.

        Raises:
            CalibrationError: The oracle failed.
        """
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name, ExitStack() as stack:
            folder = Path(name)
            watch = ForeignCpuMonitor({*self._cores.server, *self._cores.generator})
            setup = Scenario(name=cell.name, oracle=cell.oracle, ask=cell.ask)
            oracle = stack.enter_context(Oracle(setup, folder, self._cores.server))
            running: list[RunningTool] = []
            window, costs, void = Window(0, 0, 0), (Cost(), Cost()), ""
            second_ns = 0
            try:
                for place in (first, 1 - first):
                    second_ns = time.monotonic_ns()
                    duration_s = _duration_s(window_s, is_first=not running)
                    found, own = self._founds[place], folder / str(place)
                    one = start(found, cell, duration_s, own, oracle)
                    stack.callback(end_session, one.process)
                    running.append(one)
                    wait_for_connections(one, int(cell.ask["connections"]), self._check)
                start_ns, end_ns, costs = self._window(running, window_s)
                window = Window(second_ns, start_ns, end_ns)
            except ToolFailed as failed:
                void = str(failed)
            codes = [wait_for_exit(one, self._waits_for) for one in running]
            account = oracle.end()
            foreign = watch.foreign_fraction()
            shares = share(tool_values.entries_of((folder / "log").read_bytes()), window)
            sides = [
                tool_measurement(*it) for it in zip(running, codes, shares, costs, strict=False)
            ]
        void = void or invalid_reason(sides, shares, int(cell.ask["connections"]), foreign)
        if account["overflowed"]:
            void = "the oracle's log was full"
        while len(sides) < len(self._founds):
            sides.append(_absent(self._founds[1 - first]))
        return ToolPair(
            cell=cell.name,
            round=turn,
            first=first,
            window_ns=window.end_ns - window.start_ns,
            sides=(sides[first], sides[1 - first]),
            foreign=round(foreign, 4),
            late_ns=int((account["lateness_ns"] or {"p99": 0})["p99"]),
            void=void,
        )

    def _window(
        self, running: list[RunningTool], window_s: float
    ) -> tuple[int, int, tuple[Cost, Cost]]:
        """Waits for the window to end; returns its start and end, and the CPU time of both."""
        families = [process_tree(one.process.pid) for one in running]
        before = [cpu_time(family) for family in families]
        start_ns = time.monotonic_ns()
        wait(window_s, self._check)
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


def _duration_s(window_s: float, *, is_first: bool) -> int:
    """The duration in whole seconds, as some tools require; the tool started first runs longer."""
    both_s = 2 * SETTLE_S + window_s + AFTER_S
    return math.ceil(both_s + SECOND_STARTS_S if is_first else both_s)


def invalid_reason(
    sides: Sequence[ToolMeasurement], shares: Sequence[Share], wanted: int, foreign: float
) -> str:
    """Why a pair is invalid; empty if it is valid."""
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
) -> ToolMeasurement:
    """The stored result of a generator that has ended."""
    report = (one.folder / "report").read_text(encoding="utf-8", errors="replace")
    figures = tool_values.read_values(one.found.tool.read, report)
    errors = [number for name, number in figures.items() if name.startswith("errors")]
    command = " ".join(one.words)
    here = local_strings(one.found, one.filled)
    command, report = scrub(command, here), scrub(report, here)
    return ToolMeasurement(
        tool=one.found.tool.name,
        answers=seen.answers,
        connections=seen.connections,
        cpu_ns=cost.run_ns,
        ticks=cost.ticks,
        errors=max(errors) if errors else None,
        exit_code=code,
        command=command,
        report=report[-REPORT_CHARACTERS:],
    )


def _absent(found: InstalledTool) -> ToolMeasurement:
    """A generator that was not started, since the other one failed before."""
    return ToolMeasurement(
        tool=found.tool.name,
        answers=0,
        connections=0,
        cpu_ns=0,
        ticks=(0, 0),
        errors=None,
        exit_code=None,
        command="",
        report="",
    )
