"""Our server with an injected cause, explained from outside; without one nothing is found."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.explain.explained import GROUPS, INJECTED, causes, expected

# A run takes a quarter of a minute alone, and a machine may be busy.
pytestmark = [pytest.mark.race, pytest.mark.timeout(300)]

needs_strace = pytest.mark.skipif(shutil.which("strace") is None, reason="there is no strace")


@needs_strace
@pytest.mark.parametrize("group", GROUPS, ids=" ".join)
def test_injected_causes_are_named(group: tuple[str, ...], tmp_path: Path) -> None:
    warnings = [word for plant in group for word in ("--cause", plant)]
    names, beside = expected(group)
    assert causes(tmp_path, *warnings) - beside == names


def test_every_cause_has_a_group() -> None:
    assert {plant for group in GROUPS for plant in group} == set(INJECTED)


@needs_strace
def test_the_server_as_it_is_has_none(tmp_path: Path) -> None:
    assert causes(tmp_path) == set()


def test_a_missing_target_is_an_error(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "jissoku", "explain", "absent"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 2
    assert "no such target: 'absent'" in done.stderr
