"""One request to several servers of an upstream, and one response from theirs."""

import base64
import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.serving.origin import Origin, held_until
from tests.serving.server_process import Start, connect
from tests.serving.test_routes import serve

Body = bytes | Iterator[bytes]


def describe(request: http.server.BaseHTTPRequestHandler) -> tuple[int, str]:
    """Answers with what the request says."""
    names = ("Host", "X-Tag", "Range", "If-None-Match", "Content-Type", "X-Forwarded-For")
    fields = " ".join(str(request.headers[name]) for name in names)
    return 200, f"{request.command} {request.path} {fields} {getattr(request, 'body', b'')!r}"


@pytest.fixture
def origins() -> Iterator[list[Origin]]:
    """Three servers."""
    with ExitStack() as stack:
        yield [stack.enter_context(Origin(name, describe)) for name in "abc"]


def configuration(origins: list[Origin], more: str = "", upstream: str = "") -> str:
    """A route to all of these servers."""
    servers = ", ".join(f'"{origin.address}"' for origin in origins)
    deadline = "" if "deadline" in more else "deadline = '60s'"
    return (
        f"[upstream.app]\nservers = [{servers}]\n{upstream}\n"
        f"[[route]]\npath = '/**'\nbroadcast = 'app'\n{more}\n{deadline}\n"
    )


def send(
    port: int, method: str = "POST", body: Body = b"purge", **fields: str
) -> tuple[int, dict[str, Any]]:
    """Status and content of a response."""
    connection = connect(port)
    headers = {name.replace("_", "-"): value for name, value in fields.items()}
    connection.request(method, "/a%20b?c=d", body, {"Host": "h", **headers})
    response = connection.getresponse()
    text = response.read()
    connection.close()
    if response.getheader("Content-Type") == "application/json":
        return response.status, json.loads(text)
    return response.status, {"text": text.decode()}


def bodies(content: dict[str, Any]) -> dict[str, str]:
    """What each server received. Their responses have no media type."""
    return {part["id"]: base64.b64decode(part["body_base64"]).decode() for part in content["parts"]}


@pytest.mark.parametrize(
    ("method", "body"),
    [("POST", b"purge"), ("DELETE", b""), ("PUT", iter([b"pur", b"ge"]))],
)
def test_every_server_gets_the_request(
    tmp_path: Path, start: Start, origins: list[Origin], method: str, body: Body
) -> None:
    port = serve(start, tmp_path, configuration(origins))
    fields = {"X_Tag": "t", "Range": "bytes=0-1", "If_None_Match": '"e"', "Content_Type": "a/b"}
    status, content = send(port, method, body, **fields)
    assert (status, content["complete"]) == (200, True)
    received = b"" if method == "DELETE" else b"purge"
    text = f"{method} /a%20b?c=d h t None None a/b 127.0.0.1 {received!r}"
    assert bodies(content) == {origin.address: text for origin in origins}


def test_as_many_servers_as_the_route_says(
    tmp_path: Path, start: Start, origins: list[Origin]
) -> None:
    port = serve(start, tmp_path, configuration(origins, "servers = 2"))
    counts = {len(send(port)[1]["parts"]) for _ in range(5)}
    assert counts == {2}
    assert sum(len(origin.requests) for origin in origins) == 10


def test_busy_servers_are_spared_if_there_are_others(
    tmp_path: Path, start: Start, origins: list[Origin]
) -> None:
    is_free = threading.Event()
    port = serve(start, tmp_path, configuration(origins, "servers = 1"))
    for origin in origins:
        origin.answer = held_until(is_free)
    threads = [threading.Thread(target=send, args=[port]) for _ in origins]
    for count, thread in enumerate(threads, 1):
        thread.start()
        while sum(len(origin.requests) for origin in origins) < count:
            thread.join(0.001)
    assert [len(origin.requests) for origin in origins] == [1, 1, 1]
    is_free.set()
    for thread in threads:
        thread.join()


@pytest.mark.parametrize(
    ("more", "status"),
    [("", 200), ("quorum = 2", 200), ("quorum = 3", 502), ("partial = 'refuse'", 502)],
)
def test_a_server_that_is_gone_is_missing(
    tmp_path: Path, start: Start, origins: list[Origin], more: str, status: int
) -> None:
    origins[1].kill()
    port = serve(start, tmp_path, configuration(origins, more, "failures = 1"))
    # Also when its failures have ejected it.
    for _ in range(3):
        found, content = send(port)
        assert (found, content["complete"]) == (status, False)
        results = [part.get("error", part.get("status")) for part in content["parts"]]
        assert results == [200, "connection_refused", 200]


def test_a_request_that_may_have_had_an_effect_is_not_repeated(
    tmp_path: Path, start: Start, origins: list[Origin]
) -> None:
    def break_off(request: object) -> tuple[int, str]:
        raise ConnectionError(request)

    origins[0].answer = break_off
    port = serve(start, tmp_path, configuration(origins))
    _, content = send(port)
    assert content["parts"][0]["error"] == "connection_terminated"
    assert [len(origin.requests) for origin in origins] == [1, 1, 1]


def test_what_is_late_is_missing_at_the_deadline(
    tmp_path: Path, start: Start, origins: list[Origin]
) -> None:
    is_free = threading.Event()
    origins[2].answer = held_until(is_free)
    port = serve(start, tmp_path, configuration(origins, "deadline = '300ms'"))
    status, content = send(port)
    is_free.set()
    assert status == 200
    assert content["parts"][2]["error"] == "http_response_timeout"


@pytest.mark.parametrize(
    ("more", "error"),
    [("part-size-max = '100B'", "http_response_body_size"), ("answer-size-max = '1KiB'", None)],
)
def test_responses_are_bounded(
    tmp_path: Path, start: Start, origins: list[Origin], more: str, error: str | None
) -> None:
    origins[0].answer = lambda _: (200, "x" * 101)
    port = serve(start, tmp_path, configuration(origins, more))
    assert send(port)[1]["parts"][0].get("error") == error


def test_a_body_that_is_too_large_is_refused(
    tmp_path: Path, start: Start, origins: list[Origin]
) -> None:
    port = serve(start, tmp_path, configuration(origins))
    assert send(port, body=b"x" * 65536)[0] == 200
    assert send(port, body=b"x" * 65537) == (413, {"text": "Content Too Large\n"})
    assert [len(origin.requests) for origin in origins] == [1, 1, 1]
