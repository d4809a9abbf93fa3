import dataclasses
import os
import signal
from pathlib import Path

import pytest

from jissoku import records, report, stats
from jissoku.model import Kind, Stage, Status, Trial
from jissoku.pipeline import compare
from tests.pipeline.conftest import Asks, Deaf, asking

# A campaign takes a few seconds, and a machine may be busy.
pytestmark = pytest.mark.timeout(240)


def processes_of(folder: Path) -> list[str]:
    """Command lines that name a file of the test's own folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().decode(errors="replace")
        except OSError:
            continue
        if str(folder) in words:
            found.append(words)
    return found


@dataclasses.dataclass(frozen=True)
class Raced:
    """A campaign of two servers in which nothing goes wrong."""

    folder: Path
    heard: tuple[Trial, ...]


@pytest.fixture(scope="module")
def raced(tmp_path_factory: pytest.TempPathFactory) -> Raced:
    question = asking(tmp_path_factory.mktemp("raced"))({"one": "", "other": ""})
    heard = Deaf()
    assert compare(question, heard)
    assert processes_of(question.folder.parent) == []
    return Raced(question.folder, tuple(heard.trials))


def test_two_servers_are_raced_and_recorded(raced: Raced) -> None:
    run, trials = records.read(raced.folder)
    assert trials == raced.heard
    ended = [trial for trial in trials if trial.attempt == 0]
    assert [trial.kind for trial in ended].count(Kind.DUET) == 1
    assert [trial.kind for trial in ended].count(Kind.SOLO_RATE) == 2
    for lane in (lane for trial in trials for lane in trial.lanes):
        assert lane.requests > 0
        assert sum(lane.errors.values()) == 0
        assert lane.cpu_ns is not None
        assert lane.cpu_ns > 0
        assert lane.answer is not None
        assert lane.answer.body_bytes == 13
    assert run.baseline == "one"


def test_a_report_is_rebuilt_byte_for_byte(raced: Raced) -> None:
    first, second = (stats.summarise(*records.read(raced.folder)) for _ in range(2))
    assert report.to_html(first) == report.to_html(second)
    assert report.to_json(first) == report.to_json(second)
    assert report.to_markdown(first) == report.to_markdown(second)
    assert report.to_text(first) == report.to_text(second)


def test_a_block_has_a_duet_and_each_alone(raced: Raced) -> None:
    order = [(t.kind, t.arms) for t in raced.heard if t.attempt == 0]
    assert len(order) == 5
    assert {arms for kind, arms in order if kind is not Kind.DUET} == {("one",), ("other",)}


def test_records_name_neither_machine_nor_path(asks: Asks) -> None:
    question = asks({"one": "", "bad": "sys.exit(f'cannot read {__file__}')"})
    compare(question, Deaf())
    for path in question.folder.iterdir():
        text = path.read_text()
        assert str(question.folder.parent) not in text
    header = (question.folder / "run.json").read_text()
    assert f'"{os.uname().nodename}"' not in header


DIES = """
def answer(count):
    if count > 20:
        print("out of luck", file=sys.stderr, flush=True)
        os._exit(3)
    return b"x"
"""

BROKEN = {
    "does-not-start": ("sys.exit('no licence was found')", Stage.READY, "no licence was found"),
    "dies-at-once": ("os.kill(os.getpid(), 9)", Stage.READY, ""),
    "changes-its-mind": (
        "\ndef answer(count): return b'%d' % count",
        Stage.VERIFY,
        "",
    ),
    "dies-under-load": (
        DIES,
        Stage.LOAD,
        "out of luck",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_target_is_a_failure_and_never_a_number(asks: Asks, name: str) -> None:
    code, stage, words = BROKEN[name]
    question = asks({"good": "", "bad": code})
    assert compare(question, Deaf())
    run, trials = records.read(question.folder)
    failed = [trial for trial in trials if "bad" in trial.arms]
    assert failed
    for trial in failed:
        assert trial.failure is not None
        assert (trial.failure.arm, trial.failure.stage) == ("bad", stage), trial.failure
        assert words in trial.failure.stderr
        assert trial.lanes == ()
    summary = stats.summarise(run, trials)
    (bad,) = (s for s in summary.standings if s.arm.name == "bad")
    assert bad.status is Status.FAILED
    assert bad.cost_ns is None
    assert bad.rate_rps is None
    assert processes_of(question.folder.parent) == []


@pytest.mark.race
def test_one_wrong_answer_under_load_takes_the_number_away(asks: Asks) -> None:
    code = "\ndef answer(count): return b'Hello, World?' if count % 20 == 0 else b'Hello, World!'\n"
    question = asks({"good": "", "bad": code})
    compare(question, Deaf())
    run, trials = records.read(question.folder)
    (bad,) = (s for s in stats.summarise(run, trials).standings if s.arm.name == "bad")
    assert bad.status is not Status.MEASURED
    wrong = [trial for trial in trials if trial.arms == ("bad",)]
    assert any("body" in gate.message for trial in wrong for gate in trial.gates)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_leaves_no_process_and_keeps_every_trial(
    asks: Asks, number: signal.Signals
) -> None:
    question = asks({"one": "", "other": ""})

    def interrupt(_: Trial) -> None:
        if len(heard.trials) == 2:
            os.kill(os.getpid(), number)

    heard = Deaf(interrupt)
    assert not compare(question, heard)
    _, trials = records.read(question.folder)
    assert trials == tuple(heard.trials)
    assert len(trials) == 2
    assert processes_of(question.folder.parent) == []


@pytest.mark.race
def test_a_twin_has_duets_only(asks: Asks) -> None:
    question = dataclasses.replace(asks({"one": "", "other": "", "again": ""}), twin="again")
    assert compare(question, Deaf())
    run, trials = records.read(question.folder)
    assert run.twin == "again"
    kinds = {trial.kind for trial in trials if "again" in trial.arms}
    assert kinds == {Kind.DUET}
    assert all(trial.failure is None for trial in trials)
