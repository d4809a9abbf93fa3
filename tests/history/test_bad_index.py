"""An index that is damaged, of another version, on a full disk, written by several processes, or
over folders whose names are no text: one sentence, and nothing is lost."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from jissoku import records
from jissoku.history import index
from jissoku.history.index import HistoryIndex
from jissoku.inference.run_rows import REVISION, run_rows
from tests.conftest import LIMIT_S, Done, Run
from tests.history.test_index import opened, record, rows

NOT_TEXT = os.fsdecode(b"n\xf6 name\xff")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder `runs` with two runs; the cache of commands is in `cache`."""
    record(tmp_path / "runs" / "one", seed=1, day=1)
    record(tmp_path / "runs" / "two", seed=2, day=2)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def index_of(place: Path) -> Path:
    """The index that commands have written."""
    (found,) = (place / "cache").rglob("v3-*.sqlite")
    return found


def overwrite(file: Path, first: float, last: float) -> None:
    """Zeros in some part of a file, whose size stays."""
    content = bytearray(file.read_bytes())
    begin, end = round(first * len(content)), round(last * len(content))
    content[begin:end] = bytes(end - begin)
    file.write_bytes(content)


def cut(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def make_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def overwrite_pages(file: Path) -> None:
    """Zeros in place of every page but the first, which has the list of tables."""
    size = file.stat().st_size
    with file.open("r+b") as opened_file:
        opened_file.seek(4096)
        opened_file.write(bytes(size - 4096))


DAMAGES: dict[str, Callable[[Path], object]] = {
    "cut off": cut,
    "empty": lambda file: os.truncate(file, 0),
    "gone": Path.unlink,
    "zeros": lambda file: overwrite(file, 0, 1),
    "zeros at its begin": lambda file: overwrite(file, 0, 0.5),
    "whole pages of zeros": overwrite_pages,
    "something else": lambda file: file.write_text("no database" * 1000),
}


@pytest.mark.slow
@pytest.mark.parametrize("words", [["--sql", "SELECT * FROM blocks"], ["b"]])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_index_is_made_again(
    place: Path, run: Run, words: list[str], damage: str
) -> None:
    """What was shown before is shown after the damage: at once, or after one sentence."""
    before = run(["history", *words], place)
    assert before.returncode == 0, before.stderr
    DAMAGES[damage](index_of(place))
    first = run(["history", *words], place)
    if first != before:
        assert first.returncode == 1, first
        assert first.stdout == ""
        assert "jissoku: the index " in first.stderr
        assert "was damaged" in first.stderr
        assert first.stderr.count("\n") == 1
    assert run(["history", *words], place) == before


def test_a_folder_in_place_of_the_index_is_one_sentence(place: Path, run: Run) -> None:
    run(["history"], place)
    make_folder(index_of(place))
    check_unwritable(place, run(["history"], place))


@pytest.mark.parametrize("content", [b"", b"\xc1", b"\x90", b"\x81\xa0"])
def test_a_damaged_list_of_folders_is_made_again(place: Path, run: Run, content: bytes) -> None:
    before = run(["history"], place)
    (file,) = (place / "cache").glob("**/folders-*/*")
    file.write_bytes(content)
    assert run(["history"], place) == before
    assert file.read_bytes() != content


@pytest.mark.parametrize(("revision", "columns"), [(-1, 0), (1, 0), (0, 1)])
def test_an_index_of_another_version_is_kept(
    place: Path, monkeypatch: pytest.MonkeyPatch, revision: int, columns: int
) -> None:
    """Of an older and a newer revision of the program, and of fewer columns: both work on."""
    run, trials = records.read(place / "runs" / "one")

    def other() -> HistoryIndex:
        with monkeypatch.context() as patch:
            patch.setattr(index, "PAIRS", index.PAIRS + " " * columns)
            return HistoryIndex(place / "cache", REVISION + revision)

    other().add([run_rows("key", run, trials)])
    assert other().file != HistoryIndex(place / "cache", REVISION).file
    assert len(opened(place).runs()) == 2
    assert len(opened(place).runs()) == 2
    assert other().known() == {"key"}


LIMITED = """
import resource, sys
from jissoku import cli
size = int(sys.argv.pop(1))
resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
cli.main()
"""


@pytest.mark.slow
@pytest.mark.parametrize("size", [0, 200, 2_000])
def test_a_disk_that_takes_no_more_is_one_sentence(place: Path, run: Run, size: int) -> None:
    """A limit on the size of a file, which has the same result as a full disk, at several files."""
    # Without bytecode: half of a module's would be left for the next program.
    words = [sys.executable, "-B", "-c", LIMITED, str(size), "history"]
    check_unwritable(place, started(words, place))
    check_listed(run, place)


FULL_DISK = 'mount -t tmpfs -o size=48k tmpfs "$0" && exec "$@"'


@pytest.mark.slow
def test_a_full_disk_is_one_sentence(place: Path, run: Run) -> None:
    cache = place / "cache"
    cache.mkdir()
    alone = ["unshare", "--mount", "--map-root-user", "sh", "-c", FULL_DISK, str(cache)]
    if not shutil.which("unshare") or started([*alone, "true"], place).returncode:
        pytest.skip("a file system cannot be mounted here")
    check_unwritable(place, started([*alone, sys.executable, "-m", "jissoku", "history"], place))
    check_listed(run, place)


@pytest.mark.parametrize("is_file", [True, False])
def test_a_cache_that_cannot_be_written_is_one_sentence(
    place: Path, run: Run, monkeypatch: pytest.MonkeyPatch, *, is_file: bool
) -> None:
    """No user may write to /proc."""
    cache = place / "cache" if is_file else Path("/proc/nowhere")
    if is_file:
        cache.write_text("a file")
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    check_unwritable(place, run(["history"], place))


def check_unwritable(place: Path, done: Done) -> None:
    assert done.returncode == 1, done
    assert done.stdout == ""
    assert done.stderr.startswith("jissoku: the index ")
    assert "cannot be written: " in done.stderr
    assert done.stderr.count("\n") == 1
    assert len(list((place / "runs").iterdir())) == 2


def check_listed(run: Run, place: Path) -> None:
    done = run(["history"], place)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("runs/") == 2


def started(words: list[str], place: Path) -> Done:
    done = subprocess.run(
        words, cwd=place, capture_output=True, text=True, check=False, timeout=LIMIT_S
    )
    return Done(done.returncode, done.stdout, done.stderr)


WRITER = """
import sys
from pathlib import Path
from jissoku.measure import history
history.BATCH = 1
print(flush=True)
sys.stdin.readline()
found = history.open_history([Path("runs")], lambda _: None, Path("cache"))
print([found.session.execute(f"SELECT count(*) FROM {table}").fetchall() for table in sys.argv[1:]])
"""


@pytest.mark.slow
def test_several_processes_write_the_same_runs(place: Path) -> None:
    """They begin at the same time, and each writes one run after the other."""
    for number in range(3, 9):
        record(place / "runs" / f"more{number}", seed=number, day=number)
    command = [sys.executable, "-c", WRITER, *index.NAMES]
    pipe = subprocess.PIPE
    writers = [
        subprocess.Popen(command, cwd=place, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
        for _ in range(3)
    ]
    for writer in writers:
        assert writer.stdout is not None
        writer.stdout.readline()
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("\n")
        writer.stdin.flush()
    ended = [writer.communicate(timeout=LIMIT_S) for writer in writers]
    expected = [len(rows(opened(place), table)) for table in index.NAMES]
    assert expected[0] == 8
    counts = str([[(count,)] for count in expected])
    assert [said.strip() for said, _ in ended] == [counts] * 3, ended
    shutil.rmtree(place / "cache")
    assert [len(rows(opened(place), table)) for table in index.NAMES] == expected


@pytest.mark.slow
def test_a_folder_whose_name_is_no_text_is_a_run_like_others(place: Path, run: Run) -> None:
    (place / "runs" / "two").rename(place / "runs" / NOT_TEXT)
    listed = run(["history"], place)
    assert listed.returncode == 0, listed.stderr
    assert "    runs/one\n" in listed.stdout
    assert "    runs/n\N{REPLACEMENT CHARACTER} name\N{REPLACEMENT CHARACTER}\n" in listed.stdout
    assert listed.stderr == ""
    assert "2 occasions" in run(["history", "b"], place).stdout
    compared = run(["diff", "one", NOT_TEXT], place)
    assert compared.returncode == 0, compared.stderr
    assert "name\N{REPLACEMENT CHARACTER}\n" in compared.stdout
    for words in (
        ["--html", "pages"],
        ["--export", "tables.sqlite"],
        ["--sql", "SELECT * FROM present"],
    ):
        done = run(["history", *words], place)
        assert done.returncode == 0, done.stderr
    assert len(list((place / "pages").glob("run-*.html"))) == 2
    done = run(["publish", "published"], place)
    assert done.returncode == 0, done.stderr


def test_only_folders_whose_names_are_no_text_are_read_again(place: Path) -> None:
    (place / "runs" / "two").rename(place / "runs" / NOT_TEXT)
    before = rows(opened(place))
    for folder in (place / "runs").iterdir():
        os.utime(folder / "run.json", (0, 0))
        os.utime(folder, (0, 0))
    os.utime(place / "runs", (0, 0))
    assert rows(opened(place)) == before
    (kept,) = (place / "cache").glob("**/folders-*/*")
    assert b"one" in kept.read_bytes()
    assert b"name" not in kept.read_bytes()


def test_a_broken_record_in_a_folder_whose_name_is_no_text_is_named(place: Path, run: Run) -> None:
    (place / "runs" / "two").rename(place / "runs" / NOT_TEXT)
    (place / "runs" / NOT_TEXT / "run.json").write_text("{")
    listed = run(["history"], place)
    assert listed.returncode == 0
    assert "name\N{REPLACEMENT CHARACTER} is left out: " in listed.stderr
    assert listed.stderr.count("\n") == 1
