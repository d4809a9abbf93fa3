"""A published folder: complete, checkable, and without names of the machine that made it."""

import getpass
import hashlib
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from jissoku import records
from jissoku.errors import InputError
from jissoku.measure.publishing import COMMAND, publish
from jissoku.model.trial import Failure, TrialStage
from jissoku.model.updated import updated
from jissoku.records import RunWriter
from jissoku.system import redaction
from tests.conftest import Run
from tests.history.test_index import record

pytestmark = pytest.mark.slow

HOST, USER, LABEL = "build-box-7", "mallory-q", "left-of-the-window"


@pytest.fixture(autouse=True)
def named_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """A machine and a user with names that nothing else has; records are below the folder."""
    monkeypatch.setattr(socket, "gethostname", lambda: HOST)
    monkeypatch.setattr(redaction, "_user", lambda: USER)
    monkeypatch.chdir(tmp_path)
    redaction._known.cache_clear()
    yield
    redaction._known.cache_clear()


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Two runs; the second one names the machine wherever a record has text of its own."""
    folder = tmp_path / "runs"
    record(folder / "one", seed=1, day=1)
    run, trials = records.read(record(tmp_path / "plain", seed=2, day=2))
    text = f"{tmp_path}/build/server of {USER} at {HOST}: /home/{USER}/.ssh/id"
    arms = (updated(run.arms[0], description=text, version=f"1 {HOST}"), *run.arms[1:])
    run = updated(run, arms=arms, machine_label=LABEL, labels={"where": str(tmp_path), "by": USER})
    with RunWriter(folder / "two", run) as writer:
        for trial in trials:
            writer.add(trial)
        writer.add(
            updated(
                trials[-1],
                failure=Failure(stage=TrialStage.START, arm="a", reason=text, stderr=text),
            )
        )
    (folder / "two" / "unfinished.txt").write_text(
        f"{HOST} was shut down by {USER} in {tmp_path}\n"
    )
    (folder / "two" / "report.html").write_text(text)
    trials_file = folder / "two" / "trials.jsonl"
    trials_file.write_bytes(trials_file.read_bytes() + b'{"half a line')
    return folder


def files(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_no_name_and_no_path_is_in_it(runs: Path, tmp_path: Path) -> None:
    assert publish(tmp_path / "site", [runs], lambda _: None) == 2
    words = [HOST, USER, LABEL, str(tmp_path), str(Path.home()) + "/", "/home/"]
    words += [name for name in (getpass.getuser(),) if name not in redaction.PUBLIC_NAMES]
    for name, data in files(tmp_path / "site").items():
        found = [word for word in words if word.encode() in data or word in name]
        assert not found, f"{name} contains {found}"


def test_every_run_has_its_report_records_and_hashes(runs: Path, tmp_path: Path) -> None:
    publish(tmp_path / "site", [runs], lambda _: None)
    found = files(tmp_path / "site")
    assert {name.partition("/")[0].partition("-")[0] for name in found} == {
        "SHA256SUMS", "index.html", "records", "run", "runs.html", "target",
    }  # fmt: skip
    assert COMMAND in found["index.html"].decode()
    listed = dict(line.split("  ")[::-1] for line in found["SHA256SUMS"].decode().splitlines())
    assert listed == {
        name: hashlib.sha256(data).hexdigest()
        for name, data in found.items()
        if name != "SHA256SUMS"
    }
    assert b"HOST was shut down by USER in HERE" in b"".join(found.values())


def test_published_records_give_the_same_bytes(runs: Path, tmp_path: Path, run: Run) -> None:
    done = run(["publish", "site", "--records", str(runs)], tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "2 runs: site/index.html\n"
    again = run(COMMAND.split()[1:], tmp_path / "site")
    assert again.returncode == 0, again.stderr
    whole = files(tmp_path / "site" / "NEW")
    assert whole == {
        name: data for name, data in files(tmp_path / "site").items() if "NEW" not in name
    }


def test_a_folder_that_holds_something_is_left_alone(runs: Path, tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "thesis.txt").write_text("the only copy")
    with pytest.raises(InputError, match="is not empty: name a new folder"):
        publish(tmp_path / "site", [runs], lambda _: None)
    assert list(files(tmp_path / "site")) == ["thesis.txt"]
