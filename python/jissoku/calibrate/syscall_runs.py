"""One load generator against an oracle, with its system calls counted."""

import math
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol

from jissoku.calibrate import oracle_stats
from jissoku.calibrate.check import Scenario
from jissoku.calibrate.cost import LoadPoint, SyscallCounts
from jissoku.calibrate.cpu_time import Family
from jissoku.calibrate.oracle import Oracle
from jissoku.calibrate.paired_runs import AFTER_S, Cost, invalid_reason, tool_measurement
from jissoku.calibrate.run import end_session
from jissoku.calibrate.running_tool import (
    SETTLE_S,
    RunningTool,
    ToolFailed,
    start,
    wait,
    wait_for_connections,
    wait_for_exit,
)
from jissoku.calibrate.share import Window, share
from jissoku.calibrate.tool import InstalledTool
from jissoku.model import CoreAssignment

# How long the one who counts may take to begin, usually.
ATTACH_S = 1.0

# Later than any moment: there is no second generator.
NEVER_NS = 2**63


class Trace(Protocol):
    """Counts calls of some processes from its making on."""

    def attached(self) -> str:
        """Waits until it counts; the reason why it does not, or nothing."""

    def ended(self) -> dict[str, int]:
        """Lets go of the processes, and returns their calls by name."""


class SyscallRuns:
    """Runs windows in which calls are counted."""

    def __init__(
        self,
        cores: CoreAssignment,
        family: Family,
        trace: Callable[[set[int]], Trace],
        waits_for: Callable[[subprocess.Popen[Any]], object],
        check: Callable[[], object],
    ) -> None:
        """`waits_for` gets the process waited for; `check` raises on interruption."""
        self._cores = cores
        self._family = family
        self._trace = trace
        self._waits_for = waits_for
        self._check = check

    def run(self, found: InstalledTool, cell: LoadPoint, window_s: float) -> SyscallCounts:
        """Runs a generator once.

        Raises:
            CalibrationError: The oracle broke.
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
            seen = share(oracle_stats.read(folder / "log"), window)[0]
            side = tool_measurement(one, code, seen, Cost())
        return SyscallCounts(
            cell=cell.name,
            tool=found.tool.name,
            window_ns=window.end_ns - window.start_ns,
            answers=seen.answers,
            counts=counts,
            # Others on the cores make it slower, and no call more.
            void=void or invalid_reason([side], [seen], wanted, foreign=0.0),
        )

    def _window(self, one: RunningTool, window_s: float) -> tuple[Window, dict[str, int]]:
        trace = self._trace(self._family(one.process.pid))
        try:
            reason = trace.attached()
            start_ns = time.monotonic_ns()
            if not reason:
                wait(window_s, self._check)
            end_ns = time.monotonic_ns()
        finally:
            counts = trace.ended()
        if reason:
            raise ToolFailed(reason)
        return Window(NEVER_NS, start_ns, end_ns), counts
