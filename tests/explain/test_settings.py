"""The table of settings: every cause has one for every server, or a reason why there is none."""

import pytest

from jissoku.explain import findings
from jissoku.explain.causes import CAUSES
from jissoku.explain.settings import (
    OTHERWISE,
    SERVERS,
    SETTINGS,
    server_of_command,
    setting,
)
from jissoku.model.explanation import FindingScope, ProcessInfo
from jissoku.targets import catalogue
from tests.explain import factories

# How a cell of the table begins that has no setting; a reason follows.
NO_KNOB = "no knob here: "

OF_SERVERS = [name for name, cause in CAUSES.items() if cause.scope is FindingScope.SERVER]

RECIPES = catalogue.recipes()

# Recipes that start one of these servers as itself.
STARTED = {
    name: server
    for name, recipe in RECIPES.items()
    if (server := server_of_command(recipe.start.command) or server_of_command([recipe.program]))
}


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("cause", OF_SERVERS)
def test_every_cause_has_a_setting_or_a_reason(cause: str, server: str) -> None:
    text = setting(cause, server)
    assert len(text.removeprefix(NO_KNOB)) > 5, f"{cause} of {server}"


def test_the_table_has_no_other_causes_and_servers() -> None:
    assert set(SETTINGS) == set(OF_SERVERS)
    assert {name for lines in SETTINGS.values() for name in lines} <= {*SERVERS, OTHERWISE}


def test_most_servers_are_started_by_a_recipe() -> None:
    assert set(SERVERS) - set(STARTED.values()) == {"apache"}


def test_what_a_knob_removes_has_a_setting() -> None:
    for name, server in STARTED.items():
        for knob in RECIPES[name].knob:
            for cause in knob.for_findings:
                text = setting(cause, server)
                assert not text.startswith(NO_KNOB), f"{name}: {knob.name} is for {cause}: {text}"


@pytest.mark.parametrize(
    ("command", "server"),
    [
        ("/usr/sbin/nginx -c /etc/nginx.conf", "nginx"),
        ("/usr/bin/python3.11 -m gunicorn app:app", "gunicorn"),
        ("/usr/bin/python3 -X dev /home/me/bin/uvicorn app:app", "uvicorn"),
        ("/usr/bin/node-22 server.js", "node"),
        ("/srv/shop --port 80", ""),
    ],
)
def test_a_server_is_known_by_its_command(command: str, server: str) -> None:
    assert server_of_command(command.split()) == server


def test_the_setting_is_that_of_the_server_that_was_looked_at() -> None:
    def settings(executable: str) -> list[str]:
        program = ProcessInfo(pid=1, executable=executable)
        threads = (factories.thread(0, 1_700_000_000),)
        return [
            one.setting for one in findings(factories.load(processes=(program,), threads=threads))
        ]

    assert settings("/usr/sbin/nginx") == ["worker_processes auto;"]
    assert settings("/usr/bin/something-else") == [""]
