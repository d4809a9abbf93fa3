"""Our server with an injected cause, explained from outside; without one nothing is found."""

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.explain.explained import causes

# A run takes a quarter of a minute alone, and a machine may be busy.
pytestmark = [pytest.mark.race, pytest.mark.timeout(300)]

# Causes that do not hide each other share a server; alone they are injected by `make detection`.
GROUPS = (
    ("herd", "log", "open", "peername=2", "split"),
    ("close-after=5",),
    ("split-delayed",),
    ("linear-timers", "single-worker"),
)

INJECTED = {
    cause["plant"]: cause
    for cause in tomllib.loads(Path(__file__).with_name("detection.toml").read_text())["cause"]
}

needs_strace = pytest.mark.skipif(shutil.which("strace") is None, reason="there is no strace")


@needs_strace
@pytest.mark.parametrize("group", GROUPS, ids=" ".join)
def test_injected_causes_are_named(group: tuple[str, ...], tmp_path: Path) -> None:
    warnings = [word for plant in group for word in ("--cause", plant)]
    expected = {INJECTED[plant]["name"] for plant in group}
    beside = {name for plant in group for name in INJECTED[plant].get("beside", ())}
    assert causes(tmp_path, *warnings) - (beside - expected) == expected


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
