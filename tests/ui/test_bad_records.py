"""Pages over a damaged index, an index that cannot be written, and folders whose names are no
text."""

import shutil
from pathlib import Path

import pytest

from jissoku.ui import run_index
from jissoku.ui.server import UiConfig, pages_in_thread
from tests.history.test_bad_index import NOT_TEXT, overwrite
from tests.ui.conftest import RECORDS, client_of
from tests.ui.test_pages import PAGES, read, runs_of

pytestmark = pytest.mark.slow


@pytest.fixture
def config(tmp_path: Path) -> UiConfig:
    """Three runs, of which the name of one folder is no text."""
    for name, folder in (("51", "51"), ("52", "52"), ("53", NOT_TEXT)):
        shutil.copytree(RECORDS / "repeatability" / name, tmp_path / "runs" / folder)
    roots = (tmp_path / "runs",)
    return UiConfig(listen="127.0.0.1", port=0, roots=roots, cache=tmp_path / "cache")


@pytest.mark.parametrize("first", [0.1, 0.3, 0.5, 0.7])
def test_a_damaged_index_is_one_sentence_and_made_again(
    config: UiConfig, tmp_path: Path, first: float
) -> None:
    """What was shown before is shown after the damage: at once, or after one sentence."""
    with pages_in_thread(config) as link:
        client = client_of(link)
        before = runs_of(client)
    assert len(before) == 3
    (index,) = (tmp_path / "cache").rglob("v3-*.sqlite")
    overwrite(index, first, 1)
    path = "/diff?run=" + "&run=".join(run.removeprefix("/runs/") for run in before[:2])
    with pages_in_thread(config) as link:
        client = client_of(link)
        damaged = client.get(path)
        if damaged.status != 200:
            assert damaged.status == 500
            assert "was damaged and is removed" in damaged.text
        assert client.get(path).status == 200
        assert runs_of(client) == before


def test_an_index_that_cannot_be_written_is_one_sentence(
    config: UiConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_index, "REFRESH_S", 0.0)
    (tmp_path / "cache").write_text("a file")
    with pages_in_thread(config) as link:
        client = client_of(link)
        assert "cannot be written: " in client.get("/").text
        assert client.get("/jobs").status == 200
        (tmp_path / "cache").unlink()
        assert len(runs_of(client)) == 3


def test_a_folder_whose_name_is_no_text_is_a_run_like_others(config: UiConfig) -> None:
    with pages_in_thread(config) as link:
        client = client_of(link)
        runs = runs_of(client)
        assert len(runs) == 3
        for path in (*PAGES, *runs):
            read(client.get(path))
            assert client.get(f"{path}?format=json").status == 200, path
        assert "name\N{REPLACEMENT CHARACTER}" in client.get("/?format=json").text


def test_folders_of_runs_whose_name_is_no_text(tmp_path: Path) -> None:
    root = tmp_path / NOT_TEXT
    root.mkdir()
    config = UiConfig(listen="127.0.0.1", port=0, roots=(root,), cache=tmp_path / "cache")
    with pages_in_thread(config) as link:
        client = client_of(link)
        assert "name\N{REPLACEMENT CHARACTER}" in client.get("/").text
        shutil.copytree(RECORDS / "repeatability" / "51", root / "run")
    with pages_in_thread(config) as link:
        assert len(runs_of(client_of(link))) == 1
