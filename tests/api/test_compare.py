"""`jissoku.compare` from its arguments to verdicts, without load."""

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import jissoku
from jissoku import records
from jissoku.errors import InputError, JissokuError, RecordError
from jissoku.measure import asked_comparison
from jissoku.measure.comparison import CompareConfig
from jissoku.measure.progress import ProgressListener
from jissoku.model.summary import BoundStatus, Verdict
from tests.ci.made_up import BASE_NS, campaign

PROGRAM = f"{sys.executable} -m http.server {{port}}"
BOUND = "cost(head) > 1.02 x cost(base)"


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[CompareConfig]:
    """The runs that replace measurements: in each, `head` costs 1.1 times as much as others."""
    runs: list[CompareConfig] = []

    def costs(config: CompareConfig) -> dict[str, float]:
        runs.append(config)
        return {"head": BASE_NS * 1.1}

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(asked_comparison, "compare", campaign(costs, blocks=10))
    return runs


@pytest.mark.slow
def test_verdicts_are_those_of_the_report(
    made: list[CompareConfig], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    lines: list[str] = []
    found = jissoku.compare(
        f"base={PROGRAM}",
        f"head={PROGRAM}",
        rate=5000,
        time="30s",
        seed=7,
        pairing="paired",
        fail_if=BOUND,
        folder=tmp_path / "out",
        progress=lines.append,
    )
    (pair,) = [one for one in found.pairs if {one.arm, one.against} == {"base", "head"}]
    assert (pair.arm, pair.against, pair.verdict) == ("head", "base", Verdict.HIGHER)
    assert pair.proven
    assert pair.ratio is not None
    assert pair.ratio.low < 1.1 < pair.ratio.high
    assert pair.sentence.startswith("head uses ")
    assert [one.status for one in found.bounds] == [BoundStatus.EXCEEDED]
    assert found.folder == tmp_path / "out"
    assert (found.folder / "report.html").exists()
    (config,) = made
    assert (config.plan.seconds, config.workload.rate_rps, config.seed) == (30, 5000, 7)
    # What was asked is recorded as by the command.
    run, _ = records.read(found.folder)
    assert run.verb == "compare"
    assert run.request is not None
    assert "made up" in lines
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow
def test_targets_are_names_commands_and_urls(made: list[CompareConfig]) -> None:
    jissoku.compare(PROGRAM, "floor", "own=floor", blocks=3)
    (config,) = made
    assert config.names == ("floor", "own", Path(sys.executable).name)
    assert config.folder.parent == Path("runs")
    assert config.plan.blocks == 3


@pytest.mark.parametrize(
    ("targets", "options", "message"),
    [
        (["floor"], {"blokcs": 3}, r"No such option.*--blokcs.*--blocks"),
        (["flor"], {}, "floor"),
        (["floor"], {"rate": "fast"}, "'fast' is not a rate"),
        (["floor"], {"time": 9, "blocks": 3}, "--for and --blocks exclude each other"),
        (["python app.py"], {}, "say once where it listens"),
        (["x=http://127.0.0.1:1/"], {}, "x cannot be reached"),
        (["floor"], {"fail_if": BOUND}, "base"),
        ([""], {}, "no empty text"),
    ],
)
def test_what_is_invalid_is_an_exception(
    made: list[CompareConfig], targets: list[str], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(JissokuError, match=message):
        jissoku.compare(*targets, **options)
    assert made == []


def test_it_is_called_in_the_main_thread(made: list[CompareConfig]) -> None:
    with ThreadPoolExecutor(1) as pool, pytest.raises(InputError, match="in the main thread"):
        pool.submit(jissoku.compare, "floor").result()
    assert made == []
    assert threading.active_count() >= 1


def test_an_interruption_is_an_exception_with_a_report(
    made: list[CompareConfig], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = campaign(lambda _: {}, blocks=10)

    def interrupted(config: CompareConfig, listener: ProgressListener, _: object) -> bool:
        made.append(config)
        return whole(config, listener) and False

    monkeypatch.setattr(asked_comparison, "compare", interrupted)
    with pytest.raises(KeyboardInterrupt, match="was interrupted"):
        jissoku.compare(f"base={PROGRAM}", f"head={PROGRAM}", rate=5000)
    assert (made[0].folder / "report.html").exists()


def test_records_that_cannot_be_written_are_an_exception(
    made: list[CompareConfig], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = campaign(lambda _: {}, blocks=10)

    def full(config: CompareConfig, listener: ProgressListener, _: object) -> bool:
        made.append(config)
        whole(config, listener)
        raise RecordError("the disk is full")

    monkeypatch.setattr(asked_comparison, "compare", full)
    with pytest.raises(RecordError, match="the disk is full"):
        jissoku.compare(f"base={PROGRAM}", f"head={PROGRAM}", rate=5000)
    assert len(made) == 1


def test_without_the_laboratory_it_says_what_to_install(tmp_path: Path) -> None:
    assert jissoku.__file__ is not None
    (tmp_path / "jissoku").symlink_to(Path(jissoku.__file__).parent)
    # -S: without the packages of this interpreter.
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import jissoku; jissoku.compare"
    command = [sys.executable, "-I", "-S", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stderr.endswith(": pip install 'jissoku[lab]'\n")
    load = code.replace("jissoku.compare", "jissoku.load")
    subprocess.run([*command[:-1], load], check=True)
