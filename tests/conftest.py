"""Shared by several tests: options, and running a command line."""

import atexit
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from jissoku import cli
from jissoku.system import address, cores
from jissoku.system.measurement_lock import PATH_VARIABLE

# Limit of a separate process in seconds, also on a busy machine.
LIMIT_S = 280

JISSOKU = [sys.executable, "-m", "jissoku"]

# No deadline and no check for slow tests, because other load on the machine affects both. The
# examples are the same each time, so that a failure comes from a change; `--hypothesis-profile
# random` draws others.
for profile, is_repeatable in {"any machine": True, "random": False}.items():
    settings.register_profile(
        profile,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
        derandomize=is_repeatable,
    )
settings.load_profile("any machine")


def pytest_configure() -> None:
    """Tests may run next to other work: with a separate measurement lock, without idle cores."""
    folder = tempfile.mkdtemp(prefix="jissoku-tests-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ[PATH_VARIABLE] = f"{folder}/lock"
    cores.QUIET_LIMIT_S = 0.0
    # Containers often set it. Each argument of print() would be a write of its own then, and lines
    # of several processes on one pipe would mix.
    os.environ.pop("PYTHONUNBUFFERED", None)
    # Parallel workers draw ports from the same seeds: each has a range of its own.
    worker, workers = (os.environ.get(f"PYTEST_XDIST_WORKER{end}", "") for end in ("", "_COUNT"))
    if worker:
        address.PORTS = address.PORTS[int(worker.removeprefix("gw")) :: int(workers)]
    # A shell starts background jobs with SIGINT ignored, and ignored signals are inherited:
    # processes that tests start would ignore it, too.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--minutes",
        type=float,
        default=60.0,
        help="How long the soak lasts; the promise is about an hour.",
    )
    parser.addoption(
        "--load-factor",
        type=int,
        default=1,
        help="The sampler's test has N times the samples and processes a second: with 6, "
        "20 minutes are as two hours.",
    )
    parser.addoption(
        "--reloads",
        type=int,
        default=200,
        help="How often applications are reloaded under load; the promise is about 200.",
    )
    parser.addoption(
        "--detections",
        type=int,
        default=10,
        help="How often each cause is injected for the explainer to name.",
    )
    parser.addoption(
        "--sanitizer",
        choices=["address", "thread"],
        help="Tests of requests to handlers in C compile them with this sanitizer.",
    )
    parser.addoption(
        "--pull-requests",
        type=int,
        default=3,
        help="How many pull requests are measured, of an unchanged server and of a changed one.",
    )


@dataclass(frozen=True, slots=True)
class Done:
    """The result of a command line."""

    returncode: int
    stdout: str
    stderr: str


Run = Callable[[list[str], Path], Done]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """Runs a command line: the lab's commands in this process, which has imported the lab already.

    Native commands replace signal handlers of the process, so they run in a separate one.
    """

    def here(arguments: list[str], folder: Path) -> Done:
        monkeypatch.chdir(folder)
        monkeypatch.setattr(sys, "argv", ["jissoku", *arguments])
        with pytest.raises(SystemExit) as end:
            cli.main()
        assert isinstance(end.value.code, int)
        return Done(end.value.code, *capfd.readouterr())

    def choose(arguments: list[str], folder: Path) -> Done:
        is_native = arguments[0] in cli.NATIVE
        return jissoku(*arguments, folder=folder) if is_native else here(arguments, folder)

    return choose


def jissoku(*arguments: str, folder: Path | None = None) -> Done:
    """Runs a command line in a separate process, in a folder or in the working directory."""
    done = subprocess.run(
        [*JISSOKU, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )
    return Done(done.returncode, done.stdout, done.stderr)
