"""One load generator alone before an oracle, with somebody who counts its system calls."""

import math
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol

from jissoku.calibrate import truth
from jissoku.calibrate.check import Setup
from jissoku.calibrate.cost import Calls, Cell
from jissoku.calibrate.duet import AFTER_S, Cost, fault, side_of
from jissoku.calibrate.oracle import Oracle
from jissoku.calibrate.run import end_session
from jissoku.calibrate.share import Window, share
from jissoku.calibrate.spent import Family
from jissoku.calibrate.started import (
    SETTLE_S,
    Failed,
    Running,
    await_connections,
    ended,
    rest,
    start,
)
from jissoku.calibrate.tool import Found
from jissoku.model import Cores

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


class Solos:
    """Runs windows in which calls are counted."""

    def __init__(
        self,
        cores: Cores,
        family: Family,
        trace: Callable[[set[int]], Trace],
        waits_for: Callable[[subprocess.Popen[Any]], object],
        check: Callable[[], object],
    ) -> None:
        """`waits_for` hears of what is waited for; `check` raises if somebody asked to stop."""
        self._cores = cores
        self._family = family
        self._trace = trace
        self._waits_for = waits_for
        self._check = check

    def run(self, found: Found, cell: Cell, window_s: float) -> Calls:
        """Runs a generator once.

        Raises:
            CalibrationError: The oracle broke.
        """
        wanted = int(cell.ask["connections"])
        duration_s = math.ceil(SETTLE_S + ATTACH_S + window_s + AFTER_S)
        window, counts, void = Window(NEVER_NS, 0, 0), dict[str, int](), ""
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name, ExitStack() as stack:
            folder = Path(name)
            setup = Setup(name=cell.name, oracle=cell.oracle, ask=cell.ask)
            oracle = stack.enter_context(Oracle(setup, folder, self._cores.server))
            one = start(found, cell, duration_s, folder / "0", oracle)
            stack.callback(end_session, one.process)
            try:
                await_connections(one, wanted, self._check)
                window, counts = self._window(one, window_s)
            except Failed as failed:
                void = str(failed)
            code = ended(one, self._waits_for)
            oracle.end()
            seen = share(truth.read(folder / "log"), window)[0]
            side = side_of(one, code, seen, Cost())
        return Calls(
            cell=cell.name,
            tool=found.tool.name,
            window_ns=window.end_ns - window.start_ns,
            answers=seen.answers,
            counts=counts,
            # Others on the cores make it slower, and no call more.
            void=void or fault([side], [seen], wanted, foreign=0.0),
        )

    def _window(self, one: Running, window_s: float) -> tuple[Window, dict[str, int]]:
        trace = self._trace(self._family(one.process.pid))
        try:
            reason = trace.attached()
            start_ns = time.monotonic_ns()
            if not reason:
                rest(window_s, self._check)
            end_ns = time.monotonic_ns()
        finally:
            counts = trace.ended()
        if reason:
            raise Failed(reason)
        return Window(NEVER_NS, start_ns, end_ns), counts
