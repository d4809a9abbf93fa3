"""The table of docs/apps.md for other servers: its options exist, here and there."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from jissoku import _native
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


# Options with the name of one here, which were compared: what they mean is the same.
SAME = {
    "--access-log",
    "--app-dir",
    "--chdir",
    "--config",
    "--env-file",
    "--factory",
    "--group",
    "--lifespan",
    "--log-config",
    "--log-level",
    "--max-requests",
    "--max-requests-jitter",
    "--metrics",
    "--pid-file",
    "--print-config",
    "--reload",
    "--root-path",
    "--threads",
    "--user",
    "--workers",
}


@pytest.mark.parametrize("options", [of_gunicorn, of_uvicorn, of_granian])
def test_each_option_of_another_server_has_a_hint(
    options: Callable[[], set[str]], capfd: pytest.CaptureFixture[str]
) -> None:
    names = {name for name in options() if name.startswith("-")} - {"-h", "--help"}
    assert len(names) > 30
    assert names & set(defaults()) <= SAME
    without = []
    for name in sorted(names - SAME):
        assert _native.run(["jissoku", "serve", "there:app", name]) == 2
        message = capfd.readouterr().err
        if not re.search(
            f"'{name}' found; (here it is --|there is no such option here: )", message
        ):
            without.append(message)
    assert without == []


HINTS = {
    "--bind": "--listen HOST:PORT",
    "--pid": "--pid-file FILE",
    "-p": "--pid-file FILE",
    "-t": "--hang-timeout TIME",
    "-m": "--socket-mode MODE",
    "-u": "--user USER",
    "-g": "--group GROUP",
    "-c": "--config FILE",
    "--port": "--listen HOST:PORT",
    "--uds": "--listen unix:PATH",
    "--keep-alive": "--idle-time-max TIME",
    "--timeout-keep-alive": "--idle-time-max TIME",
    "--timeout-graceful-shutdown": "--stop-timeout TIME",
    "--limit-concurrency": "--connections-max N",
    "--limit-request-field_size": "--field-size-max SIZE",
    "--h11-max-incomplete-event-size": "--fields-size-max SIZE",
    "--limit-max-requests-jitter": "--max-requests-jitter N",
    "--access-logfile": "--access-log FILE",
    "--access-logformat": "--log-format FORMAT",
    "--statsd-host": "--metrics HOST:PORT",
    "--env": "--env-file FILE",
    "--preload": "each worker imports the application itself",
    "--asgi-lifespan": "--lifespan WHEN",
    "--ssl-keyfile-password": "the key must not be encrypted",
    "--reload-dir": "--reload watches the Python files below --app-dir",
}


@pytest.mark.parametrize("name", HINTS)
def test_a_hint_is_right(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    _native.run(["jissoku", "serve", "there:app", name, "1"])
    found = re.search("(?:here it is|no such option here:) (.*); see", capfd.readouterr().err)
    assert found
    assert found[1].startswith(HINTS[name])
