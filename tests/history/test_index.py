"""The index is a cache: rebuilt from records, and robust to damaged files."""

import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from jissoku import records
from jissoku.errors import InputError
from jissoku.history.index import NAMES, HistoryIndex
from jissoku.inference.across_runs import observed_tau, run_difference
from jissoku.inference.run_rows import REVISION, run_rows
from jissoku.measure.history import History, find_run, open_history
from jissoku.model import Method
from jissoku.model.updated import updated
from jissoku.report.history import difference_text, history_text, runs_text
from tests.conftest import Run
from tests.history.factories import target_history, write_run
from tests.inference import factories
from tests.inference.factories import TrueValues

TRUTHS = {
    "floor": TrueValues(cost_ns=5_000),
    "a": TrueValues(cost_ns=7_000),
    "b": TrueValues(cost_ns=9_000),
}


def record(folder: Path, *, seed: int = 1, day: int = 1) -> Path:
    """A made-up run in a folder of its own."""
    arms = tuple(updated(factories.arm(name), binary_sha256=f"{name} binary") for name in TRUTHS)
    write_run(folder, TRUTHS, arms, seed=seed, day=day)
    return folder


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder `runs` with two runs, beside a cache."""
    record(tmp_path / "runs" / "one", seed=1, day=1)
    record(tmp_path / "runs" / "two", seed=2, day=2)
    return tmp_path


def opened(place: Path) -> History:
    return open_history([place / "runs"], lambda _: None, place / "cache")


def rows(found: History, table: str = "blocks") -> list[tuple[object, ...]]:
    return sorted(found.session.execute(f"SELECT * FROM {table}"), key=repr)  # noqa: S608 - ours


def test_runs_are_indexed_with_their_blocks(place: Path) -> None:
    runs = opened(place).runs()
    assert [Path(run.folder).name for run in runs] == ["one", "two"]
    assert {arm.arm for arm in runs[0].arms} == set(TRUTHS)
    ratios = runs[0].ratios(factories.MIDDLE, "b", "a")
    assert len(ratios) == 9
    assert runs[0].ratios(factories.MIDDLE, "a", "b")[0] == pytest.approx(-ratios[0])
    assert runs[0].row.method == Method.TIME_SLICED


def test_pairs_agree_with_the_report(place: Path) -> None:
    history = opened(place)
    found = history.session.execute(
        "SELECT exp(-ln), v.ratio FROM pairs JOIN verdicts v ON pairs.run = v.run"
        " AND pairs.arm = v.against AND pairs.other = v.arm AND v.metric = 'cost'"
        " AND pairs.rate_rps = v.rate_rps"
    ).fetchall()
    assert len(found) == 2
    for ours, reported in found:
        assert ours == pytest.approx(reported)


def test_a_deleted_index_is_made_again(place: Path) -> None:
    first = {table: rows(opened(place), table) for table in NAMES}
    shutil.rmtree(place / "cache")
    assert {table: rows(opened(place), table) for table in NAMES} == first


def test_known_runs_are_not_read_again(place: Path) -> None:
    before = rows(opened(place))
    # The key is the header's hash and the size of the trials.
    trials = place / "runs" / "one" / "trials.jsonl"
    trials.write_bytes(b" " * trials.stat().st_size)
    assert rows(opened(place)) == before


def test_a_deleted_run_is_gone_and_a_copy_counts_once(place: Path) -> None:
    opened(place)
    shutil.copytree(place / "runs" / "one", place / "runs" / "copy")
    assert len(opened(place).runs()) == 2
    shutil.rmtree(place / "runs" / "two")
    assert len(opened(place).runs()) == 1


def test_two_writers_of_the_same_runs_count_once(place: Path) -> None:
    before = rows(opened(place))
    index = HistoryIndex(place / "cache", REVISION)
    run, trials = records.read(place / "runs" / "one")
    index.add([run_rows(next(iter(index.known())), run, trials)])
    found = opened(place)
    assert len(found.runs()) == 2
    assert len(rows(found)) == len(before)


def test_an_index_of_another_version_is_left_alone(place: Path) -> None:
    other = HistoryIndex(place / "cache", REVISION + 1)
    other.file.parent.mkdir(parents=True)
    other.file.write_text("of another version")
    assert len(opened(place).runs()) == 2
    assert other.file.read_text() == "of another version"


def test_nothing_is_opened_again_that_has_not_changed(place: Path) -> None:
    def again() -> History:
        return open_history([place / "runs"], lambda _: None, place / "cache", first)

    first = opened(place)
    assert again() is first
    record(place / "runs" / "three", seed=3, day=3)
    assert len(again().runs()) == 3
    assert len(first.runs()) == 2


def test_two_runs_are_compared_as_with_all_measurements(place: Path) -> None:
    for number in range(3, 7):
        record(place / "runs" / f"more{number}", seed=number, day=number)
    found = opened(place)
    known = found.runs()
    expected = run_difference(known[0], known[3], observed_tau(known))
    assert expected.tau.pairs > 0
    different = found.difference(known[3].row.run, known[0].row.run)
    assert difference_text(different) == difference_text(expected)
    with pytest.raises(KeyError):
        found.difference(known[0].row.run, "gone")


def test_foreign_folders_and_broken_records_are_named(place: Path) -> None:
    (place / "runs" / "foreign").mkdir()
    (place / "runs" / "foreign" / "run.json").write_text('{"schema": "another/1"}')
    (place / "runs" / "pictures").mkdir()
    (place / "runs" / "pictures" / "cat.png").write_bytes(b"\x89PNG")
    found = opened(place)
    assert len(found.runs()) == 2
    (sentence,) = found.broken
    assert "foreign is left out" in sentence
    assert "schema 'another/1'" in sentence


def test_a_broken_record_is_named_and_the_others_are_there(place: Path) -> None:
    trials = place / "runs" / "one" / "trials.jsonl"
    lines = trials.read_bytes().splitlines(keepends=True)
    trials.write_bytes(b"".join([*lines[:3], lines[3][:40] + b"\n", *lines[4:]]))
    found = opened(place)
    assert [Path(run.folder).name for run in found.runs()] == ["two"]
    (sentence,) = found.broken
    assert sentence.startswith(f"{place / 'runs' / 'one'} is left out: ")
    assert "trials.jsonl:4: not a record" in sentence
    assert "\n" not in sentence
    trials.write_bytes(b"".join(lines))
    assert len(opened(place).runs()) == 2


@pytest.mark.slow
def test_two_processes_index_the_same_runs_at_once(place: Path) -> None:
    """Whichever is first: all list both runs, and each is in the index once."""
    environment = os.environ | {"XDG_CACHE_HOME": str(place / "cache")}
    words = [sys.executable, "-m", "jissoku", "history", "--sql", "SELECT count(*) n FROM arms"]
    processes = [
        subprocess.Popen(words, cwd=place, env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    said = [process.communicate(timeout=120)[0].split() for process in processes]
    assert said == [["n", "6"]] * 3
    assert [process.returncode for process in processes] == [0] * 3


def test_a_reader_keeps_an_index_that_is_deleted(place: Path) -> None:
    found = opened(place)
    shutil.rmtree(place / "cache")
    assert len(found.runs()) == len(found.headers()) == 2
    assert len(opened(place).runs()) == 2


def test_a_query_of_the_user_reads_tables_and_does_nothing_else(
    place: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(place / "cache"))
    one_to_three = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3)"
    counted = run(["history", "--sql", f"{one_to_three} SELECT sum(i) s FROM n"], place)  # noqa: S608
    assert counted.stdout.split() == ["s", "6"]
    for query in (
        "DELETE FROM main.runs",
        "INSERT INTO runs (run) VALUES ('x')",
        "CREATE TABLE t (x)",
        "DROP TABLE main.runs",
        f"ATTACH '{place}/other.sqlite' AS other",
        f"VACUUM INTO '{place}/copy.sqlite'",
        "PRAGMA user_version = 7",
        "SELECT 1; SELECT 2",
    ):
        done = run(["history", "--sql", query], place)
        assert done.returncode == 2, query
        assert done.stderr.startswith("jissoku: --sql: ")
    assert len(opened(place).runs()) == 2
    assert {path.name for path in place.iterdir()} == {"runs", "cache"}


def test_nothing_to_index_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not a folder"):
        open_history([tmp_path / "runs"], lambda _: None, tmp_path)
    with pytest.raises(InputError, match="holds no run"):
        open_history([tmp_path], lambda _: None, tmp_path / "cache")


def test_an_unfinished_run_says_why(place: Path) -> None:
    opened(place)
    (place / "runs" / "one" / "unfinished.txt").write_text("it was interrupted\n")
    assert opened(place).runs()[0].unfinished == "it was interrupted"


def test_a_list_reads_no_measurements(place: Path) -> None:
    found = opened(place)
    assert [run.row.run for run in found.headers()] == [run.row.run for run in found.runs()]
    assert all(not run.logs for run in found.headers())
    assert found.targets() == ("a", "b", "floor")
    assert found.series("elsewhere") == ()


def test_a_target_has_the_history_that_all_measurements_give(place: Path) -> None:
    """From means of one pair per run, and blocks of runs beside a change only."""
    for number in range(3, 9):
        is_new = number >= 6
        truths = TRUTHS | {"a": TrueValues(cost_ns=9_000 if is_new else 7_000)}
        binaries = {name: f"{name} binary" for name in TRUTHS} | (
            {"a": "another"} if is_new else {}
        )
        arms = tuple(
            updated(factories.arm(name), binary_sha256=binary) for name, binary in binaries.items()
        )
        write_run(place / "runs" / f"more{number}", truths, arms, seed=number, day=number)
    found = opened(place)
    for target in ("a", "b"):
        (series,) = found.series(target)
        assert len(series.points) == 8
        expected = history_text(target, target_history(found.runs(), target))
        assert history_text(target, found.series(target)) == expected
    assert found.series("a") is found.series("a")


def test_new_runs_are_read_and_known_ones_are_kept(place: Path) -> None:
    first = opened(place)
    before = first.headers()
    record(place / "runs" / "three", seed=3, day=3)
    (place / "runs" / "one").rename(place / "runs" / "moved")
    shutil.rmtree(place / "runs" / "two")
    later = open_history([place / "runs"], lambda _: None, place / "cache", first)
    moved, three = later.headers()
    assert moved.row is before[0].row
    assert Path(moved.folder).name == "moved"
    assert Path(three.folder).name == "three"
    assert [run.logs for run in later.runs()] == [run.logs for run in opened(place).runs()]


def test_runs_are_found_by_folder_name_and_key(place: Path) -> None:
    runs = opened(place).runs()
    assert find_run(runs, str(place / "runs" / "one")) is runs[0]
    assert find_run(runs, "two") is runs[1]
    assert find_run(runs, runs[1].row.run[:8]) is runs[1]
    with pytest.raises(InputError, match="is no run"):
        find_run(runs, "three")


def test_the_command_lists_shows_and_answers(
    place: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(place / "cache"))
    listed = run(["history"], place)
    assert listed.returncode == 0, listed.stderr
    assert "runs/one" in listed.stdout
    shown = run(["history", "b"], place)
    assert "b / floor: CPU time per request" in shown.stdout
    assert "2 occasions: 1." in shown.stdout
    asked = run(["history", "--sql", "SELECT count(*) AS n FROM runs"], place)
    assert asked.stdout.split() == ["n", "2"]
    assert run(["history", "--changes"], place).stdout == "No change is suspected.\n"
    exported = run(["history", "--export", "tables.sqlite"], place)
    assert exported.returncode == 0, exported.stderr
    with closing(sqlite3.connect(place / "tables.sqlite")) as copy:
        for table in NAMES:
            found = sorted(copy.execute(f"SELECT * FROM {table}"), key=repr)  # noqa: S608 - ours
            assert found == rows(opened(place), table)
    again = run(["history", "--export", "tables.sqlite"], place)
    assert again.returncode == 2
    assert "exists already" in again.stderr


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["history", "c"], "no run has 'c'; there are a, b, floor"),
        (["history", "--machines"], "--machines needs a target"),
        (["history", "--sql", "SELECT nonsense"], "--sql: "),
        (["history", "--sql", "SELECT * FROM '/etc/passwd'"], "The tables are runs, arms"),
        (["history", "--records", "elsewhere"], "elsewhere is not a folder"),
        (["diff", "one", "nine"], "nine is no run"),
    ],
)
def test_bad_input_is_one_sentence(
    place: Path, run: Run, monkeypatch: pytest.MonkeyPatch, arguments: list[str], complaint: str
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(place / "cache"))
    done = run(arguments, place)
    assert done.returncode == 2
    assert complaint in done.stderr


def test_two_runs_are_compared(place: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(place / "cache"))
    done = run(["diff", "two", "runs/one"], place)
    assert done.returncode == 0
    assert done.stdout.startswith("Earlier: 2026-11-01 09:00")
    assert "The same program in both: floor, a, b." in done.stdout
    assert "the same program; unchanged arms moved by at most" in done.stdout


def test_a_list_of_runs_says_where_others_may_be() -> None:
    assert runs_text([]).startswith("There are no runs. ")
    assert "jissoku history --records DIR" in runs_text([])
