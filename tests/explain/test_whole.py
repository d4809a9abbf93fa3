"""Our server with a planted cause, explained from outside; without one there is nothing to find."""

import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

# A run takes a quarter of a minute alone, and a machine may be busy.
pytestmark = [pytest.mark.race, pytest.mark.timeout(300)]

PLANTED = {
    "peername=2": "needless-calls",
    "open": "open-per-request",
    "split": "split-answer",
    "split-delayed": "delayed-acknowledgement",
    "close-after=5": "connection-closed",
    "single-worker": "workers",
    "linear-timers": "linear-timers",
    "herd": "herd",
    "log": "access-log",
}

needs_strace = pytest.mark.skipif(shutil.which("strace") is None, reason="there is no strace")


def causes(folder: Path, *cause: str) -> set[str]:
    words = [sys.executable, "-m", "jissoku", "serve", "--contract"]
    command = shlex.join([*words, *cause]) + " --workers {workers} --listen 127.0.0.1:{port}"
    done = subprocess.run(
        [sys.executable, "-m", "jissoku", "explain", "--cmd", f"ours={command}", "--json"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    return {found["name"] for found in report["findings"] if found["about"] == "server"}


@needs_strace
@pytest.mark.parametrize(("cause", "name"), PLANTED.items())
def test_a_planted_cause_is_named(cause: str, name: str, tmp_path: Path) -> None:
    assert name in causes(tmp_path, "--cause", cause)


@needs_strace
def test_the_server_as_it_is_has_none(tmp_path: Path) -> None:
    assert causes(tmp_path) == set()


def test_a_target_that_is_not_there_is_told(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "jissoku", "explain", "nobody"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 2
    assert "there is no target 'nobody'" in done.stderr
