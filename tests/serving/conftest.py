"""Servers for the tests of serving, ended when a test is."""

import os
import subprocess
from collections.abc import Iterator

import pytest

from tests.serving.server_process import COMMAND, Served, Start


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts `jissoku serve` with these arguments and variables."""
    started: list[Served] = []

    def begin(*arguments: str, **variables: str) -> Served:
        process = subprocess.Popen(
            [*COMMAND, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **variables},
        )
        started.append(Served(process))
        return started[-1]

    yield begin
    for served in started:
        served.end()
