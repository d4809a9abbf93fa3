"""Servers for the tests of serving, stopped at the end of each test."""

from collections.abc import Iterator

import pytest

from tests.serving.server_process import Served, Start, spawn


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts `jissoku serve` with these arguments and variables."""
    started: list[Served] = []

    def begin(*arguments: str, **variables: str) -> Served:
        started.append(spawn(*arguments, **variables))
        return started[-1]

    yield begin
    for served in started:
        served.end()
