"""Two load generators at the same time, before one oracle: a window in which both are measured."""

import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jissoku.calibrate import reading, truth
from jissoku.calibrate.check import Setup
from jissoku.calibrate.cost import Cell, Pair, Side
from jissoku.calibrate.oracle import Oracle
from jissoku.calibrate.quiet import FOREIGN_MAX, Look, Watch
from jissoku.calibrate.run import end_session, scrub, start_session
from jissoku.calibrate.share import Share, Window, share
from jissoku.calibrate.spent import Family, spent
from jissoku.calibrate.tool import Found
from jissoku.model import Cores

# Until a generator has opened its connections, at most; and how often it is looked at meanwhile.
CONNECT_S = 10.0
LOOK_S = 0.02

# Until all of its connections have asked.
SETTLE_S = 0.25

# How long the second one may take to start while the first one runs, and both run on afterwards.
SECOND_STARTS_S = 1.5
AFTER_S = 0.5

# What a generator may take to end, and to report.
END_S = 25.0

# How often an interruption is looked for during a window, on a core that is being measured on.
NOTICE_S = 0.25

# Of a report so much is kept.
REPORT_CHARACTERS = 500


class _Failed(Exception):  # noqa: N818 - it voids a pair, and is no error
    """A generator did not do its part; the message says which and what."""


@dataclass(frozen=True, slots=True)
class _Running:
    """A generator that was started."""

    found: Found
    process: subprocess.Popen[Any]
    folder: Path
    words: list[str]
    filled: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Cost:
    run_ns: int = 0
    ticks: tuple[int, int] = (0, 0)


@dataclass(frozen=True, slots=True)
class Census:
    """How processes are found: all of the machine, and those that a first one has started."""

    look: Look
    family: Family


class Duets:
    """Runs pairs of windows for two generators."""

    def __init__(
        self,
        founds: tuple[Found, Found],
        cores: Cores,
        census: Census,
        waits_for: Callable[[subprocess.Popen[Any]], object],
        check: Callable[[], object],
    ) -> None:
        """`waits_for` hears of what is waited for; `check` raises if somebody asked to stop."""
        self._founds = founds
        self._cores = cores
        self._look = census.look
        self._family = census.family
        self._waits_for = waits_for
        self._check = check

    def run(self, cell: Cell, window_s: float, turn: int, first: int) -> Pair:
        """Runs both once, the one with the index `first` before the other.

        Raises:
            CalibrationError: The oracle broke.
        """
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name, ExitStack() as stack:
            folder = Path(name)
            watch = Watch(tuple({*self._cores.server, *self._cores.stopwatch}), self._look)
            setup = Setup(name=cell.name, oracle=cell.oracle, ask=cell.ask)
            oracle = stack.enter_context(Oracle(setup, folder, self._cores.server))
            running: list[_Running] = []
            window, costs, void = Window(0, 0, 0), (_Cost(), _Cost()), ""
            second_ns = 0
            try:
                for place in (first, 1 - first):
                    second_ns = time.monotonic_ns()
                    duration_s = _duration_s(window_s, is_first=not running)
                    one = self._start(place, cell, duration_s, folder, oracle)
                    stack.callback(end_session, one.process)
                    running.append(one)
                    self._await_connections(one, int(cell.ask["connections"]))
                start_ns, end_ns, costs = self._window(running, window_s)
                window = Window(second_ns, start_ns, end_ns)
            except _Failed as failed:
                void = str(failed)
            codes = [self._ended(one) for one in running]
            account = oracle.end()
            foreign = watch.foreign()
            shares = share(truth.read(folder / "log"), window)
            sides = [_side(*it) for it in zip(running, codes, shares, costs, strict=False)]
        void = void or fault(sides, shares, int(cell.ask["connections"]), foreign)
        if account["overflowed"]:
            void = "the oracle's log was full"
        while len(sides) < len(self._founds):
            sides.append(_absent(self._founds[1 - first]))
        return Pair(
            cell=cell.name,
            round=turn,
            first=first,
            window_ns=window.end_ns - window.start_ns,
            sides=(sides[first], sides[1 - first]),
            foreign=round(foreign, 4),
            late_ns=int((account["lateness_ns"] or {"p99": 0})["p99"]),
            void=void,
        )

    def _start(
        self, place: int, cell: Cell, duration_s: int, folder: Path, oracle: Oracle
    ) -> _Running:
        found = self._founds[place]
        folder /= str(place)
        folder.mkdir()
        otherwise = cell.otherwise.get(found.tool.name)
        files = found.tool.ask.files | (otherwise.files if otherwise else {})
        for name, text in files.items():
            written = text.replace("{url}", oracle.holes["url"])
            (folder / name).write_text(written, encoding="utf-8")
        filled = oracle.holes | {
            "program": found.program,
            "python": sys.executable,
            "folder": str(folder),
        }
        words = found.tool.command(cell.told(found.tool) | {"duration_s": duration_s}, filled)
        words += [word.format_map(filled) for word in (otherwise.words if otherwise else ())]
        return _Running(found, start_session(words, folder), folder, words, filled)

    def _await_connections(self, one: _Running, wanted: int) -> None:
        """Waits until a generator has opened its connections, and they have had time to ask."""
        deadline = time.monotonic() + CONNECT_S
        while _sockets(one.process.pid) < wanted:
            if time.monotonic() > deadline or one.process.poll() is not None:
                raise _Failed(f"{one.found.tool.name} did not open its {wanted} connections")
            self._check()
            time.sleep(LOOK_S)
        self._rest(SETTLE_S)

    def _window(
        self, running: list[_Running], window_s: float
    ) -> tuple[int, int, tuple[_Cost, _Cost]]:
        """Lets a window pass; when it began and ended, and what each of the two spent in it."""
        families = [self._family(one.process.pid) for one in running]
        before = [spent(family) for family in families]
        start_ns = time.monotonic_ns()
        self._rest(window_s)
        after = [spent(family) for family in families]
        end_ns = time.monotonic_ns()
        costs = []
        for one, family, early, known in zip(running, families, before, after, strict=True):
            # Looking for processes that are new takes milliseconds, so it is done afterwards.
            late = known + spent(self._family(one.process.pid) - family)
            if late.lacks(early):
                raise _Failed(f"{one.found.tool.name} ended before the window did")
            costs.append(_Cost(late.run_ns_since(early), late.ticks_since(early)))
        return start_ns, end_ns, (costs[0], costs[1])

    def _rest(self, seconds: float) -> None:
        """Lets time pass, unless somebody asks to stop."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self._check()
            time.sleep(min(left, NOTICE_S))

    def _ended(self, one: _Running) -> int | None:
        """How a generator ended; None if it has to be killed."""
        self._waits_for(one.process)
        try:
            return one.process.wait(END_S)
        except subprocess.TimeoutExpired:
            return None


def _duration_s(window_s: float, *, is_first: bool) -> int:
    """Whole seconds, as some tools want them; the one that is started first runs longer."""
    both_s = 2 * SETTLE_S + window_s + AFTER_S
    return math.ceil(both_s + SECOND_STARTS_S if is_first else both_s)


def fault(sides: list[Side], shares: tuple[Share, Share], wanted: int, foreign: float) -> str:
    """Why a pair does not count; empty when it does."""
    for side, seen in zip(sides, shares, strict=True):
        if side.exit_code != 0:
            return f"{side.tool} exited with {side.exit_code}"
        if side.errors:
            return f"{side.tool} reports {side.errors:.0f} errors"
        if seen.connections != wanted:
            return f"{side.tool} used {seen.connections} connections instead of {wanted}"
        if not seen.outlasted:
            return f"{side.tool} ended before the window did"
    if foreign > FOREIGN_MAX:
        return f"others used {foreign * 100:.0f} % of the cores meanwhile"
    return ""


def _side(one: _Running, code: int | None, seen: Share, cost: _Cost) -> Side:
    report = (one.folder / "report").read_text(encoding="utf-8", errors="replace")
    figures = reading.figures(one.found.tool.read, report)
    errors = [number for name, number in figures.items() if name.startswith("errors")]
    command = " ".join(one.words)
    hidden = {value: f"{{{name}}}" for name, value in one.filled.items() if len(value) > 4}
    hidden |= {one.found.program: one.found.tool.name, sys.executable: "python"}
    command, report = scrub(command, hidden), scrub(report, hidden)
    return Side(
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


def _absent(found: Found) -> Side:
    """A generator that was not started, since the other one failed before."""
    return Side(
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


def _sockets(pid: int) -> int:
    """How many sockets a process has open."""
    found = 0
    try:
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            found += str(entry.readlink()).startswith("socket:")
    except OSError:
        return found  # It has ended, or closed one just now; it will be looked at again.
    return found
