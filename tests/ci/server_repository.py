"""A git repository of a server in which commits differ by the work of each request."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.conftest import JISSOKU, Done

# Starts our server with a busy loop of as many nanoseconds as the file says.
START = f"""#!/bin/sh
exec {sys.executable} -m jissoku lab serve --fixed hello --workers 1 --listen "127.0.0.1:$1" \\
  --busy-ns "$(cat work)"
"""
COMMAND = "sh start.sh {port}"

AUTHOR = ("-c", "user.name=t", "-c", "user.email=t@example.org")

# Of a confirmed run of 60 blocks, on a machine with much else to do.
LIMIT_S = 1500


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", *AUTHOR, *words],  # noqa: S607
        cwd=folder,
        env=os.environ | {"GIT_CONFIG_GLOBAL": "/dev/null"},
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip()


def server_repository(folder: Path, works: Sequence[int]) -> Path:
    """A commit for each number of nanoseconds; the working directory is the last one.

    The same number twice is a commit that changes something else.
    """
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch", "main")
    (folder / "start.sh").write_text(START)
    for number, work in enumerate(works):
        set_work(folder, work)
        (folder / "notes").write_text(f"{number}\n")
        git(folder, "add", ".")
        git(folder, "commit", "--quiet", "-m", f"number {number}")
    return folder


def set_work(folder: Path, work: int) -> None:
    """Changes the working directory's server."""
    (folder / "work").write_text(f"{work}\n")


def run(folder: Path, *arguments: str) -> Done:
    """A command line in the repository, in a separate process."""
    done = subprocess.run(
        [*JISSOKU, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )
    return Done(done.returncode, done.stdout, done.stderr)
