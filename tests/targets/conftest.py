"""Shared by the tests of this stage: folders, and small targets that misbehave."""

import os
import random
import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from jissoku.errors import TargetError
from jissoku.model import Recipe, UnavailableTarget
from jissoku.system.address import free_port
from jissoku.targets import contract, process
from jissoku.targets.command import from_command
from jissoku.targets.placeholders import BuildPaths
from jissoku.targets.prepare import PreparedTarget, prepare
from jissoku.targets.process import LaunchOptions, RunningTarget

# A file beside the folder that is served.
OUTSIDE = "outside.txt"

Starts = Callable[[str], RunningTarget]

# Serves one constant answer, from whatever process runs it; `sys.argv[1]` is the port.
SERVER = """
import os, socket, sys, signal
def listen():
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", int(sys.argv[1])))
    listener.listen(64)
    return listener
def serve(listener, body=b"Hello, World!"):
    head = b"HTTP/1.1 200 OK\\r\\nContent-Type: text/plain\\r\\nContent-Length: %d\\r\\n\\r\\n"
    while True:
        connection, _ = listener.accept()
        connection.recv(65536)
        connection.sendall(head % len(body) + body)
        connection.close()
"""


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> BuildPaths:
    folder = tmp_path_factory.mktemp("place")
    (folder / OUTSIDE).write_text("outside of the folder")
    return BuildPaths(cache=folder / "cache", files=contract.make_files(folder / "files"))


def prepared_or_skipped(recipe: Recipe, place: BuildPaths) -> PreparedTarget | UnavailableTarget:
    """Prepares a recipe; skips the test with a reason if its sources cannot be downloaded."""
    try:
        return prepare(recipe, place)
    except TargetError as error:
        if re.search(r"could not fetch|Could not resolve|failed to (download|get)", error.stderr):
            pytest.skip(f"{error}: its sources cannot be fetched here")
        raise


@pytest.fixture
def placement() -> LaunchOptions:
    return placed()


def placed(*, unix: bool = False, workers: int = 1, seed: int = 1) -> LaunchOptions:
    port = None if unix else free_port(random.Random())
    core = min(os.sched_getaffinity(0))
    return LaunchOptions(port=port, cores=(core,), workers=workers, seed=seed)


def script(place: BuildPaths, folder: Path, code: str) -> PreparedTarget:
    """Makes a target of a few lines of Python that come after SERVER."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "target.py"
    path.write_text(SERVER + code)
    python = shlex.quote(sys.executable)
    return from_command(f"mine={python} {shlex.quote(str(path))} {{port}}", place)


@pytest.fixture
def starts(place: BuildPaths, tmp_path: Path, placement: LaunchOptions) -> Starts:
    """Starts a few lines of Python as a target."""
    return lambda code: process.start(script(place, tmp_path, code), placement)
