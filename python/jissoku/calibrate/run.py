"""One run: an oracle, a tool held against it, and what both of them say afterwards."""

import os
import re
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

from jissoku.calibrate import reading, samples, truth
from jissoku.calibrate.check import Ask, Disturbance, Setup
from jissoku.calibrate.oracle import NICEST, Oracle, holes
from jissoku.calibrate.quiet import Look, Watch
from jissoku.calibrate.tool import Found
from jissoku.model import Cores

# What a tool may take beyond what was asked of it; one that waits for time-outs takes a while.
GRACE_S = 25.0

# What the oracle's bodies are made of, and how long they are unless it is told.
PATTERN = "".join(map(chr, range(ord(" "), ord("~") + 1)))
BODY_SIZE = 13


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of a set-up.

    Attributes:
        names: Every figure that is known, by its dotted name.
        command: The tool's command line, without anything that belongs to this machine.
        report: The end of what the tool printed.
        code: How it exited; None when it had to be killed.
        account: The oracle's own account; empty where nobody listened.
        foreign: The share of the cores' time that others used meanwhile.
    """

    setup: str
    names: Mapping[str, float]
    command: str
    report: str
    code: int | None
    account: Mapping[str, Any]
    foreign: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ran:
    """What a tool printed and how it ended, as it was; `here` is what belongs to this machine."""

    report: str
    code: int | None
    words: list[str]
    here: Mapping[str, str]

    def scrubbed(self, text: str) -> str:
        """The text without anything of this machine, for a record."""
        return scrub(text, self.here)


def of_this_machine(found: Found, filled: Mapping[str, str]) -> dict[str, str]:
    """The values that no record may hold, and what it says instead."""
    here = {value: f"{{{name}}}" for name, value in filled.items() if len(value) > 4}
    return here | {found.program: found.tool.name, sys.executable: "python"}


def scrub(text: str, here: Mapping[str, str]) -> str:
    """Puts names in the place of values, but for a port that is a part of a number."""
    for value, name in here.items():
        text = re.sub(rf"(?<!\d){re.escape(value)}(?!\d)", name, text)
    return text


class Bench:
    """Runs set-ups for one tool."""

    def __init__(
        self,
        found: Found,
        cores: Cores,
        look: Look,
        waits_for: Callable[[subprocess.Popen[Any]], object],
    ) -> None:
        """`waits_for` is handed each process of the tool, so that an interruption can end it."""
        self.found = found
        self._cores = cores
        self._look = look
        self._waits_for = waits_for

    def run(self, setup: Setup, ask: Ask) -> Outcome:
        """Runs the tool once, told `ask`, against the oracle of the set-up.

        Raises:
            CalibrationError: The oracle broke.
        """
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
            folder = Path(name)
            watch = Watch(tuple({*self._cores.server, *self._cores.stopwatch}), self._look)
            if setup.closed:
                ran = self._tool(setup, ask, _nobody(), folder)
                names: dict[str, float] = {}
                account: dict[str, Any] = {}
                foreign = watch.foreign()
            else:
                oracle = Oracle(setup, folder, self._cores.server, self._cores.stopwatch)
                with oracle:
                    ran = self._tool(setup, ask, oracle.holes, folder)
                    account = oracle.end()
                foreign = watch.foreign()
                entries = truth.read(folder / "log")
                names = truth.figures(entries, account, float(ask.get("timeout_s", 1e9)))
                account = {k: v for k, v in account.items() if k not in ("arrivals", "in_flight")}
            raw = samples.figures(self.found.tool.samples, folder)
        names |= {f"asked.{k}": float(v) for k, v in ask.items() if isinstance(v, int | float)}
        figures = reading.figures(self.found.tool.read, ran.report) | raw
        names |= {f"tool.{name}": number for name, number in figures.items()}
        names |= {
            "tool.exit": float(-1 if ran.code is None else ran.code),
            "tool.hung": float(ran.code is None),
        }
        return Outcome(
            setup=setup.name,
            names=names,
            command=ran.scrubbed(" ".join(ran.words)),
            report=ran.scrubbed(ran.report),
            code=ran.code,
            account=account,
            foreign=foreign,
        )

    def _tool(self, setup: Setup, ask: Ask, where: Mapping[str, str], folder: Path) -> "_Ran":
        """Runs the tool to its end."""
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
        return _Ran(report=report, code=code, words=words, here=of_this_machine(self.found, filled))

    def _one(
        self, words: list[str], folder: Path, limit_s: float, disturb: Disturbance | None
    ) -> int | None:
        """Runs one command to its end; its output is the file `report`. None if it was killed."""
        process = start_session(words, folder)
        try:
            self._waits_for(process)
            if disturb is not None:
                _disturb(process, disturb)
            return process.wait(limit_s)
        except subprocess.TimeoutExpired:
            return None
        finally:
            end_session(process)


def _body(size: int) -> str:
    return (PATTERN * (size // len(PATTERN) + 1))[:size]


def _nobody() -> dict[str, str]:
    """A port that nobody listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    return holes(f"http://127.0.0.1:{port}", Path())


def _disturb(process: subprocess.Popen[Any], what: Disturbance) -> None:
    if what.stop_for_s:
        _pass(process, what.stop_at_s)
        with suppress(ProcessLookupError):  # Whoever has ended cannot be stopped.
            os.killpg(process.pid, signal.SIGSTOP)
            time.sleep(what.stop_for_s)
            os.killpg(process.pid, signal.SIGCONT)
    if what.clock_step_s:
        _pass(process, what.stop_at_s)
        start = time.monotonic()
        before = time.clock_gettime(time.CLOCK_REALTIME)
        time.clock_settime(time.CLOCK_REALTIME, before + what.clock_step_s)
        try:
            _pass(process, what.stop_at_s)
        finally:
            time.clock_settime(time.CLOCK_REALTIME, before + time.monotonic() - start)


def _pass(process: subprocess.Popen[Any], seconds: float) -> None:
    """Lets time pass, less of it when the tool ends before."""
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return


def start_session(words: list[str], folder: Path) -> subprocess.Popen[bytes]:
    """Starts a tool as the leader of a session of its own; what it says is the file `report`.

    Where we may, it goes before everybody else on its core. A real-time class would keep others out
    altogether, but threads of one tool would then no longer take turns as they do in daily life.
    """
    with (folder / "report").open("wb") as report:
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=report,
            stderr=subprocess.STDOUT,
            cwd=folder,
            start_new_session=True,
        )
    with suppress(PermissionError, ProcessLookupError):
        os.setpriority(os.PRIO_PGRP, process.pid, NICEST)
    return process


def end_session(process: subprocess.Popen[Any]) -> None:
    """Ends what is left of a tool, its children too: its session is its own."""
    with suppress(ProcessLookupError):  # It is gone, as it should be.
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
