"""A whole calibration of a load generator with known faults, written here."""

import signal
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from jissoku.cli.calibrate import calibrate as verb
from jissoku.errors import InputError
from jissoku.measure.calibration import CalibrationPlan, ScenarioRunner, calibrate, read_checks
from jissoku.model import CoreAssignment
from jissoku.model.calibration import (
    CalibrationCheck,
    CommandLine,
    Disturbance,
    Expectation,
    FigurePattern,
    Installation,
    InstalledTool,
    Scenario,
    ScenarioRun,
    Score,
    Tool,
    ToolOptions,
)
from jissoku.model.updated import updated
from jissoku.records.files import read_cards
from jissoku.report.page import scorecard_html
from jissoku.system.cores import available_cores

# It sends one request less than requested, like a tool that rounds.
GENERATOR = """
import http.client, sys
host, port, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
connection, right = http.client.HTTPConnection(host, port, timeout=20), 0
try:
    for _ in range(count - 1):
        connection.request("GET", "/")
        right += connection.getresponse().read() != b""
except OSError as error:
    print("error", error)
print("right", right)
"""
COUNTED = CalibrationCheck(
    id="C3",
    title="As many as asked",
    why="A test.",
    is_timed=False,
    setup=(
        Scenario(
            name="20 requests",
            oracle={"delay": "constant:1ms", "entries": 1000},
            ask={"connections": 1, "count": 20},
            expect=(
                Expectation(of="oracle.requests", equals="asked.count"),
                Expectation(of="tool.requests", equals="oracle.right"),
            ),
        ),
        Scenario(
            name="refused",
            closed=True,
            ask={"connections": 1, "count": 20},
            expect=(Expectation(of="tool.requests", equals="0"),),
        ),
        Scenario(name="a rate", ask={"connections": 1, "rate": 20}),
    ),
)
CLOCK = CalibrationCheck(
    id="C19",
    title="Clock",
    why="A test.",
    needs="clock",
    setup=(Scenario(name="clock", ask={"connections": 1, "count": 1}),),
)


class Listener:
    """Collects the grades."""

    def __init__(self) -> None:
        self.grades: list[str] = []

    def starts(self, checks: int, seconds: float, budget_s: float) -> None:
        assert checks > 0
        assert seconds >= 0
        assert budget_s >= 0

    def begins(self, check: CalibrationCheck, done: int, total: int, seconds_left: float) -> None:
        assert check.title
        assert done < total
        assert seconds_left >= 0

    def scored(self, score: Score) -> None:
        self.grades.append(score.grade)


@pytest.fixture
def plan(tmp_path: Path) -> CalibrationPlan:
    script = tmp_path / "generator.py"
    script.write_text(GENERATOR)
    tool = Tool(
        name="made-up",
        about="A test.",
        get=Installation(
            program="{python}", how="", version=("{python}", "--version"), pattern="(.*)"
        ),
        ask=CommandLine(
            always=("{python}", str(script), "{host}", "{port}"),
            say={"connections": (), "count": ("{count}",)},
            last=(),
        ),
        read={"requests": FigurePattern(pattern=r"right (\d+)")},
    )
    return CalibrationPlan(
        found=InstalledTool(tool=tool, program=sys.executable, version="1"),
        checks=(COUNTED, CLOCK),
        mode="quick",
        cores=CoreAssignment(server=available_cores(), generator=available_cores(), shared=True),
        folder=tmp_path / "out",
        version="jissoku test",
    )


def test_a_generator_is_graded_by_what_really_happened(plan: CalibrationPlan) -> None:
    listener = Listener()
    card = calibrate(plan, listener)
    assert listener.grades == ["F", "not testable here"]
    assert card.is_finished
    assert read_cards(plan.folder) == (card,)
    score = card.scores[0]
    assert [found.grade for found in score.evidence] == ["F", "A", "A"]
    assert (score.evidence[0].expected, score.evidence[0].got) == ("20", "19")
    assert score.sentence == "made-up does not support rate"
    account = score.runs[0].account
    assert (account["requests"], account["connections_opened"]) == (19, 1)
    assert "error" in score.runs[1].report
    assert sys.executable not in score.runs[0].command


def test_who_ends_before_being_stopped_is_left_in_peace(plan: CalibrationPlan) -> None:
    setup = Scenario(
        name="refused",
        closed=True,
        ask={"connections": 1, "count": 20},
        disturb=Disturbance(stop_at_s=10, stop_for_s=0.1),
        expect=(Expectation(of="tool.requests", equals="0"), Expectation(says="refused")),
    )
    stopped = CalibrationCheck(
        id="C17", title="Stopped", why="A test.", is_timed=False, setup=(setup,)
    )
    card = calibrate(updated(plan, checks=(stopped,)), Listener())
    assert card.scores[0].grade == "A"


class Busy:
    """A runner on a machine that is busy for some runs; counts the runs."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, busy: int) -> None:
        self.ran: list[str] = []
        self._busy = busy
        monkeypatch.setattr(ScenarioRunner, "run", lambda _bench, setup, ask: self._run(setup, ask))

    def _run(self, setup: Scenario, ask: ToolOptions) -> ScenarioRun:
        self.ran.append(f"{ask['count']}")
        is_busy = len(self.ran) <= self._busy
        return ScenarioRun(
            setup=setup.name,
            figures={"tool.requests": 0.0 if is_busy else float(ask["count"])},
            command="",
            report="",
            exit_code=0,
            oracle={},
            account={},
            foreign=0.5 if is_busy else 0.0,
        )


def timed(name: str, count: int, wanted: int) -> CalibrationCheck:
    asked: ToolOptions = {"connections": 1, "count": count}
    expected = Expectation(of="tool.requests", equals=str(wanted))
    setup = Scenario(name=name, ask=asked, expect=(expected,))
    return CalibrationCheck(id=name, title=name, why="A test.", setup=(setup,))


def test_what_is_void_is_repeated_and_nothing_else(
    plan: CalibrationPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy, listener = Busy(monkeypatch, busy=2), Listener()
    # The second uses the run of the first; the third has a bad grade at once.
    checks = (timed("C1", 1, 1), timed("C2", 1, 1), timed("C3", 2, 2), timed("C4", 3, 4))
    card = calibrate(updated(plan, checks=checks, budget_s=60), listener)
    assert busy.ran == ["1", "2", "3", "1", "2"]
    assert listener.grades == ["void", "void", "void", "F", "A", "A", "A"]
    assert [score.grade for score in card.scores] == ["A", "A", "A", "F"]
    assert [score.check for score in card.scores] == ["C1", "C2", "C3", "C4"]
    assert (card.not_repeated, card.budget_s) == ((), 60)


def test_repetitions_have_an_end(plan: CalibrationPlan, monkeypatch: pytest.MonkeyPatch) -> None:
    busy = Busy(monkeypatch, busy=99)
    card = calibrate(updated(plan, checks=(timed("C1", 1, 1),), budget_s=60), Listener())
    assert busy.ran == ["1", "1", "1"]
    assert card.scores[0].grade == "void"
    assert card.not_repeated == ()


def test_what_there_is_no_time_for_is_in_the_record(
    plan: CalibrationPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy = Busy(monkeypatch, busy=99)
    calibrate(updated(plan, checks=(timed("C1", 1, 1),), budget_s=0), Listener())
    assert busy.ran == ["1"]
    [card] = read_cards(plan.folder)
    assert card.not_repeated == ("C1",)
    assert card.scores[0].sentence.endswith("meanwhile; not repeated for lack of time")


class Stops(Listener):
    """Ctrl-C while the first check runs."""

    def begins(self, check: CalibrationCheck, done: int, total: int, seconds_left: float) -> None:
        super().begins(check, done, total, seconds_left)
        signal.raise_signal(signal.SIGINT)


def test_an_interruption_before_the_first_grade_leaves_an_unfinished_card(
    plan: CalibrationPlan,
) -> None:
    calibrate(plan, Stops())
    [card] = read_cards(plan.folder)
    assert (card.scores, card.is_finished) == ((), False)


def test_checks_of_another_time_stay_on_the_card(plan: CalibrationPlan) -> None:
    first = calibrate(updated(plan, checks=(CLOCK,)), Listener())
    calibrate(updated(plan, checks=(COUNTED,)), Listener())
    [card] = read_cards(plan.folder)
    assert [score.check for score in card.scores] == ["C3", "C19"]
    assert card.scores[1] == first.scores[0]
    calibrate(updated(plan, checks=(CLOCK,), version="jissoku newer"), Listener())
    [card] = read_cards(plan.folder)
    assert [score.check for score in card.scores] == ["C19"]


def test_the_page_shows_every_tool_and_needs_nothing_else(plan: CalibrationPlan) -> None:
    card = calibrate(plan, Listener())
    page = scorecard_html(read_checks(), [card])
    assert page == scorecard_html(read_checks(), [card])
    assert "made-up" in page
    assert "not testable here" in page
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert "<script" not in page


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["no-such-tool"], "no tool is called 'no-such-tool': there are ab, "),
        (["jissoku", "--checks", "C99"], "'C99' is not a check"),
    ],
)
def test_the_verb_refuses_what_makes_no_sense(words: list[str], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        CliRunner().invoke(verb, words, catch_exceptions=False)
