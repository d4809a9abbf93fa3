"""WSGI as an application and its clients see it."""

import http.client
import json
import re
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from tests.apps.app_cases import check, read_cases
from tests.apps.conftest import APPS, port_of, serve
from tests.serving.server_process import PATIENCE_S

CASES = read_cases("wsgi.toml")


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_every_case_holds(case: dict[str, Any], cases_port: int) -> None:
    check(case, cases_port)


def ask(port: int, target: str, case: str, body: bytes | None = None) -> bytes:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    try:
        connection.request("POST" if body else "GET", target, body, {"Case": case})
        return connection.getresponse().read()
    except http.client.IncompleteRead as error:
        return error.partial
    finally:
        connection.close()


def test_close_is_always_called(cases_port: int) -> None:
    assert ask(cases_port, "/?whole", "closing") == b"onetwo"
    assert ask(cases_port, "/?failing=fails", "closing") == b"begun"
    assert ask(cases_port, "/", "closed_names") == b"whole failing"


def test_close_is_called_when_the_client_leaves(cases_port: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        connection = http.client.HTTPConnection("127.0.0.1", cases_port, timeout=PATIENCE_S)
        connection.request("GET", "/?left", headers={"Case": "closing"})
        connection.close()
        if b"left" in ask(cases_port, "/", "closed_names"):
            return
        time.sleep(0.01)
    raise AssertionError


def test_a_file_is_sent_from_its_position(cases_port: int) -> None:
    source = (APPS / "wsgi_cases.py").read_bytes()
    assert ask(cases_port, "/", "this_file") == source[3:]


def test_a_large_body_arrives(cases_port: int) -> None:
    body = bytes(range(256)) * 4000
    assert ask(cases_port, "/", "echo", body) == body


def test_no_variables_of_the_process_are_in_an_environ(cases_port: int) -> None:
    seen = json.loads(ask(cases_port, "/", "environ"))
    assert "PATH_INFO" in seen
    assert "PATH" not in seen


VALIDATED = """
from wsgiref.validate import validator
import sys

def plain(environ, start_response):
    fields = [("Content-Type", "text/plain")]
    path = environ["PATH_INFO"]
    write = start_response("200 OK", fields)
    stream = environ["wsgi.input"]
    if path == "/write":
        write(b"one ")
        return [b"two"]
    if path == "/input":
        body = [stream.read(1), stream.readline(), *stream.readlines(1), *stream, stream.read(9)]
        return [b"|".join(body)]
    if path == "/parts":
        return (part for part in (b"one ", b"", b"two"))
    if path == "/again":
        try:
            raise ValueError
        except ValueError:
            start_response("500 Oops", fields, sys.exc_info())
    print("log", file=environ["wsgi.errors"], flush=True)
    return [b"body"]

app = validator(plain)
"""

VALID = {
    ("GET", "/"): (200, b"body"),
    ("HEAD", "/"): (200, b""),
    ("HEAD", "/parts"): (200, b""),
    ("GET", "/write"): (200, b"one two"),
    ("GET", "/parts"): (200, b"one two"),
    ("GET", "/again"): (500, b"body"),
    ("GET", "/input"): (200, b"||"),
    ("POST", "/input"): (200, b"a|b\n|c\n|d|"),
    ("PUT", "/%C3%A9?x=%20"): (200, b"body"),
}


@pytest.mark.parametrize("threads", ["0", "2"])
def test_the_validator_of_wsgiref_finds_nothing(threads: str, tmp_path: Path) -> None:
    (tmp_path / "there.py").write_text(VALIDATED)
    served = serve("there:app", "--threads", threads, "--quiet", directory=tmp_path)
    try:
        port = port_of(served)
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
        # Twice, because what a request has left may be used again.
        for (method, target), expected in [*VALID.items()] * 2:
            body = b"ab\nc\nd" if method == "POST" else None
            connection.request(method, target, body)
            response = connection.getresponse()
            assert (response.status, response.read()) == expected, (method, target)
        connection.close()
        served.process.terminate()
        assert served.process.wait(PATIENCE_S) == 0
    finally:
        served.end()
    said = [*served.seen[1:], *served.lines.queue]
    assert set(said) == {"log"}, said


def test_the_application_of_a_factory_is_served(tmp_path: Path) -> None:
    (tmp_path / "made.py").write_text(
        "from wsgiref.validate import validator\n"
        "def hello(environ, start_response):\n"
        "    start_response('200 OK', [('Content-Type', 'text/plain')])\n"
        "    return [environ['wsgi.input'].read(9) or b'none']\n"
        "def make():\n"
        "    return validator(hello)\n"
    )
    served = serve("made:make", "--factory", directory=tmp_path)
    try:
        port = port_of(served)
        assert ask(port, "/", "none") == b"none"
        assert ask(port, "/", "none", b"some") == b"some"
        assert ask(port, "/x%20y?z=1", "none") == b"none"
    finally:
        served.end()


REFUSALS = [
    ("nowhere:app", "", 2, "there is no module named nowhere"),
    ("there:nothing", "", 2, "the module there has no attribute nothing"),
    ("there:app", "app = 5", 2, "there:app is not callable"),
    ("there:app", "def app(:", 1, "cannot import there: SyntaxError"),
    ("there:app", "import nowhere.at.all", 1, "cannot import there: ModuleNotFoundError"),
    ("there:app", "1 / 0", 1, "cannot import there: ZeroDivisionError"),
    ("there:app", "import sys; sys.exit(0)", 1, "cannot import there: SystemExit"),
]


@pytest.mark.parametrize(("app", "source", "code", "sentence"), REFUSALS)
def test_an_application_that_cannot_be_had_is_one_sentence(
    app: str, source: str, code: int, sentence: str, tmp_path: Path
) -> None:
    (tmp_path / "there.py").write_text(source)
    served = serve(app, directory=tmp_path)
    try:
        line = served.wait_for(r"^jissoku serve: ").string
        assert re.search(re.escape(sentence), line)
        assert served.process.wait(PATIENCE_S) == code
        has_traceback = any("Traceback" in line for line in served.seen)
        assert has_traceback == (code == 1)
    finally:
        served.end()


PARTS = """
import pathlib, time

def app(environ, start_response):
    start_response("200 OK", [("Connection", "close")])
    return parts(pathlib.Path(environ["QUERY_STRING"]))

def parts(folder):
    for name in ("one", "two"):
        yield name.encode()
        until = time.monotonic() + 25
        while not (folder / name).exists() and time.monotonic() < until:
            time.sleep(0.01)
    yield b"end" if (folder / "two").exists() else b"late"
"""


@pytest.mark.parametrize("threads", ["0", "2"])
def test_a_part_is_sent_before_the_next_is_made(threads: str, tmp_path: Path) -> None:
    (tmp_path / "there.py").write_text(PARTS)
    served = serve("there:app", "--threads", threads, "--quiet", directory=tmp_path)
    try:
        with socket.create_connection(("127.0.0.1", port_of(served)), timeout=25) as connection:
            connection.sendall(f"GET /?{tmp_path} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
            stream = connection.makefile("rb")
            while stream.readline() != b"\r\n":
                pass
            for name in ("one", "two"):
                assert stream.read(8) == f"3\r\n{name}\r\n".encode()
                (tmp_path / name).touch()
            assert stream.read() == b"3\r\nend\r\n0\r\n\r\n"
    finally:
        served.end()


HINTED = """
import pathlib, time

def app(environ, start_response):
    environ["wsgi.early_hints"]([("Link", "</a>")])
    yield b""
    file = pathlib.Path(environ["QUERY_STRING"])
    until = time.monotonic() + 25
    while not file.exists() and time.monotonic() < until:
        time.sleep(0.01)
    start_response("200 OK", [("Connection", "close")])
    yield b"seen" if file.exists() else b"not seen"
"""


def test_hints_are_sent_while_the_application_works(tmp_path: Path) -> None:
    (tmp_path / "hinted.py").write_text(HINTED)
    seen = tmp_path / "seen"
    served = serve("hinted:app", directory=tmp_path)
    try:
        with socket.create_connection(("127.0.0.1", port_of(served)), timeout=25) as connection:
            connection.sendall(f"GET /?{seen} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
            stream = connection.makefile("rb")
            assert stream.readline() == b"HTTP/1.1 103 Early Hints\r\n"
            seen.touch()
            assert stream.read().endswith(b"\r\n4\r\nseen\r\n0\r\n\r\n")
    finally:
        served.end()
