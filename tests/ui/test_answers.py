"""What two runs leave open is measured by one click; only what forms may start has a button."""

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import pytest

from jissoku.ui.answers import answering
from tests.ui.measurement import Measured, measured, wait_for
from tests.ui.suspicion import record

# Several waits, each with a limit of its own.
pytestmark = pytest.mark.timeout(200)


def test_a_command_of_recipes_becomes_a_form() -> None:
    command = "jissoku compare go 'nginx-1.22=nginx@1.22' --path '/delay?ms=10' -c 64 -R 5000"
    assert answering(command).fields == (
        ("target", "go"),
        ("target", "nginx-1.22=nginx@1.22"),
        ("path", "/delay?ms=10"),
        ("connections", "64"),
        ("rate", "5000"),
    )


def test_a_connection_per_request_is_a_field() -> None:
    fields = answering("jissoku compare go -c 64 --no-keepalive").fields
    assert fields == (("target", "go"), ("connections", "64"), ("close", "yes"))


@pytest.mark.parametrize(
    "command",
    [
        "jissoku compare go -c 64 -m POST --body 'a b'",
        "jissoku compare --cmd 'mine=./server --port {port}' go -c 64",
        "jissoku compare go --url mine=URL",
        "jissoku compare go --baseline v1.2",
        "jissoku run parsers",
    ],
)
def test_other_commands_do_not(command: str) -> None:
    assert answering(command).fields is None


@pytest.fixture
def live(tmp_path: Path, index_cache: Path) -> Iterator[Measured]:
    """Pages over two runs between which a program changed."""
    records = tmp_path / "earlier"
    record(records / "one", 1, "0.1.0", 7_000)
    record(records / "two", 2, "0.2.0", 9_500)
    with measured(tmp_path / "runs", index_cache, more=(records,)) as found:
        yield found


def difference(live: Measured) -> str:
    keys = re.findall(r'name="run" value="([\w-]+)"', live.client.get("/").text)
    return live.client.get(f"/diff?run={keys[0]}&run={keys[1]}").text


@pytest.mark.slow
def test_a_suspicion_between_two_runs_is_raced_by_its_form(live: Measured) -> None:
    text = difference(live)
    assert "a change is suspected" in text
    (form,) = re.findall(r'<form method="post" action="/start/compare">.*?</form>', text, re.DOTALL)
    assert "Race them now" in form
    fields = [
        (name, unescape(value))
        for name, value in re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', form)
    ]
    assert ("target", "jissoku-0.1.0=jissoku@0.1.0") in fields
    assert ("target", "jissoku-0.2.0=jissoku@0.2.0") in fields
    answer = live.client.post("/start/compare", fields)
    assert answer.status == 303, answer.text
    job = answer.headers["location"]
    wait_for(lambda: "Running." in live.client.get(job).text)
    command = "-- jissoku-0.1.0=jissoku@0.1.0 jissoku-0.2.0=jissoku@0.2.0"
    assert command in live.client.get(job).text
    live.say("exit 0")
    wait_for(lambda: "Finished." in live.client.get(job).text)


def test_a_suspected_change_has_the_same_form(live: Measured) -> None:
    text = live.client.get("/changes").text
    assert "Race them now" in text
    assert "every response is verified" in text
    assert 'value="jissoku-0.2.0=jissoku@0.2.0"' in text


def test_a_suspected_change_is_dismissed_with_a_reason_and_opened_again(live: Measured) -> None:
    text = live.client.get("/changes").text
    (path,) = re.findall(r'action="(/changes/\w+/dismiss)"', text)
    (form_key,) = set(re.findall(r'name="form_key" value="([\w-]+)"', text))
    answer = live.client.post(path, [("form_key", form_key), ("reason", "<b>compiler</b>")])
    assert (answer.status, answer.headers["location"]) == (303, "/changes")
    text = live.client.get("/changes").text
    assert "No change is suspected." in text
    assert "&lt;b&gt;compiler&lt;/b&gt;" in text

    assert live.client.post(path, [("form_key", form_key)]).status == 303
    assert "No change is suspected." not in live.client.get("/changes").text


def test_dismissing_needs_a_form_of_the_session_and_a_suspicion(live: Measured) -> None:
    text = live.client.get("/changes").text
    (path,) = re.findall(r'action="(/changes/\w+/dismiss)"', text)
    (form_key,) = set(re.findall(r'name="form_key" value="([\w-]+)"', text))
    assert live.client.post(path, [("form_key", "x" * 43), ("reason", "a")]).status == 403
    fields = [("form_key", form_key), ("reason", "a")]
    assert live.client.post("/changes/000000000000/dismiss", fields).status == 404
    assert live.client.get(path).status == 405
    assert "Dismissed" not in live.client.get("/changes").text
