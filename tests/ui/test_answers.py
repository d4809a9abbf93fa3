"""What two runs leave open is measured by one click; only what forms may start has a button."""

import re
from collections.abc import Iterator
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest

from jissoku.errors import InputError
from jissoku.model.updated import updated
from jissoku.request import ComparisonRequest, from_argv, to_argv
from jissoku.ui.forms import WORD, Choices, form_values, read_form
from tests.ui.measurement import Measured, measured, wait_for
from tests.ui.suspicion import record

# Several waits, each with a limit of its own.
pytestmark = pytest.mark.timeout(200)


EVERYTHING = ComparisonRequest(
    arms=("go", "nginx-1.22=nginx@1.22"),
    path="/delay?ms=10",
    rate=5000,
    keepalive=False,
    quick=False,
    blocks=9,
    method="POST",
    body="a b",
    header=(("A", "b"),),
    time_limit=90.0,
    server_cores="0",
    seed=7,
)


def test_the_form_keeps_what_it_has_no_field_for() -> None:
    """Sent back as it is filled in, it asks for the same."""
    known = Choices(targets=("go", "nginx"), experiments=())
    values = form_values(EVERYTHING)
    assert from_argv(read_form("compare", values, known).arguments) == EVERYTHING
    changed = read_form("compare", values | {"connections": ["8"], "close": []}, known)
    expected = updated(EVERYTHING, connections=8, keepalive=True)
    assert from_argv(changed.arguments) == expected
    button = read_form("compare", {WORD: to_argv(EVERYTHING)}, known)
    assert button.arguments == to_argv(EVERYTHING)


def test_an_empty_form_is_filled_in_with_the_defaults() -> None:
    values = form_values(ComparisonRequest(arms=("go",)))
    assert values == {
        "target": ["go"],
        "path": ["/"],
        "connections": ["64"],
        "mode": ["quick"],
        WORD: ["compare"],
    }


@pytest.mark.parametrize(
    "request_",
    [
        ComparisonRequest(arms=("go",), cmd=("mine=./server --port {port}",)),
        ComparisonRequest(arms=("go",), url=("mine=http://127.0.0.1:1/",)),
        ComparisonRequest(arms=("go",), raw=("request.txt",)),
        ComparisonRequest(arms=("go",), body="@/etc/passwd"),
        ComparisonRequest(arms=("go",), recipes=("recipes",)),
        ComparisonRequest(arms=("go",), build="make"),
        ComparisonRequest(arms=("go",), baseline="v1.2"),
    ],
)
def test_what_touches_the_machine_needs_leave_and_is_shown_first(
    request_: ComparisonRequest,
) -> None:
    fields = {WORD: to_argv(request_)}
    known = Choices(targets=("go",), experiments=())
    with pytest.raises(InputError, match="need `jissoku ui --allow-commands`"):
        read_form("compare", fields, known)
    allowed = replace(known, allows_commands=True)
    assert read_form("compare", fields, allowed).is_own


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["run", "parsers"], "starts no `jissoku run`"),
        (["bisect", "a", "b", "--cmd", "c"], "starts no `jissoku bisect`"),
        (["fly"], "'fly' is not one of"),
        (["compare", "go", "--out", "x"], "No such option"),
        (["compare", "nginx"], "no target that is available here"),
        (["compare"], "select at least one target"),
        (["compare", "go", "--url", "x=http://192.0.2.1/"], "not on this machine"),
        (["compare", "go", "--url", "nameless"], "has no name"),
        (["compare", "go\0"], "NUL"),
        (["compare", "go", "--body", "x" * 30_000], "too long"),
    ],
)
def test_other_words_are_refused(words: list[str], sentence: str) -> None:
    known = Choices(targets=("go",), experiments=(), allows_commands=True)
    with pytest.raises(InputError, match=sentence):
        read_form("compare", {WORD: words}, known)


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
    assert ("word", "jissoku-0.1.0=jissoku@0.1.0") in fields
    assert ("word", "jissoku-0.2.0=jissoku@0.2.0") in fields
    answer = live.client.post("/start/compare", fields)
    assert answer.status == 303, answer.text
    job = answer.headers["location"]
    wait_for(lambda: "Running." in live.client.get(job).text)
    command = " jissoku-0.1.0=jissoku@0.1.0 jissoku-0.2.0=jissoku@0.2.0"
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
