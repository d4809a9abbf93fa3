"""Options of other servers, as the reference has them: they exist, here and there."""

import re
from collections.abc import Callable

import pytest

from jissoku import _native
from jissoku.migrate.tables import SERVERS, server
from tests.documentation import migration
from tests.serving.test_page import defaults


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


def test_the_reference_names_an_option_here_or_says_that_there_is_none() -> None:
    (page,) = migration.pages().values()
    cells = re.findall(r"^\| (`-.*) \| (.*) \|$", page, re.MULTILINE)
    names = [name for there, _ in cells for name in there.split(", ")]
    options = [option for name in SERVERS for option in server(name).option]
    assert len(names) == sum(len(option.names) for option in options)
    flags = {flag for _, text in cells for flag in re.findall(r"`(--[\w-]+)", text)}
    assert flags - set(defaults()) == {"--version"}
    assert [text for _, text in cells if not re.match("`|none|the default|its ", text)] == []


@pytest.mark.parametrize(
    ("name", "options"),
    [("gunicorn", of_gunicorn), ("uvicorn", of_uvicorn), ("granian", of_granian)],
)
def test_the_options_of_another_server_exist(name: str, options: Callable[[], set[str]]) -> None:
    named = {one for option in server(name).option for one in option.names}
    assert len(named) > 30
    # Click lists the negation of a flag apart, and gunicorn its version nowhere.
    positive = {one for one in named if not one.startswith("--no-")}
    assert positive - options() - {"-v", "--version"} == set()


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
