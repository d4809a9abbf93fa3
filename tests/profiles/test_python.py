"""Functions of Python have their share, whatever the interpreter and however many threads wait."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from itertools import pairwise
from math import sqrt
from pathlib import Path
from typing import Any

import pytest

from tests.profiles.test_sampler import running, sample, sampled, wait_for_cpu_time

pytestmark = pytest.mark.slow

# How many readings there have to be at least, on a machine with other work, and how far a share of
# them may be off, in standard errors and anyway.
READINGS_MIN = 20
ERRORS_MAX, ERROR_MAX = 4, 0.05

PROGRAM = """
import sys, threading, time

def injected(n):
    return n if n < 2 else injected(n - 1) + injected(n - 2)

def ordinary(n):
    return n if n < 2 else ordinary(n - 1) + ordinary(n - 2)

def handle():
    while True:
        for _ in range(3):
            injected(12)
        for _ in range(7):
            ordinary(12)
        # As a server does, it sleeps between requests.
        time.sleep(0.0003)

def idle():
    threading.Event().wait()

for number in range(int(sys.argv[1])):
    threading.Thread(target=idle).start()
for number in range(int(sys.argv[2])):
    threading.Thread(target=handle).start()
handle()
"""

# Which function calls which in it; the interpreter's own are not looked at.
CALLS = {
    "injected": {"injected", "handle"},
    "ordinary": {"ordinary", "handle"},
    "handle": {"<module>", "Thread.run"},
}


def interpreters() -> Iterable[str]:
    """This one, and those that are found by their names, through a manager of versions or not."""
    names = [f"python3.{minor}" for minor in (11, 12, 13, 14)]
    found = [sys.executable, *filter(None, map(shutil.which, names)), "/usr/bin/python3"]
    return [path for path in [*dict.fromkeys(found), *managed()] if works(path)]


def managed(least: str = "3.11") -> Iterator[str]:
    """Those of a manager of versions, from one on."""
    root = os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")
    for folder in sorted(Path(root).glob("versions/3.*")):
        if [int(part) for part in folder.name.split(".")[:2]] >= [
            int(part) for part in least.split(".")
        ]:
            yield str(folder / "bin" / "python3")


def works(path: str) -> bool:
    """Whether an interpreter can be started by a name, which may be that of an absent version."""
    command = [path, "-c", "import sys; sys.exit(sys.version_info < (3, 11))"]
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def wait_for_python(pid: int) -> None:
    """Until a process has become Python: a manager of versions begins as a shell."""
    while not Path(f"/proc/{pid}/exe").readlink().name.startswith("python"):
        time.sleep(0.01)


def stacks(found: dict[str, Any]) -> list[tuple[list[str], int]]:
    """Names of functions of Python, innermost first, with their numbers of readings."""
    names = [frame["function"] for frame in found["frames"]]
    read = found["interpreted"]
    return [([names[at] for at in stack["frames"]], stack["count"]) for stack in read]


@pytest.mark.parametrize("python", interpreters())
@pytest.mark.parametrize("threads", [(0, 0), (60, 3)])
def test_functions_have_their_share(python: str, threads: tuple[int, int]) -> None:
    command = [python, "-c", PROGRAM, *map(str, threads)]
    with running(command) as pid:
        wait_for_python(pid)
        found = sampled(sample(pid, duration="4s"))
        # No thread of it is left stopped.
        wait_for_cpu_time(pid)
    read = stacks(found)
    readings = sum(count for _, count in read)
    assert readings >= READINGS_MIN, found["notes"]
    share = sum(count for stack, count in read if "injected" in stack) / readings
    assert abs(share - 0.3) < ERROR_MAX + ERRORS_MAX * sqrt(0.3 * 0.7 / readings)
    # On a busy machine one of sixty may still be on its way to where it waits.
    idle = sum(count for stack, count in read if "idle" in stack)
    assert idle <= 0.01 * readings, "it waits"
    torn = [
        (callee, caller)
        for stack, _ in read
        for callee, caller in pairwise(stack)
        if callee in CALLS and caller not in CALLS[callee]
    ]
    assert not torn


def test_lines_are_those_of_the_source() -> None:
    with running([sys.executable, "-c", PROGRAM, "0", "0"]) as pid:
        found = sampled(sample(pid, duration="4s"))
    lines = {
        (frame["function"], frame["line"])
        for frame in found["frames"]
        if frame["library"] == "[python]"
    }
    assert {line for name, line in lines if name == "injected"} <= {4, 5}
    assert ("ordinary", 8) in lines
    assert ("<module>", 26) in lines
    assert {line for name, line in lines if name == "handle"} <= set(range(10, 18))


def test_an_interpreter_that_is_not_read_is_a_sentence() -> None:
    python = next((path for path in managed("3.8") if not works(path)), None)
    if python is None:
        pytest.skip("no old interpreter is installed")
    with running([python, "-c", PROGRAM, "0", "0"]) as pid:
        found = sampled(sample(pid))
    assert found["interpreted"] == []
    (note,) = found["notes"]
    assert note.startswith("Python functions are not named: ")
    assert "3.1" in note


FORKING = f"""
import os, signal
if pid := os.fork():
    os.waitpid(pid, 0)
# Its parent is killed.
signal.alarm(30)
exec({PROGRAM!r})
"""


def test_a_forked_process_is_read() -> None:
    with running([sys.executable, "-c", FORKING, "0", "1"]) as pid:
        found = sampled(sample(pid, duration="2s"))
    read = stacks(found)
    readings = sum(count for _, count in read)
    assert sum(count for stack, count in read if "injected" in stack) > 0.15 * readings > 0
