"""A result that cannot be written is printed all the same, and the exit code is 1."""

import resource
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from jissoku.cli.commands import jissoku
from jissoku.errors import RecordError
from jissoku.measure.reports import measured, problem_of, write_explanation, write_tuning
from jissoku.records import write_profiles
from tests.profiles.factories import MAIN, profile
from tests.tune.test_report import TUNING
from tests.ui.test_analyses import an_explanation

RECORDS = Path(__file__).parents[2] / "records"


@contextmanager
def full() -> Iterator[None]:
    """No file may grow (setrlimit(2)), as on a full disk.

    It ends with the test's own block: pytest's output may be a file, too.
    """
    writes_bytecode = sys.dont_write_bytecode
    sys.dont_write_bytecode = True
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
        sys.dont_write_bytecode = writes_bytecode


def report(folder: Path, *options: str) -> Result:
    words = ["report", str(folder), *options]
    return CliRunner().invoke(jissoku, words, standalone_mode=False)


def check(found: Result, verdict: str) -> None:
    assert found.return_value == 1, found.output
    assert verdict in " ".join(found.stdout.split())
    assert "cannot be written: File too large" in found.stderr
    assert "Report: " not in found.stdout


@pytest.mark.parametrize("name", ["repeatability/51"])
def test_a_run_is_reported(name: str, tmp_path: Path) -> None:
    shutil.copytree(RECORDS / name, tmp_path / "run")
    with full():
        found = report(tmp_path / "run")
        as_json = report(tmp_path / "run", "--json")
    check(found, "uses the least CPU time per request")
    assert (as_json.return_value, as_json.stdout[:1]) == (1, "{")


def test_a_profile_is_reported(tmp_path: Path) -> None:
    write_profiles(tmp_path / "run", [profile((300, (MAIN,)))])
    with full():
        found = report(tmp_path / "run")
    check(found, "server: 100.0 \N{MICRO SIGN}s of CPU time per request")


def test_what_was_found_is_known_without_its_record(tmp_path: Path) -> None:
    with full():
        problems = [
            problem_of(lambda: write_tuning(tmp_path, TUNING)),
            problem_of(lambda: write_explanation(tmp_path, an_explanation())),
            problem_of(lambda: write_profiles(tmp_path, [profile((300, (MAIN,)))])),
        ]
    assert all("cannot be written: File too large" in problem for problem in problems), problems


def test_a_run_whose_records_end_is_not_finished() -> None:
    def fails() -> bool:
        raise RecordError("trial 3 cannot be written")

    assert measured(fails) == (False, "trial 3 cannot be written")
    assert measured(lambda: True) == (True, "")
