"""The table of docs/apps.md for other servers: its options exist, here and there."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.serving.test_page import defaults, value_of

PAGE = (Path(__file__).parents[2] / "docs" / "apps.md").read_text()


def rows() -> list[dict[str, str]]:
    """The rows, by the names of their columns."""
    table = PAGE.partition("## Coming from another server")[2].partition("\n## ")[0]
    lines = [line.strip("|").split(" | ") for line in table.splitlines() if line.startswith("|")]
    header, _, *rest = [[cell.strip() for cell in line] for line in lines]
    return [dict(zip(header, cells, strict=True)) for cells in rest]


def named(column: str) -> set[str]:
    """All options in a column."""
    return {name for row in rows() for name in re.findall(r"`(--[\w-]+)", row[column])}


def of_gunicorn() -> set[str]:
    config = pytest.importorskip("gunicorn.config")
    return {name for setting in config.KNOWN_SETTINGS for name in setting.cli or ()}


def of_uvicorn() -> set[str]:
    return options_of(pytest.importorskip("uvicorn.main").main)


def of_granian() -> set[str]:
    return options_of(pytest.importorskip("granian.cli").cli)


def options_of(command: object) -> set[str]:
    """The options of a command of click."""
    parameters = getattr(command, "params", [])
    return {name for parameter in parameters for name in parameter.opts}


def test_the_options_here_exist() -> None:
    assert len(rows()) > 30
    assert named("here") - set(defaults()) == set()


def test_the_defaults_here_are_those_of_the_flags() -> None:
    given = re.findall(r"^\| `(--[\w-]+)[^`|]*` \((\d[^);]*)", PAGE, re.MULTILINE)
    assert len(given) > 5
    assert {flag: value_of(text) for flag, text in given} == {
        flag: value_of(defaults()[flag]) for flag, _ in given
    }


@pytest.mark.parametrize(
    ("server", "options"),
    [("gunicorn", of_gunicorn), ("uvicorn", of_uvicorn), ("granian", of_granian)],
)
def test_the_options_of_another_server_exist(server: str, options: Callable[[], set[str]]) -> None:
    assert named(server) - options() == set()
