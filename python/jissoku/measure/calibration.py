"""A calibration: runs every check of one tool, and records each when it has ended."""

import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import msgspec

from jissoku.errors import InputError
from jissoku.inference import tool_values
from jissoku.inference.grading import score
from jissoku.measure import oracle as oracles
from jissoku.measure.machine import machine_name, now_utc
from jissoku.model import CoreAssignment, calibration as model, updated
from jissoku.records.files import carried, read_cards, write_card
from jissoku.report.page import scorecard_html
from jissoku.system import toml_file
from jissoku.system.cores import pin_process
from jissoku.system.interruption import Interrupted, Interruption

# Seconds that a tool may take beyond its duration, for example to wait for timeouts.
GRACE_S = 25.0

# Contents of the oracle's bodies, and their default length.
PATTERN = "".join(map(chr, range(ord(" "), ord("~") + 1)))
BODY_SIZE = 13

CHECKS = Path(__file__).parent / "checks"
CELLS = Path(__file__).parent / "cost.toml"

# Maximum repetitions of a void check, if there is time: the machine may have been busy.
REPETITIONS = 2

# Default time budget, as a multiple of the time without repetitions.
BUDGET = 1.5

# Characters that are kept of each end of a report.
REPORT_CHARACTERS = 2000

# Seconds to start and end oracle and tool in a run.
OVERHEAD_S = 1.0


@dataclass(frozen=True, slots=True)
class ScenarioRunner:
    """`waits_for` receives each process of the tool, so that an interruption can end it."""

    found: model.InstalledTool
    cores: CoreAssignment
    waits_for: Callable[[subprocess.Popen[Any]], object]

    def run(self, setup: model.Scenario, ask: model.ToolOptions) -> model.ScenarioRun:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
            folder = Path(name)
            watch = oracles.ForeignCpuMonitor({*self.cores.server, *self.cores.generator})
            names: dict[str, float] = {}
            account: dict[str, Any] = {}
            if setup.closed:
                filled = self._filled(setup, _closed_port(), folder)
                code = self._tool(setup, ask, filled, folder)
                foreign = watch.foreign_fraction()
            else:
                with oracles.Oracle(
                    setup, folder, self.cores.server, self.cores.generator
                ) as oracle:
                    filled = self._filled(setup, oracle.holes, folder)
                    code = self._tool(setup, ask, filled, folder)
                    account = oracle.end()
                foreign = watch.foreign_fraction()
                entries = tool_values.entries_of((folder / "log").read_bytes())
                names = tool_values.oracle_values(
                    entries, account, float(ask.get("timeout_s", 1e9))
                )
                account = {k: v for k, v in account.items() if k not in ("arrivals", "in_flight")}
            report = (folder / "report").read_text(encoding="utf-8", errors="replace")
            raw = self._logged(folder)
        names |= {f"asked.{k}": float(v) for k, v in ask.items() if isinstance(v, int | float)}
        figures = tool_values.read_values(self.found.tool.read, report) | raw
        names |= {f"tool.{name}": number for name, number in figures.items()}
        names |= {
            "tool.exit": float(-1 if code is None else code),
            "tool.hung": float(code is None),
        }
        here = oracles.local_strings(self.found, filled)
        return model.ScenarioRun(
            setup=setup.name,
            oracle=setup.oracle,
            command=oracles.scrub(" ".join(self.found.tool.command(ask, filled)), here),
            exit_code=code,
            account=account,
            figures=names,
            foreign=foreign,
            report=oracles.scrub(report, here),
        )

    def _filled(
        self, setup: model.Scenario, where: Mapping[str, str], folder: Path
    ) -> dict[str, str]:
        size = int(setup.oracle.get("body", BODY_SIZE))
        body = (PATTERN * (size // len(PATTERN) + 1))[:size]
        return oracles.fill_files(self.found, self.found.tool.ask.files, folder, where) | {
            "body": body
        }

    def _tool(
        self, setup: model.Scenario, ask: model.ToolOptions, filled: Mapping[str, str], folder: Path
    ) -> int | None:
        """Runs the tool's commands to their end; None if one was killed."""
        tool = self.found.tool
        limit_s = float(ask.get("duration_s") or ask.get("about_s") or 60) + GRACE_S
        code = self._one(tool.command(ask, filled), folder, limit_s, setup.disturb)
        if tool.ask.then and code == 0:
            code = self._one([w.format_map(filled) for w in tool.ask.then], folder, GRACE_S, None)
        return code

    def _logged(self, folder: Path) -> dict[str, float]:
        wanted = self.found.tool.samples
        if wanted is None or not (folder / wanted.file).is_file():
            return {}
        with (folder / wanted.file).open(newline="", encoding="utf-8") as lines:
            return tool_values.sample_values(wanted, lines)

    def _one(
        self, words: list[str], folder: Path, limit_s: float, disturb: model.Disturbance | None
    ) -> int | None:
        process = oracles.start_session(words, folder)
        try:
            self.waits_for(process)
            if disturb is not None:
                _apply_disturbance(process, disturb)
            return process.wait(limit_s)
        except subprocess.TimeoutExpired:
            return None
        finally:
            oracles.end_session(process)


def _closed_port() -> dict[str, str]:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    return oracles.placeholder_values(f"http://127.0.0.1:{port}", Path())


def _apply_disturbance(process: subprocess.Popen[Any], what: model.Disturbance) -> None:
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
    with suppress(subprocess.TimeoutExpired):
        process.wait(seconds)


def read_checks(folder: Path = CHECKS) -> tuple[model.CalibrationCheck, ...]:
    found = [toml_file.read(path, model.CalibrationCheck) for path in folder.glob("*.toml")]
    return tuple(sorted(found, key=lambda check: order(check.id)))


def select_checks(
    checks: tuple[model.CalibrationCheck, ...], wanted: str
) -> tuple[model.CalibrationCheck, ...]:
    """The checks that a list such as `C1,C6-C9` names."""
    numbers: set[str] = set()
    for part in wanted.upper().replace(" ", "").split(","):
        first, dash, last = part.partition("-")
        ids = [check.id.upper() for check in checks]
        last = last if dash else first
        if first not in ids or last not in ids:
            raise InputError(
                f"{part!r} is not a check: checks are C1 to {checks[-1].id}, as in C1,C6-C9"
            )
        numbers |= set(ids[ids.index(first) : ids.index(last) + 1])
    return tuple(check for check in checks if check.id.upper() in numbers)


def order(name: str) -> tuple[int, str]:
    """The sort key of a check's id: C11b comes after C11."""
    digits = "".join(sign for sign in name if sign.isdigit())
    return int(digits or 0), name


def read_cells() -> model.LoadPoints:
    return toml_file.read(CELLS, model.LoadPoints)


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationPlan:
    """`allows` are the user's permissions, such as `clock`.

    A check is repeated only if it would end within `budget_s`; None: 1.5 times the time of all.
    """

    found: model.InstalledTool
    checks: tuple[model.CalibrationCheck, ...]
    mode: str
    cores: CoreAssignment
    folder: Path
    version: str
    allows: frozenset[str] = frozenset()
    budget_s: float | None = None


class CalibrationListener(Protocol):
    """`starts` receives the expected duration, and the longest one with repetitions."""

    def starts(self, checks: int, seconds: float, budget_s: float) -> None: ...
    def begins(
        self, check: model.CalibrationCheck, done: int, total: int, seconds_left: float
    ) -> None: ...
    def scored(self, score: model.Score) -> None: ...


def calibrate(plan: CalibrationPlan, listener: CalibrationListener) -> model.Scorecard:
    """Runs every check; each is written to the card on disk as soon as it has ended.

    Results of earlier checks of the same tool in the folder stay on that card; the returned one has
    the checks of this session only.
    """
    with Interruption() as interruption, pin_process(plan.cores.generator):
        session = _Calibration(plan, listener, interruption)
        with suppress(Interrupted):
            session.run()
    return session.card


def write_page(folder: Path) -> Path:
    page = folder / "scorecard.html"
    page.write_text(scorecard_html(read_checks(), read_cards(folder)), encoding="utf-8")
    return page


class _Calibration:
    """Runs scenarios, each only once: checks with the same scenario share its result."""

    def __init__(
        self, plan: CalibrationPlan, listener: CalibrationListener, interruption: Interruption
    ) -> None:
        self._plan = plan
        self._tool = plan.found.tool
        self.card = model.Scorecard(
            tool=self._tool.name,
            about=self._tool.about,
            version=plan.found.version,
            jissoku=plan.version,
            started_utc=now_utc(),
            mode=plan.mode,
            machine=machine_name(),
            is_finished=False,
        )
        self._earlier = carried(plan.folder, self.card)
        self._listener = listener
        self._runner = ScenarioRunner(plan.found, plan.cores, interruption.waits_for)
        self._interruption = interruption
        self._known: dict[bytes, model.ScenarioRun] = {}
        self._took_s: dict[bytes, float] = {}
        self._made: dict[str, list[tuple[model.Scenario, bytes]]] = {}

    def run(self) -> None:
        began_s, checks, left = time.monotonic(), self._plan.checks, self.seconds()
        budget_s = self._plan.budget_s
        budget_s = BUDGET * sum(left) if budget_s is None else budget_s
        # Written first, so that an unwritable folder is reported immediately, and Ctrl-C leaves a
        # card.
        self._keep(budget_s=budget_s)
        self._listener.starts(len(checks), sum(left), budget_s)
        for number, check in enumerate(checks):
            self._score(check, number, len(checks), sum(left[number:]))
        for _ in range(REPETITIONS):
            grades = {it.check: it.grade for it in self.card.scores}
            void = [it for it in checks if grades.get(it.id) is model.Grade.VOID]
            for number, check in enumerate(void):
                # A repetition is that of the void runs.
                left = [sum(self._took_s[key] for key in self._void(it)) for it in void[number:]]
                if time.monotonic() - began_s + left[0] > budget_s:
                    self._leave_out(check)
                    continue
                for key in self._void(check):
                    del self._known[key]
                self._score(check, number, len(void), sum(left))
        self._keep(is_finished=True)

    def _score(
        self, check: model.CalibrationCheck, done: int, total: int, seconds_left: float
    ) -> None:
        self._listener.begins(check, done, total, seconds_left)
        found = self.check(check)
        self._listener.scored(found)
        self._keep(scores=self._with(found))

    def _leave_out(self, check: model.CalibrationCheck) -> None:
        if check.id not in self.card.not_repeated:
            found = next(it for it in self.card.scores if it.check == check.id)
            sentence = f"{found.sentence}; not repeated for lack of time"
            scores = self._with(updated(found, sentence=sentence))
            self._keep(scores=scores, not_repeated=(*self.card.not_repeated, check.id))

    def _with(self, found: model.Score) -> tuple[model.Score, ...]:
        scores = {score.check: score for score in self.card.scores} | {found.check: found}
        return tuple(scores.values())

    def _keep(self, **changes: Any) -> None:
        """Changes the card; that on disk has earlier scores of checks without a newer one, too."""
        self.card = updated(self.card, **changes)
        scores = {score.check: score for score in (*self._earlier, *self.card.scores)}
        ordered = sorted(scores.values(), key=lambda score: order(score.check))
        write_card(self._plan.folder, updated(self.card, scores=tuple(ordered)))

    def seconds(self) -> list[float]:
        """Approximate duration of each check, without scenarios shared with earlier ones."""
        seen: set[bytes] = set()
        found = []
        for check in self._plan.checks:
            able = [] if self._forbidden(check) else check.setup
            able = [setup for setup in able if not self._tool.unsupported_reason(setup.ask)]
            new = [setup for setup in able if _key(setup, self._options(setup)) not in seen]
            seen |= {_key(setup, self._options(setup)) for setup in able}
            found.append(sum(setup.seconds() + OVERHEAD_S for setup in new))
        return found

    def _forbidden(self, check: model.CalibrationCheck) -> bool:
        return bool(check.needs) and check.needs not in self._plan.allows

    def _void(self, check: model.CalibrationCheck) -> list[bytes]:
        """The runs that made a check void; one may have been repeated for another check."""
        made = {key: setup for setup, key in self._made.get(check.id, ()) if key in self._known}
        named = {key: updated(self._known[key], setup=made[key].name) for key in made}
        return [
            key for key, it in named.items() if score(check, {it.setup: it})[0] is model.Grade.VOID
        ]

    def check(self, check: model.CalibrationCheck) -> model.Score:
        self._made[check.id] = []
        if self._forbidden(check):
            sentence = f"it needs leave to touch the machine's {check.needs}: --allow-{check.needs}"
            return _untestable(check, sentence)
        outcomes: dict[str, model.ScenarioRun] = {}
        reasons: list[str] = []
        for setup in check.setup:
            reason = self._tool.unsupported_reason(setup.ask)
            if reason is not None:
                reasons.append(reason)
                continue
            ask = self._options_at_load(setup, outcomes)
            if ask is not None:
                try:
                    outcomes[setup.name] = self._outcome(setup, ask)
                    self._made[check.id].append((setup, _key(setup, ask)))
                except PermissionError as error:
                    return _untestable(check, f"the kernel refuses: {error.strerror}")
        grade, evidence = score(check, outcomes)
        sentence = reasons[0] if reasons else ""
        if grade is model.Grade.NOT_OFFERED and not sentence:
            sentence = self._tool.lacks.get(check.id, "its report has none of the values")
        if grade is model.Grade.F and check.id in self._tool.deviates:
            grade, sentence = model.Grade.B, f"documented: {self._tool.deviates[check.id]}"
        if grade is model.Grade.VOID:
            sentence = next((it.void for it in evidence if it.void), sentence)
        return model.Score(
            check=check.id,
            title=check.title,
            grade=grade,
            sentence=sentence,
            evidence=evidence,
            runs=tuple(map(_recorded, outcomes.values())),
        )

    def _options_at_load(
        self, setup: model.Scenario, outcomes: Mapping[str, model.ScenarioRun]
    ) -> model.ToolOptions | None:
        """Options for the tool; None if they depend on a missing measurement."""
        ask = self._options(setup)
        if not setup.share_of:
            return ask
        earlier = outcomes.get(setup.share_of)
        capacity = earlier.figures.get("oracle.rate_rps") if earlier else None
        return None if capacity is None else ask | {"rate": max(1, round(setup.share * capacity))}

    def _options(self, setup: model.Scenario) -> model.ToolOptions:
        ask, lacks = setup.ask, self._tool.unsupported_reason
        return ask | {k: v for k, v in setup.wish.items() if not lacks(ask | {k: v})}

    def _outcome(self, setup: model.Scenario, ask: model.ToolOptions) -> model.ScenarioRun:
        key = _key(setup, ask)
        if key not in self._known:
            self._interruption.check()
            began_s = time.monotonic()
            self._known[key] = self._runner.run(setup, ask)
            self._took_s[key] = time.monotonic() - began_s
            self._interruption.check()
        return updated(self._known[key], setup=setup.name)


def _key(setup: model.Scenario, ask: model.ToolOptions) -> bytes:
    """A key that is equal for scenarios that differ only in their names."""
    parts = (setup.oracle, ask, setup.share_of and setup.share, setup.closed, setup.disturb)
    return msgspec.json.encode(parts, order="sorted")


def _untestable(check: model.CalibrationCheck, sentence: str) -> model.Score:
    return model.Score(
        check=check.id, title=check.title, grade=model.Grade.NOT_HERE, sentence=sentence
    )


def _recorded(run: model.ScenarioRun) -> model.ScenarioRun:
    """A run without the middle of its report, which has histograms."""
    report = run.report
    if len(report) > 2 * REPORT_CHARACTERS:
        report = f"{report[:REPORT_CHARACTERS]} ... {report[-REPORT_CHARACTERS:]}"
    return updated(run, foreign=round(run.foreign, 4), report=report)
