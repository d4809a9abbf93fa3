"""Ids of requests: made or taken from a trusted proxy, passed on, sent back and logged."""

import json
import re
import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path

import pytest

from tests.serving.server_process import COMMAND, PATIENCE_S, Served, spawn

WSGI = """
def app(environ, start_response):
    own = [("x-request-id", "own")] if environ["PATH_INFO"] == "/own" else []
    start_response("200 OK", own)
    if environ["PATH_INFO"] == "/error":
        raise ValueError("for a 500")
    seen = environ.get("HTTP_X_REQUEST_ID", "none").encode()
    return iter([seen[:1], seen[1:]]) if environ["PATH_INFO"] == "/parts" else [seen]
"""

ASGI = """
async def app(scope, receive, send):
    if scope["type"] != "http":
        raise NotImplementedError
    if scope["path"] == "/error":
        raise ValueError("for a 500")
    given = [value for name, value in scope["headers"] if name == b"x-request-id"]
    seen = b",".join(given) or b"none"
    headers = [(b"X-Request-ID", b"own")] if scope["path"] == "/own" else []
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    if scope["path"] == "/parts":
        await send({"type": "http.response.body", "body": seen[:1], "more_body": True})
        seen = seen[1:]
    await send({"type": "http.response.body", "body": seen})
"""

ID = re.compile("[0-9a-f]{32}")


def start(*arguments: str) -> tuple[Served, int]:
    served = spawn(*arguments, "--listen", "127.0.0.1:0")
    return served, int(served.wait_for(r"^listening on http://127\.0\.0\.1:([0-9]+)/$")[1])


def ask(port: int, path: str = "/", *lines: str) -> tuple[int, list[str], str]:
    """The status, the ids and the body of a response; header lines are sent as they are."""
    request = "\r\n".join([f"GET {path} HTTP/1.1", "Host: a", *lines, "Connection: close", "", ""])
    with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as client:
        client.sendall(request.encode("latin-1"))
        received = b"".join(iter(lambda: client.recv(65536), b"")).decode("latin-1")
    head, _, body = received.partition("\r\n\r\n")
    if "chunked" in head:
        body = "".join(re.findall(r"[0-9a-f]+\r\n(.+)\r\n", body))
    return int(head.split()[1]), re.findall(r"(?i)\r\nx-request-id: ([^\r]*)", head), body


@pytest.fixture(scope="module", params=["wsgi", "threads", "asgi", "gateway"])
def port(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """An application with ids; or one without behind a gateway with ids."""
    folder = tmp_path_factory.mktemp("ids")
    (folder / "there.py").write_text(ASGI if request.param == "asgi" else WSGI)
    app = ["there:app", "--app-dir", str(folder)]
    options = ["--request-id", "--trusted-proxies", "127.0.0.1"]
    started = []
    match request.param:
        case "gateway":
            started.append(start(*app))
            started.append(start("--to", f"http://127.0.0.1:{started[0][1]}", *options))
        case "threads":
            started.append(start(*app, "--threads", "2", *options))
        case _:
            started.append(start(*app, *options))
    try:
        yield started[-1][1]
    finally:
        for served, _ in reversed(started):
            served.end()


@pytest.mark.parametrize("path", ["/", "/parts"])
def test_an_application_gets_the_id_that_its_client_gets(port: int, path: str) -> None:
    ids = set()
    for _ in range(3):
        status, [sent], seen = ask(port, path)
        assert (status, sent) == (200, seen)
        assert ID.fullmatch(seen)
        ids.add(seen)
    assert len(ids) == 3


def test_an_error_has_an_id_and_a_field_of_the_application_stays(port: int) -> None:
    status, [sent], _ = ask(port, "/error")
    assert status == 500
    assert ID.fullmatch(sent)
    assert ask(port, "/own")[1] == ["own"]


def test_a_trusted_proxy_may_give_the_id(port: int) -> None:
    for given in ("a", "f058ebd6-02f7-4d3f-942e-904344e8cde5", "x" * 128, "Root=1-5:/+@~_."):
        assert ask(port, "/", f"x-request-ID: {given}") == (200, [given], given)


HOSTILE = [
    ["X-Request-Id: a", "X-Request-Id: b"],
    ["X-Request-Id: a,b"],
    ["X-Request-Id: a b"],
    ["X-Request-Id: a\x01b"],
    ["X-Request-Id: a%0d%0aSet-Cookie:x"],
    ['X-Request-Id: a"b'],
    ["X-Request-Id: a\\b"],
    ["X-Request-Id: \xe9"],
    ["X-Request-Id: <script>"],
    ["X-Request-Id: {request_id}"],
    ["X-Request-Id:"],
    ["X-Request-Id: " + "x" * 129],
    ["X-Request-Id: " + "x" * 7000],
]


@pytest.mark.parametrize("lines", HOSTILE)
def test_an_id_that_could_mean_something_is_replaced(port: int, lines: list[str]) -> None:
    status, sent, seen = ask(port, "/", *lines)
    if status == 400:
        assert sent == []
        assert "\x01" in lines[0]
    else:
        assert (status, sent) == (200, [seen])
        assert ID.fullmatch(seen)


def test_rules_for_fields_have_the_id(tmp_path: Path) -> None:
    (tmp_path / "there.py").write_text(WSGI.replace("X_REQUEST_ID", "X_TRACE"))
    served, app = start("there:app", "--app-dir", str(tmp_path))
    rules = ["--request-field", "X-Trace: <{request_id}>"]
    rules += ["--response-field", "X-Request-Id: <{request_id}>"]
    to = ["--to", f"http://127.0.0.1:{app}", *rules]
    gateway, port = start(*to, "--request-id", "--trusted-proxies", "127.0.0.1")
    without, bare_port = start(*to)
    try:
        for lines in [*HOSTILE, ["X-Request-Id: a-1"], []]:
            status, sent, seen = ask(port, "/", *lines)
            if status == 400:
                assert "\x01" in lines[0]
                continue
            assert (status, sent) == (200, [seen])
            assert seen == "<a-1>" if "X-Request-Id: a-1" in lines else ID.fullmatch(seen[1:-1])
        with closing(HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)) as client:
            client.request("POST", "/", iter([b"in", b"chunks"]), {"X-Request-Id": "a-2"})
            response = client.getresponse()
            assert response.getheader("X-Request-Id") == "<a-2>"
            assert response.read() == b"<a-2>"
        # Text around a variable without a value is sent as it is.
        assert ask(bare_port, "/", "X-Request-Id: a") == (200, ["<>"], "<>")
    finally:
        for one in (without, gateway, served):
            one.end()


def test_a_client_cannot_have_the_id_dropped(port: int) -> None:
    status, [sent], seen = ask(port, "/", "Connection: x-request-id")
    assert (status, sent) == (200, seen)


@pytest.mark.parametrize("log_format", ["json", "extended"])
def test_the_id_of_an_untrusted_client_is_replaced_and_logged(
    tmp_path: Path, log_format: str
) -> None:
    log = tmp_path / "access.log"
    (tmp_path / "index.html").write_text("home")
    options = ["--access-log", str(log), "--log-format", log_format]
    served, port = start(str(tmp_path), "--request-id=X-Trace-Id", *options)
    try:
        status, ids, _ = ask(port, "/", "X-Trace-Id: mine", "Referer: http://b/", "X-Request-Id: a")
        assert (status, ids) == (200, [])
        ask(port, "/nothing")
        served.process.terminate()
        assert served.process.wait(PATIENCE_S) == 0
    finally:
        served.end()
    lines = log.read_text().splitlines()
    assert len(lines) == 2
    for line in lines:
        found = (
            json.loads(line)["request_id"]
            if log_format == "json"
            else line.split(" request_id=")[1]
        )
        assert ID.fullmatch(found.split(" ")[0])
    if log_format == "json":
        # Lines of several workers are not sorted.
        assert "http://b/" in {json.loads(line).get("referer") for line in lines}


def test_it_is_off_unless_asked_for(tmp_path: Path) -> None:
    (tmp_path / "there.py").write_text(WSGI)
    served, port = start("there:app", "--app-dir", str(tmp_path))
    try:
        assert ask(port) == (200, [], "none")
        assert ask(port, "/", "X-Request-Id: given") == (200, [], "given")
    finally:
        served.end()


def test_it_is_a_key_of_the_configuration(tmp_path: Path) -> None:
    config = tmp_path / "serve.toml"
    for value, is_on in (("true", True), ("false", False), ('"X-Request-Id"', True)):
        config.write_text(f'fixed = "x"\nrequest-id = {value}\n')
        served, port = start("--config", str(config))
        try:
            assert len(ask(port)[1]) == is_on
        finally:
            served.end()
    config.write_text('fixed = "x"\nrequest-id = "Host"\n')
    ended = subprocess.run(
        [*COMMAND, "--config", str(config)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert ended.returncode == 2
    assert "serve.toml, line 2: invalid value 'Host' for '--request-id" in ended.stderr
