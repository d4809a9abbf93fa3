"""New runs are indexed behind the pages: none waits for it, and no measurement feels it."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Semaphore, current_thread

import pytest

from jissoku.errors import InputError
from jissoku.measure import history
from jissoku.model.history import RunRows
from jissoku.records.run_folder import run_key
from jissoku.system.measurement_lock import PATH_VARIABLE, is_measuring, measurement_lock
from jissoku.ui import run_index
from jissoku.ui.server import UiConfig, pages_in_thread
from tests.conftest import JISSOKU
from tests.ui.conftest import LIMIT_S, RECORDS, Client, client_of
from tests.ui.measurement import Stream, wait_for
from tests.ui.test_background import needs_idle_class
from tests.ui.test_command import pages
from tests.ui.test_pages import PAGES, runs_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(200)]

NAMES = ("51", "52", "53")
LEFT = "{} being indexed, and not shown yet."


@dataclass
class Reader:
    """Stands before the reading of runs by the thread, which a test lets go on."""

    permits: Semaphore = field(default_factory=lambda: Semaphore(0))
    begun: list[str] = field(default_factory=list)

    def rows_of(self, key: str, folder: str) -> RunRows:
        if current_thread().name == "indexer":
            self.begun.append(folder)
            assert self.permits.acquire(timeout=LIMIT_S)
        return history.rows_of(key, folder)


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> Reader:
    found = Reader()
    monkeypatch.setattr(run_index, "rows_of", found.rows_of)
    monkeypatch.setattr(run_index, "WAIT_S", 0.0)
    monkeypatch.setattr(run_index, "PART_S", 0.0)  # A part for each run.
    monkeypatch.setattr(run_index, "REFRESH_S", 0.0)
    return found


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in NAMES:
        shutil.copytree(RECORDS / "repeatability" / name, tmp_path / "runs" / name)
    return tmp_path / "runs"


@pytest.fixture
def client(root: Path, reader: Reader) -> Iterator[Client]:
    config = UiConfig(listen="127.0.0.1", port=0, roots=(root,), cache=root.parent / "cache")
    with pages_in_thread(config) as link:
        yield client_of(link)
        reader.permits.release(len(NAMES))


@pytest.fixture(autouse=True)
def own_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Measurements of other tests are not seen."""
    monkeypatch.setenv(PATH_VARIABLE, str(tmp_path / "lock"))


def test_pages_show_what_is_indexed(client: Client, reader: Reader) -> None:
    text = client.get("/").text
    assert LEFT.format("3 runs are") in text
    assert "There is no run" not in text
    reader.permits.release()
    wait_for(lambda: len(runs_of(client)) == 1)
    assert LEFT.format("2 runs are") in client.get("/").text
    reader.permits.release()
    wait_for(lambda: len(runs_of(client)) == 2)
    assert LEFT.format("1 run is") in client.get("/").text
    reader.permits.release()
    wait_for(lambda: len(runs_of(client)) == 3)
    assert "indexed" not in client.get("/").text


def test_every_page_is_there_and_programs_get_all_runs_or_none(
    client: Client, reader: Reader
) -> None:
    for path in PAGES:
        assert client.get(path).status == 200
    answer = client.get("/?format=json")
    assert (answer.status, answer.headers["retry-after"]) == (503, "2")
    assert answer.text == LEFT.format("3 runs are") + "\n"
    reader.permits.release(len(NAMES))
    wait_for(lambda: client.get("/?format=json").status == 200)
    assert len(json.loads(client.get("/?format=json").text)["runs"]) == 3


def test_a_stream_says_how_many_are_left_and_when_none_is(client: Client, reader: Reader) -> None:
    place = re.search(r'data-stream="([^"]+)"', client.get("/").text)
    assert place
    with Stream(client, place[1]) as stream:
        for left in ("3 runs are", "2 runs are", "1 run is"):
            assert stream.next(lambda text: LEFT.format(left) in text)[0] == "progress"  # noqa: B023
            reader.permits.release()
        assert stream.next(lambda text: "All runs are indexed" in text)[0] == "done"
    assert "data-stream" not in client.get("/").text


def test_a_run_that_is_asked_for_is_indexed_at_once(client: Client, root: Path) -> None:
    client.get("/")
    key = run_key(root / "53")
    assert client.get(f"/runs/{key}").status == 200
    assert runs_of(client) == [f"/runs/{key}"]


def test_nothing_is_indexed_while_a_measurement_runs(
    client: Client, reader: Reader, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And after it, what is there then."""
    looks: list[str] = []

    def look() -> bool:
        looks.append(current_thread().name)
        return is_measuring()

    monkeypatch.setattr(run_index, "is_measuring", look)
    monkeypatch.setattr(run_index, "LOOK_S", 0.01)
    reader.permits.release(len(NAMES))
    with measurement_lock("compare"):
        assert "they are indexed when the measurement on this machine has ended" in (
            client.get("/").text
        )
        wait_for(lambda: looks.count("indexer") > 3)
        assert reader.begun == []
        shutil.rmtree(root / "51")
        assert runs_of(client) == []
    wait_for(lambda: len(runs_of(client)) == 2)
    assert reader.begun == [str(root / "52"), str(root / "53")]


def test_what_was_read_is_written_after_a_measurement(client: Client, reader: Reader) -> None:
    client.get("/")
    wait_for(lambda: reader.begun)
    with measurement_lock("compare"):
        reader.permits.release(len(NAMES))
        assert runs_of(client) == []
    wait_for(lambda: len(runs_of(client)) == 3)
    assert len(reader.begun) == 3


def test_a_new_run_is_on_the_first_page_if_there_is_time(
    client: Client, reader: Reader, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader.permits.release(len(NAMES))
    wait_for(lambda: len(runs_of(client)) == 3)
    monkeypatch.setattr(run_index, "WAIT_S", float(LIMIT_S))
    shutil.copytree(RECORDS / "repeatability" / "54", root / "54")
    reader.permits.release()
    assert len(runs_of(client)) == 4


def test_a_broken_run_is_named_and_not_read_again(
    client: Client, reader: Reader, root: Path
) -> None:
    (root / "51" / "run.json").write_text('{"schema": ')
    reader.permits.release(len(NAMES))
    wait_for(lambda: len(runs_of(client)) == 2)
    wait_for(lambda: "51 is left out: " in client.get("/").text)
    count = len(reader.begun)
    assert "indexed" not in client.get("/").text
    assert len(reader.begun) == count


def test_a_run_that_was_written_after_a_look_is_not_read_again(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_index, "WAIT_S", float(LIMIT_S))
    runs = {run_key(root / "51"): str(root / "51")}
    with run_index.Indexer(root.parent / "cache") as thread:
        thread.request(runs, thread.parts)
        monkeypatch.setattr(run_index, "WAIT_S", 0.0)
        assert thread.parts == 1
        thread.request(runs, 0)
        assert thread.left() is None
        thread.request(runs, thread.parts)  # The index was deleted meanwhile.
        assert thread.left() is not None


@needs_idle_class
@pytest.mark.parametrize("is_background", [True, False])
def test_the_thread_is_in_the_idle_class(
    root: Path, monkeypatch: pytest.MonkeyPatch, *, is_background: bool
) -> None:
    policies: list[int] = []
    done = Event()

    def rows_of(*_: str) -> RunRows:
        policies.append(os.sched_getscheduler(0))
        done.set()
        raise InputError("not read: in the idle class it would take long on a busy machine")

    monkeypatch.setattr(run_index, "rows_of", rows_of)
    monkeypatch.setattr(run_index, "WAIT_S", 0.0)
    with run_index.Indexer(root.parent / "cache", is_background=is_background) as thread:
        thread.request({run_key(root / "51"): str(root / "51")}, 0)
        assert done.wait(LIMIT_S)
    assert policies == [os.SCHED_IDLE if is_background else os.SCHED_OTHER]


def test_commands_and_pages_index_the_same_runs_at_once(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All processes show each run once, whichever is first."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(root.parent / "cache"))
    words = [*JISSOKU, "history", "--sql", "SELECT count(*), count(DISTINCT run) FROM runs"]
    with pages(root.parent) as (_, link):
        commands = [
            subprocess.Popen(words, cwd=root.parent, stdout=subprocess.PIPE, text=True)
            for _ in range(2)
        ]
        client = client_of(link)
        client.get("/")
        said = [command.communicate(timeout=LIMIT_S)[0].split()[-2:] for command in commands]
        assert said == [["3", "3"]] * 2
        wait_for(complete(client))
        assert len(json.loads(client.get("/?format=json").text)["runs"]) == 3
    last = subprocess.run(words, cwd=root.parent, capture_output=True, text=True, check=True)
    assert last.stdout.split()[-2:] == ["3", "3"]


def complete(client: Client) -> Callable[[], bool]:
    return lambda: client.get("/?format=json").status == 200
