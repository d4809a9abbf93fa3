"""One load generator against an oracle, with its system calls counted."""

import math
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from jissoku.model import CoreAssignment
from jissoku.model.calibration import Scenario
from jissoku.model.load_tool import InstalledTool
from jissoku.model.request_cost import LoadPoint, SyscallCounts
from jissoku.observe.oracle import Oracle
from jissoku.observe.running_tool import (
    SETTLE_S,
    RunningTool,
    ToolFailed,
    end_session,
    start,
    wait,
    wait_for_connections,
    wait_for_exit,
)
from jissoku.pipeline.paired_runs import AFTER_S, Cost, invalid_reason, tool_measurement
from jissoku.stats import oracle_stats
from jissoku.stats.window_share import Window, share
from jissoku.system import strace
from jissoku.system.processes import process_tree
from jissoku.system.strace import StraceError
from jissoku.system.strace_output import counts_by_name

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
            seen = share(oracle_stats.entries_of((folder / "log").read_bytes()), window)[0]
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
