"""Folders of runs are found; an earlier result is reused only for unchanged folders."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from jissoku.model.history import FolderEntry
from jissoku.records import run_folder
from jissoku.records.run_folder import find_runs, run_folders, run_key
from tests.compress_records import replace_by_compressed

Entries = dict[str, FolderEntry]


def make(folder: Path, text: str = "header") -> Path:
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(text)
    (folder / "trials.jsonl").write_text("trial\n")
    return folder


def age(root: Path) -> None:
    """Gives everything a time that is long ago."""
    for path in [*root.rglob("*"), root]:
        os.utime(path, (1_000_000_000, 1_000_000_000))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two runs, one of them in an experiment, and a folder without."""
    root = tmp_path / "runs"
    make(root / "one")
    make(root / "experiment" / "workload", "another")
    (root / "empty").mkdir()
    (root / ".hidden").mkdir()
    make(root / ".hidden" / "run")
    age(root)
    return root


def keys(entries: Entries) -> dict[str, str]:
    return {place: entry.run for place, entry in entries.items() if entry.run}


def test_runs_are_found_in_the_order_of_their_names(root: Path) -> None:
    folders = [root / "experiment" / "workload", root / "one"]
    assert list(run_folders(root)) == folders
    assert list(find_runs(root)) == ["", "empty", "experiment", "experiment/workload", "one"]
    assert [*keys(find_runs(root)).values()] == [run_key(folder) for folder in folders]


def test_compressed_runs_are_found_under_the_same_keys(root: Path) -> None:
    known = find_runs(root)
    for path in [*root.rglob("*.json"), *root.rglob("*.jsonl")]:
        replace_by_compressed(path, path.read_bytes())
    age(root)
    again = find_runs(root, known)
    assert keys(again) == keys(find_runs(root)) == keys(known)


def test_a_link_to_a_folder_is_not_followed(root: Path) -> None:
    (root / "empty" / "above").symlink_to(root)
    assert len(keys(find_runs(root))) == 2


def test_what_has_not_changed_is_not_read(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = find_runs(root)
    read: list[str] = []
    monkeypatch.setattr(run_folder, "_read", lambda folder, *_: read.append(folder))
    assert find_runs(root, known) == known
    assert read == []


def appended(root: Path) -> None:
    with (root / "one" / "trials.jsonl").open("a") as file:
        file.write("trial\n")


CHANGES: dict[str, Callable[[Path], object]] = {
    "a new run": lambda root: make(root / "two", "two"),
    "a new run below": lambda root: make(root / "experiment" / "second", "second"),
    "a run where there was none": lambda root: (root / "empty" / "run.json").write_text("new"),
    "another header": lambda root: (root / "one" / "run.json").write_text("changed"),
    "a further trial": appended,
    "a removed header": lambda root: (root / "one" / "run.json").unlink(),
    "another name": lambda root: (root / "one").rename(root / "two"),
    "an end": lambda root: (root / "one" / "unfinished.txt").write_text("it was interrupted\n"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_every_change_is_seen(root: Path, change: Callable[[Path], object]) -> None:
    known = find_runs(root)
    change(root)
    found = find_runs(root, known)
    assert found == find_runs(root)
    assert found != known


def test_what_may_change_without_a_trace_is_read_again(root: Path) -> None:
    """Two changes within the resolution of a file's time; a note that is overwritten in place."""
    note = root / "one" / "unfinished.txt"
    note.write_text("it was interrupted\n")
    age(root)
    os.utime(root / "empty")
    known = find_runs(root)
    assert {name for name, one in known.items() if one.mtime_ns < 0} == {"empty", "one"}
    note.write_text("the disk was full \n")
    age(root)
    assert find_runs(root, known)["one"].unfinished == "the disk was full"


def test_a_run_that_cannot_be_read_is_named(root: Path) -> None:
    header = root / "one" / "run.json"
    header.unlink()
    header.symlink_to(root / "gone")
    assert find_runs(root)["one"].problem == "No such file or directory"
    assert root / "one" in list(run_folders(root))
