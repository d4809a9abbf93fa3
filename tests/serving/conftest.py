"""Servers for the tests of serving, stopped at the end of each test."""

from collections.abc import Iterator, Sequence

import pytest

from tests.serving.server_process import COMMAND, LAB_COMMAND, Served, Start, spawn


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts `jissoku serve` with these arguments and variables."""
    yield from _starting(COMMAND)


@pytest.fixture
def start_in_lab() -> Iterator[Start]:
    """Starts `jissoku lab serve` with these arguments and variables."""
    yield from _starting(LAB_COMMAND)


def _starting(command: Sequence[str]) -> Iterator[Start]:
    started: list[Served] = []

    def begin(*arguments: str, **variables: str) -> Served:
        started.append(spawn(*arguments, command=command, **variables))
        return started[-1]

    yield begin
    for served in started:
        served.end()
