"""What several tests share: options, and a way to run a command line."""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from jissoku import cli

# A process of its own has ended by then, on a machine that has much else to do.
LIMIT_S = 240


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--minutes",
        type=float,
        default=60.0,
        help="How long the soak lasts; the promise is about an hour.",
    )
    parser.addoption(
        "--detections",
        type=int,
        default=10,
        help="How often each cause is planted for the explainer to name.",
    )


@dataclass(frozen=True, slots=True)
class Done:
    """What a command line came to."""

    returncode: int
    stdout: str
    stderr: str


Run = Callable[[list[str], Path], Done]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """Runs a command line: the lab's verbs in this process, whose imports are paid for already.

    The native ones take over the process and its signals, and so get one of their own.
    """

    def here(arguments: list[str], folder: Path) -> Done:
        monkeypatch.chdir(folder)
        monkeypatch.setattr(sys, "argv", ["jissoku", *arguments])
        with pytest.raises(SystemExit) as end:
            cli.main()
        assert isinstance(end.value.code, int)
        return Done(end.value.code, *capfd.readouterr())

    def choose(arguments: list[str], folder: Path) -> Done:
        return apart(arguments, folder) if arguments[0] in cli.NATIVE else here(arguments, folder)

    return choose


def apart(arguments: list[str], folder: Path) -> Done:
    done = subprocess.run(
        [sys.executable, "-m", "jissoku", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )
    return Done(done.returncode, done.stdout, done.stderr)
