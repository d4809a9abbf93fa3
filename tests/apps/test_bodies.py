"""Request bodies for WSGI: in memory up to a size, and beyond it in a temporary file."""

import hashlib
import http.client
import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.apps.conftest import port_of
from tests.serving.server_process import PATIENCE_S, Served, spawn

SOURCE = """
import hashlib, json, os

def open_files():
    paths = []
    for number in os.listdir("/proc/self/fd"):
        try:
            paths.append(os.readlink(f"/proc/self/fd/{number}"))
        except OSError:
            pass
    return paths

def app(environ, start_response):
    start_response("200 OK", [("Content-Type", "application/json")])
    body = environ["wsgi.input"]
    digest = hashlib.sha256(body.readline(10) + body.read(100_000))
    for line in body:
        digest.update(line)
    directory = os.environ["TMPDIR"]
    files = [path for path in open_files() if path.startswith(directory + "/")]
    return [json.dumps({
        "size": environ["CONTENT_LENGTH"], "digest": digest.hexdigest(), "files": len(files),
        "names": os.listdir(directory),
    }).encode()]
"""

BODY = bytes(range(256)) * 4_000


@pytest.fixture(params=["inline", "threads"])
def served(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Served]:
    (tmp_path / "there.py").write_text(SOURCE)
    (tmp_path / "temporary").mkdir()
    threads = ["--threads", "2"] if request.param == "threads" else []
    arguments = ["--app-dir", str(tmp_path), "--listen", "127.0.0.1:0", *threads]
    arguments += ["--body-memory-max", "64KiB", "--body-size-max", "2MiB"]
    served = spawn("there:app", *arguments, TMPDIR=str(tmp_path / "temporary"))
    try:
        yield served
    finally:
        served.end()


def post(port: int, body: bytes | Iterator[bytes]) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    try:
        connection.request("POST", "/", body)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def test_a_large_body_is_in_a_file_without_a_name_until_its_request_ends(served: Served) -> None:
    port = port_of(served)
    for body, files in [(BODY, 1), (BODY[:65_536], 0), (BODY[:65_537], 1), (b"x", 0)]:
        expected = {
            "size": str(len(body)),
            "digest": hashlib.sha256(body).hexdigest(),
            "files": files,
            "names": [],
        }
        status, answer = post(port, body)
        assert (status, json.loads(answer)) == (200, expected)


def test_a_large_chunked_body_is_in_a_file(served: Served) -> None:
    status, answer = post(port_of(served), iter([BODY[:70_000], BODY[70_000:]]))
    assert status == 200
    seen = json.loads(answer)
    assert (seen["size"], seen["files"]) == (str(len(BODY)), 1)
    assert seen["digest"] == hashlib.sha256(BODY).hexdigest()


def test_the_file_of_a_client_that_leaves_is_removed(served: Served) -> None:
    port = port_of(served)
    head = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n"
    with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as left:
        left.sendall(head + BODY[:500_000])
    while json.loads(post(port, b"x")[1])["files"]:
        pass


def test_a_body_that_cannot_be_written_is_answered(served: Served, tmp_path: Path) -> None:
    port = port_of(served)
    assert post(port, BODY)[0] == 200
    (tmp_path / "temporary").rmdir()
    assert post(port, BODY)[0] == 500
    (tmp_path / "temporary").mkdir()
    assert post(port, BODY)[0] == 200
