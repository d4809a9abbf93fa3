"""One run of a scenario: an oracle, a tool, and the reports of both."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jissoku.inference import tool_values
from jissoku.measure.foreign_cpu import ForeignCpuMonitor
from jissoku.measure.oracle import Oracle, placeholder_values
from jissoku.measure.running_tool import end_session, local_strings, scrub, start_session
from jissoku.model import CoreAssignment
from jissoku.model.calibration import Disturbance, Scenario, ScenarioResult, ToolOptions
from jissoku.model.load_tool import InstalledTool

# Seconds that a tool may take beyond its duration, for example to wait for timeouts.
GRACE_S = 25.0

# Contents of the oracle's bodies, and their default length.
PATTERN = "".join(map(chr, range(ord(" "), ord("~") + 1)))
BODY_SIZE = 13


@dataclass(frozen=True, slots=True, kw_only=True)
class _ToolRun:
    """A tool's unredacted output and exit code; `here` are the values of this machine."""

    report: str
    code: int | None
    words: list[str]
    here: Mapping[str, str]

    def scrubbed(self, text: str) -> str:
        """The text without values of this machine, for a record."""
        return scrub(text, self.here)


class ScenarioRunner:
    """Runs scenarios for one tool."""

    def __init__(
        self,
        found: InstalledTool,
        cores: CoreAssignment,
        waits_for: Callable[[subprocess.Popen[Any]], object],
    ) -> None:
        """`waits_for` receives each process of the tool, so that an interruption can end it."""
        self.found = found
        self._cores = cores
        self._waits_for = waits_for

    def run(self, setup: Scenario, ask: ToolOptions) -> ScenarioResult:
        """Runs the tool once, with the options `ask`, against the oracle of the scenario.

        Raises:
            CalibrationError: The oracle failed.
        """
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
            folder = Path(name)
            watch = ForeignCpuMonitor({*self._cores.server, *self._cores.generator})
            if setup.closed:
                ran = self._tool(setup, ask, _closed_port(), folder)
                names: dict[str, float] = {}
                account: dict[str, Any] = {}
                foreign = watch.foreign_fraction()
            else:
                oracle = Oracle(setup, folder, self._cores.server, self._cores.generator)
                with oracle:
                    ran = self._tool(setup, ask, oracle.holes, folder)
                    account = oracle.end()
                foreign = watch.foreign_fraction()
                entries = tool_values.entries_of((folder / "log").read_bytes())
                names = tool_values.oracle_values(
                    entries, account, float(ask.get("timeout_s", 1e9))
                )
                account = {k: v for k, v in account.items() if k not in ("arrivals", "in_flight")}
            raw = self._logged(folder)
        names |= {f"asked.{k}": float(v) for k, v in ask.items() if isinstance(v, int | float)}
        figures = tool_values.read_values(self.found.tool.read, ran.report) | raw
        names |= {f"tool.{name}": number for name, number in figures.items()}
        names |= {
            "tool.exit": float(-1 if ran.code is None else ran.code),
            "tool.hung": float(ran.code is None),
        }
        return ScenarioResult(
            setup=setup.name,
            names=names,
            command=ran.scrubbed(" ".join(ran.words)),
            report=ran.scrubbed(ran.report),
            code=ran.code,
            account=account,
            foreign=foreign,
        )

    def _tool(
        self, setup: Scenario, ask: ToolOptions, where: Mapping[str, str], folder: Path
    ) -> "_ToolRun":
        tool = self.found.tool
        filled = dict(where) | {
            "program": self.found.program,
            "python": sys.executable,
            "folder": str(folder),
            "body": _body(int(setup.oracle.get("body", BODY_SIZE))),
        }
        for name, text in tool.ask.files.items():
            (folder / name).write_text(text.replace("{url}", where["url"]), encoding="utf-8")
        words = tool.command(ask, filled)
        limit_s = float(ask.get("duration_s") or ask.get("about_s") or 60) + GRACE_S
        code = self._one(words, folder, limit_s, setup.disturb)
        if tool.ask.then and code == 0:
            code = self._one([w.format_map(filled) for w in tool.ask.then], folder, GRACE_S, None)
        report = (folder / "report").read_text(encoding="utf-8", errors="replace")
        return _ToolRun(
            report=report, code=code, words=words, here=local_strings(self.found, filled)
        )

    def _logged(self, folder: Path) -> dict[str, float]:
        """The values of the tool's own log of requests; empty if it wrote none."""
        wanted = self.found.tool.samples
        if wanted is None or not (folder / wanted.file).is_file():
            return {}
        with (folder / wanted.file).open(newline="", encoding="utf-8") as lines:
            return tool_values.sample_values(wanted, lines)

    def _one(
        self, words: list[str], folder: Path, limit_s: float, disturb: Disturbance | None
    ) -> int | None:
        """Runs one command to its end; its output is the file `report`. None if it was killed."""
        process = start_session(words, folder)
        try:
            self._waits_for(process)
            if disturb is not None:
                _apply_disturbance(process, disturb)
            return process.wait(limit_s)
        except subprocess.TimeoutExpired:
            return None
        finally:
            end_session(process)


def _body(size: int) -> str:
    return (PATTERN * (size // len(PATTERN) + 1))[:size]


def _closed_port() -> dict[str, str]:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    return placeholder_values(f"http://127.0.0.1:{port}", Path())


def _apply_disturbance(process: subprocess.Popen[Any], what: Disturbance) -> None:
    if what.stop_for_s:
        _sleep(process, what.stop_at_s)
        with suppress(ProcessLookupError):  # It has ended already.
            os.killpg(process.pid, signal.SIGSTOP)
            time.sleep(what.stop_for_s)
            os.killpg(process.pid, signal.SIGCONT)
    if what.clock_step_s:
        _sleep(process, what.stop_at_s)
        start = time.monotonic()
        before = time.clock_gettime(time.CLOCK_REALTIME)
        time.clock_settime(time.CLOCK_REALTIME, before + what.clock_step_s)
        try:
            _sleep(process, what.stop_at_s)
        finally:
            time.clock_settime(time.CLOCK_REALTIME, before + time.monotonic() - start)


def _sleep(process: subprocess.Popen[Any], seconds: float) -> None:
    """Waits this many seconds, or until the tool ends."""
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return
