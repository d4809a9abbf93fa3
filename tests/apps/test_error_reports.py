"""What stderr says about errors of an application."""

import http.client
import re
from pathlib import Path

import pytest

from tests.apps.conftest import port_of, serve
from tests.serving.server_process import LAB_COMMAND, PATIENCE_S, spawn

WSGI = """
def app(environ, start_response):
    parts = environ["QUERY_STRING"].split(",")
    if parts == ["fails"]:
        raise ValueError("no such shop")
    start_response("200 OK", [("Content-Length", "10")])
    body = [part.encode() for part in parts]
    return iter(body) if environ["PATH_INFO"] == "/iterator" else body
"""

ASGI = """
async def app(scope, receive, send):
    assert scope["type"] == "http"
    parts = scope["query_string"].split(b",")
    if parts == [b"fails"]:
        raise ValueError("no such shop")
    headers = [(b"content-length", b"10")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    for part in parts:
        await send({"type": "http.response.body", "body": part, "more_body": True})
    if scope["path"] == "/ended":
        await send({"type": "http.response.body", "body": b""})
"""

LIFESPAN = """
import traceback

async def app(scope, receive, send):
    await receive()
    try:
        raise ValueError("no database")
    except ValueError:
        await send({"type": "lifespan.startup.failed", "message": traceback.format_exc()})
        raise
"""


def ask(port: int, target: str) -> bytes:
    """The body, as much of it as there is."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    try:
        connection.request("GET", target)
        return connection.getresponse().read()
    except http.client.IncompleteRead as error:
        return error.partial
    finally:
        connection.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "options", "paths"),
    [
        (WSGI, (), ("/list", "/iterator")),
        (WSGI, ("--threads", "2"), ("/list", "/iterator")),
        (ASGI, (), ("/ended", "/left")),
    ],
    ids=["wsgi", "threads", "asgi"],
)
def test_an_error_is_reported_with_its_request(
    source: str, options: tuple[str, ...], paths: tuple[str, str], tmp_path: Path
) -> None:
    (tmp_path / "there.py").write_text(source)
    served = serve("there:app", "--request-id", *options, directory=tmp_path)
    long = "/a%20b/" + 200 * "x"
    try:
        port = port_of(served)
        for path, query, sentence in [
            (paths[0], "abc", "the application has sent 3 of 10 bytes of its body"),
            (paths[1], "ab,cd", "the application has sent 4 of 10 bytes of its body"),
            (paths[0], "abcdefgh,ijkl", "the application has sent 12 bytes of a body of 10: "),
            ("/shop", "fails", "ValueError: no such shop"),
            (long, "fails", "ValueError: no such shop"),
        ]:
            body = ask(port, f"{path}?{query}")
            assert query == "fails" or "abcdefghij".startswith(body.decode())
            name = path if path != long else f"{long[:122]}..."
            where = re.escape(f"jissoku serve: error in the application: GET {name} ")
            served.wait_for(rf"^{where}\(X-Request-Id: [0-9a-f]{{32}}\), .* GMT$")
            served.wait_for(re.escape(sentence))
    finally:
        served.end()
    assert sum("error in the application" in line for line in served.seen) == 5


def test_a_traceback_that_is_the_reason_of_a_failed_startup_is_shown_once(tmp_path: Path) -> None:
    (tmp_path / "there.py").write_text(LIFESPAN)
    served = serve("there:app", "--workers", "1", directory=tmp_path)
    try:
        assert served.process.wait(PATIENCE_S) == 1
    finally:
        served.end()
    lines = [*served.seen, *served.lines.queue]
    assert sum("ValueError: no database" in line for line in lines) == 1, lines


def test_an_error_names_the_verb_as_it_was_typed(tmp_path: Path) -> None:
    (tmp_path / "there.py").write_text(WSGI)
    place = ("--app-dir", str(tmp_path), "--listen", "127.0.0.1:0")
    served = spawn("there:app", *place, command=LAB_COMMAND)
    try:
        ask(port_of(served), "/?fails")
        served.wait_for("^jissoku lab serve: error in the application: GET /, ")
    finally:
        served.end()
