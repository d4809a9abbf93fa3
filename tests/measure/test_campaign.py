import dataclasses
import os
import signal
from collections import Counter
from pathlib import Path

import pytest

from jissoku import inference, records, report
from jissoku.design.sampling_plan import SECOND
from jissoku.errors import InputError
from jissoku.inference.blocks import select_ratio_source, valid_trials
from jissoku.measure.compare import compare
from jissoku.model import (
    Comparison,
    EvidenceSource,
    Load,
    LoadLevel,
    Match,
    MeasurementStatus,
    Method,
    Trial,
    TrialKind,
    TrialStage,
    Verdict,
)
from jissoku.model.updated import updated
from tests.measure.conftest import BRIEF, Asks, CollectingListener, asking

# A campaign takes a few seconds, and a machine may be busy.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


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
    delivered: tuple[Trial, ...]
    totals: tuple[int, ...]


@pytest.fixture(scope="module")
def raced(tmp_path_factory: pytest.TempPathFactory) -> Raced:
    # Beside compilers the pilot may find less than the load, which then leaves a server out.
    for _ in range(2):
        found = race(tmp_path_factory.mktemp("raced"))
        if any(trial.kind is TrialKind.TIME_SLICED for trial in found.delivered):
            return found
    return race(tmp_path_factory.mktemp("raced"))


def race(folder: Path) -> Raced:
    config = asking(folder)({"one": "", "other": ""})
    # A load that also a busy machine carries; the grid's might be above what the pilot reaches.
    config = dataclasses.replace(config, loads=(Load(rate_rps=300, level=LoadLevel.LIGHT),))
    listener = CollectingListener()
    assert compare(config, listener)
    assert processes_of(folder) == []
    return Raced(config.folder, tuple(listener.trials), tuple(listener.totals))


def test_two_servers_are_raced_and_recorded(raced: Raced) -> None:
    run, trials = records.read(raced.folder)
    assert trials == raced.delivered
    ended = [trial for trial in trials if trial.attempt == 0]
    # The servers' programs differ, so they are time-sliced, once with each of two slice lengths.
    sliced = [trial for trial in ended if trial.kind is TrialKind.TIME_SLICED]
    assert {trial.slice_ns for trial in sliced} == {run.slice_ns, run.check_slice_ns}
    assert run.method is Method.TIME_SLICED
    assert run.loads
    assert [trial.kind for trial in ended].count(TrialKind.CLOSED_LOOP) == 2
    for measurement in (measurement for trial in trials for measurement in trial.measurements):
        assert measurement.requests > 0
        assert sum(measurement.errors.values()) == 0
        assert measurement.cpu_ns is not None
        assert measurement.cpu_ns > 0
        assert measurement.response is not None
        assert measurement.response.body_bytes == 13
    assert run.baseline == "one"


def test_progress_counts_the_trials_that_are_planned(raced: Raced) -> None:
    ended = [trial for trial in raced.delivered if trial.attempt == 0]
    # Cross-checks that do not agree are repeated in further blocks.
    assert raced.totals[0] == sum(trial.block < BRIEF.blocks for trial in ended)
    assert raced.totals[-1] == len(raced.delivered)


def test_a_report_is_rebuilt_byte_for_byte(raced: Raced) -> None:
    first, second = (inference.summarise(*records.read(raced.folder)) for _ in range(2))
    assert report.to_html(first) == report.to_html(second)
    assert report.to_json(first) == report.to_json(second)
    assert report.to_text(first) == report.to_text(second)


def test_a_block_has_turns_and_each_alone(raced: Raced) -> None:
    ended = [trial for trial in raced.delivered if trial.attempt == 0]
    kinds = Counter(trial.kind for trial in ended)
    # Two slice lengths, and each server alone.
    assert kinds == {
        TrialKind.TIME_SLICED: 2,
        TrialKind.FIXED_RATE: 2,
        TrialKind.CLOSED_LOOP: 2,
    }
    alone = {trial.arms for trial in ended if trial.kind is not TrialKind.TIME_SLICED}
    assert alone == {("one",), ("other",)}
    sliced = [trial for trial in ended if trial.kind is TrialKind.TIME_SLICED]
    assert len({trial.start_index for trial in sliced}) == 1
    for measurement in (measurement for trial in sliced for measurement in trial.measurements):
        assert measurement.active_duration_ns
        assert 0 < sum(measurement.slice_cpu_ns) <= (measurement.cpu_ns or 0)
        assert measurement.warmup_requests


def test_records_name_neither_machine_nor_path(asks: Asks) -> None:
    config = asks({"one": "", "bad": "sys.exit(f'cannot read {__file__}')"})
    compare(config, CollectingListener())
    for path in config.folder.iterdir():
        text = path.read_text()
        assert str(config.folder.parent) not in text
    header = (config.folder / "run.json").read_text()
    assert f'"{os.uname().nodename}"' not in header


DIES = """
def answer(count):
    if count > 4:
        print("out of luck", file=sys.stderr, flush=True)
        os._exit(3)
    return b"x"
"""

CHANGES_ITS_STATUS = """
def once(self):
    Handler.asked += 1
    self.send_response(200 if Handler.asked == 1 else 500)
    self.send_header("Content-Length", "0")
    self.end_headers()
Handler.do_GET = once
"""

BROKEN = {
    "does-not-start": (
        "sys.exit('no licence was found')",
        TrialStage.READY,
        "no licence was found",
    ),
    "dies-at-once": ("os.kill(os.getpid(), 9)", TrialStage.READY, ""),
    "changes-its-mind": (CHANGES_ITS_STATUS, TrialStage.VERIFY, ""),
    "dies-under-load": (
        DIES,
        TrialStage.LOAD,
        "out of luck",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_target_is_a_failure_and_never_a_number(asks: Asks, name: str) -> None:
    code, stage, words = BROKEN[name]
    config = asks({"good": "", "bad": code})
    assert compare(config, CollectingListener())
    run, trials = records.read(config.folder)
    failed = [trial for trial in trials if "bad" in trial.arms]
    assert failed
    for trial in failed:
        assert trial.failure is not None
        assert (trial.failure.arm, trial.failure.stage) == ("bad", stage), trial.failure
        assert words in trial.failure.stderr
        assert trial.failure.has_ended is (name != "changes-its-mind")
        assert trial.measurements == ()
    summary = inference.summarise(run, trials)
    (bad,) = (s for s in summary.arm_summaries if s.arm.name == "bad")
    assert bad.status is MeasurementStatus.FAILED
    assert bad.points == ()
    assert bad.rate_rps is None
    assert processes_of(config.folder.parent) == []


JSON = "\ndef answer(count): return b'{\"count\": %d}' % count"
SAME_LENGTH = "\ndef answer(count): return b'%08d' % count"
OTHER = "\ndef answer(count): return b'x' * count"


@pytest.mark.parametrize(
    ("code", "match"), [(JSON, "json"), (SAME_LENGTH, "length"), (OTHER, "status")]
)
def test_bodies_that_change_end_the_run_with_the_option_that_accepts_them(
    asks: Asks, code: str, match: str
) -> None:
    config = asks({"good": "", "bad": code})
    with pytest.raises(InputError, match=rf"^bad answers .*; --match {match} compares"):
        compare(config, CollectingListener())
    assert processes_of(config.folder.parent) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "match"), [(JSON, "json"), (SAME_LENGTH, "length"), (OTHER, "status")]
)
def test_with_that_option_they_are_measured(asks: Asks, code: str, match: str) -> None:
    config = asks({"good": code, "bad": code}, match=Match(match))
    # A busy machine may keep a server from a core for as long as a brief window lasts.
    config = dataclasses.replace(config, plan=updated(config.plan, window_ns=SECOND // 2))
    compare(config, CollectingListener())
    run, trials = records.read(config.folder)
    assert run.workload.match == match
    assert [trial.failure for trial in trials if trial.failure] == []
    assert "body" not in "".join(one.message for t in trials for one in t.failed_checks)


@pytest.mark.race
def test_one_wrong_answer_under_load_takes_the_number_away(asks: Asks) -> None:
    code = "\ndef answer(count): return b'Hello, World?' if count % 20 == 0 else b'Hello, World!'\n"
    config = asks({"good": "", "bad": code})
    compare(config, CollectingListener())
    run, trials = records.read(config.folder)
    (bad,) = (s for s in inference.summarise(run, trials).arm_summaries if s.arm.name == "bad")
    assert bad.status is not MeasurementStatus.MEASURED
    wrong = [trial for trial in trials if trial.arms == ("bad",)]
    assert any("body" in check.message for trial in wrong for check in trial.failed_checks)


@pytest.mark.parametrize("is_disturbed", [False, True], ids=["quiet", "disturbed"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_leaves_no_process_and_keeps_every_trial(
    asks: Asks, number: signal.Signals, monkeypatch: pytest.MonkeyPatch, *, is_disturbed: bool
) -> None:
    config = asks({"one": "", "other": ""})
    # A disturbed trial is repeated on the same start.
    monkeypatch.setattr(inference, "is_rejected", lambda _: is_disturbed)

    def interrupt(_: Trial) -> None:
        if len(listener.trials) == 2:
            os.kill(os.getpid(), number)

    listener = CollectingListener(interrupt)
    assert not compare(config, listener)
    _, trials = records.read(config.folder)
    assert trials == tuple(listener.trials)
    assert len(trials) == 2
    assert processes_of(config.folder.parent) == []


def test_a_target_that_is_waited_for_has_not_failed_when_the_user_interrupts(asks: Asks) -> None:
    config = asks({"one": f"import signal; os.kill({os.getpid()}, signal.SIGINT); signal.pause()"})
    listener = CollectingListener()
    assert not compare(config, listener)
    assert listener.trials == []
    assert processes_of(config.folder.parent) == []


@pytest.mark.race
def test_an_a_a_control_meets_the_others_only(asks: Asks) -> None:
    config = updated(asks({"one": "", "other": "", "again": ""}), aa_control="again")
    assert compare(config, CollectingListener())
    run, trials = records.read(config.folder)
    assert run.aa_control == "again"
    kinds = {trial.kind for trial in trials if "again" in trial.arms}
    assert kinds == {TrialKind.TIME_SLICED}
    assert all(trial.failure is None for trial in trials)


POLLS = """
import sys, threading
sys.setswitchinterval(1e-4)
def poll():
    while True: pass
threading.Thread(target=poll, daemon=True).start()
"""


@pytest.mark.race
def test_a_target_that_polls_is_compared_by_trials_of_each_target_alone(asks: Asks) -> None:
    config = dataclasses.replace(
        asks({"one": "", "other": "", "busy": POLLS}),
        loads=(Load(rate_rps=100, level=LoadLevel.LIGHT),),
        plan=updated(BRIEF, blocks=3, blocks_max=3),
    )
    listener = CollectingListener()
    assert compare(config, listener)
    assert "busy: works while others are under load" in " ".join(listener.notes)
    run, trials = records.read(config.folder)
    ended = [trial for trial in trials if trial.attempt == 0]
    sliced = [trial for trial in ended if trial.kind is TrialKind.TIME_SLICED]
    found, *others = sliced
    assert "busy" in found.arms
    assert "shared-cores" in {check.name for check in found.failed_checks}
    assert not any("busy" in trial.arms for trial in others)
    assert {trial.block for trial in others} == {0, 1, 2}
    alone = Counter((t.arms, t.block) for t in ended if t.kind is TrialKind.FIXED_RATE)
    assert alone == {((name,), block): 1 for name in ("one", "other", "busy") for block in range(3)}
    valid = valid_trials(trials).at(run.loads[0])
    assert select_ratio_source(valid, "busy", "one").source is EvidenceSource.SINGLE


def test_a_cross_check_that_does_not_agree_is_repeated(
    asks: Asks, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = Load(rate_rps=300, level=LoadLevel.LIGHT)
    found = Comparison(arm="other", against="one", verdict=Verdict.DISPUTED, load=load)
    monkeypatch.setattr(inference, "contradicted", lambda *_: (found,))
    config = dataclasses.replace(
        asks({"one": "", "other": ""}),
        loads=(load,),
        plan=updated(BRIEF, repeated_check_blocks=2),
    )
    listener = CollectingListener()
    assert compare(config, listener)
    assert "A cross-check does not agree for other / one: measuring 2 more" in " ".join(
        listener.notes
    )
    run, trials = records.read(config.folder)
    further = [trial for trial in trials if trial.block > 0 and trial.attempt == 0]
    assert Counter((trial.kind, trial.slice_ns) for trial in further) == {
        (TrialKind.TIME_SLICED, run.check_slice_ns): 2,
        (TrialKind.FIXED_RATE, None): 4,
    }
