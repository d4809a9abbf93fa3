"""Handlers in Rust, with the crate jissoku-handler."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from html import escape
from pathlib import Path
from urllib.parse import quote, unquote

import pytest

from tests.c_handlers.conftest import port_of, served, write
from tests.serving.server_process import Served, ask, connect, spawn

ROOT = Path(__file__).parents[2]
LARGE = 4 << 20

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the examples; without a lock that other builds wait for."""
    if shutil.which("cargo") is None:
        pytest.skip("there is no cargo")
    target = tmp_path_factory.mktemp("target")
    package = ["--package", "jissoku-handler", "--examples"]
    command = ["cargo", "build", "--quiet", "--locked", *package, "--target-dir", str(target)]
    subprocess.run(command, cwd=ROOT, check=True)
    return target / "debug" / "examples"


@pytest.fixture(scope="module")
def cases(built: Path) -> Iterator[tuple[Served, int]]:
    with served(built / "libcases.so") as found:
        yield found


def test_a_function_is_a_handler(built: Path) -> None:
    with served(built / "libhello.so", "--workers", "2") as (_, port):
        assert ask(port, "/?name=R%C3%BCst") == (200, "Hello, R\u00fcst!".encode())
        assert ask(port) == (200, b"Hello, !")


def test_a_request_is_read(cases: tuple[Served, int]) -> None:
    connection = connect(cases[1])
    form = {"Content-Type": "application/x-www-form-urlencoded", "X": "1"}
    connection.request("POST", "/a/../request?q=a+b&r=%ff", "f=1%202", form)
    shown = connection.getresponse().read().decode().split("\n")
    connection.close()
    host = f"127.0.0.1:{cases[1]}"
    assert shown[:7] == ["POST", "/request", "127.0.0.1", "http", "HTTP/1.1", "1 2", host]
    assert shown[7] == '[("q", "a b"), ("r", "\ufffd")]'
    assert {f"Host={host}", "X=1"} <= set(shown[8:])


def test_the_state_of_a_worker_is_kept(cases: tuple[Served, int]) -> None:
    first, second = (int(ask(cases[1], "/count")[1]) for _ in range(2))
    assert second == first + 1


def test_bodies_are_sent_whole(cases: tuple[Served, int]) -> None:
    for _ in range(3):
        assert ask(cases[1], "/large") == (200, b"x" * LARGE)
    connection = connect(cases[1])
    connection.request("POST", "/echo", b"\0\xff" * 50_000)
    response = connection.getresponse()
    assert (response.headers["X-Echo"], response.read()) == ("yes", b"\0\xff" * 50_000)
    connection.request("GET", "/static", headers={"If-None-Match": '"v1"'})
    response = connection.getresponse()
    assert (response.status, response.read()) == (304, b"")
    connection.request("GET", "/redirect")
    response = connection.getresponse()
    assert (response.status, response.headers["Location"], response.read()) == (303, "/count", b"")
    connection.close()
    assert ask(cases[1], "/nowhere")[0] == 404


def test_a_chart_is_drawn(cases: tuple[Served, int]) -> None:
    status, drawing = ask(cases[1], "/chart?title=%3Cvalues%3E")
    assert (status, drawing[:4]) == (200, b"<svg")
    assert b"&lt;values&gt;" in drawing
    assert ask(cases[1], "/chart?title=a%00b")[0] == 500


def test_texts_are_escaped(cases: tuple[Served, int]) -> None:
    text = '<a href="\u00e9">\'&\n'
    connection = connect(cases[1])
    connection.request("GET", f"/escape?t={quote(text)}")
    response = connection.getresponse()
    assert response.headers["X-Date"] == "Sun, 06 Nov 1994 08:49:37 GMT"
    head, _, rest = response.read().decode().partition('\n"')
    connection.close()
    assert head == escape(text).replace("&#x27;", "&#39;")
    written, url, digest = rest.split("\n")
    assert (json.loads(f'"{written}'), unquote(url), digest) == (text, text, "227 true")


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/panic", "as it is asked to"),
        ("/error", "handler: cannot parse integer from empty string"),
        ("/split?x=a%0D%0AB:c", r'cannot have the field "X-Name": "a\\r\\nB:c"$'),
    ],
)
def test_a_failure_is_500_and_is_printed(
    cases: tuple[Served, int], path: str, message: str
) -> None:
    server, port = cases
    connection = connect(port)
    connection.request("GET", path)
    response = connection.getresponse()
    assert (response.status, response.read()) == (500, b"Internal Server Error\n")
    # The worker is the same, and so is the connection.
    connection.auto_open = 0
    connection.request("GET", "/error?n=21")
    assert connection.getresponse().read() == b"42"
    connection.close()
    server.wait_for(message)
    server.wait_for(r"libcases\.so: jsk_handle has returned \d+: GET ")


def test_files_and_parts_are_sent(cases: tuple[Served, int], tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"0123456789")
    assert ask(cases[1], f"/file?name={file}") == (200, b"23456")
    assert ask(cases[1], f"/file-of-thread?name={file}") == (201, b"0123456789")
    assert ask(cases[1], f"/file?name={file}-absent")[0] == 500
    lines = "".join(f"part {number}\n" for number in range(5))
    assert ask(cases[1], "/parts") == (200, lines.encode())
    connection = connect(cases[1])
    connection.request("GET", "/stream")
    response = connection.getresponse()
    assert (response.status, response.headers["X-Field"]) == (201, "of the thread")
    assert response.read() == b"".join(b"%01000d" % number for number in range(1000))
    connection.close()


def test_a_store_is_used(built: Path, tmp_path: Path) -> None:
    text = f"""
    [store.counts]
    size = "4MiB"
    [[route]]
    path = "/**"
    handler = "{built}/libcases.so"
    """
    configuration = write(tmp_path, text, "serve.toml")
    server = spawn("--config", str(configuration), "--listen", "127.0.0.1:0")
    try:
        port = port_of(server)
        for total in (2, 4):
            status, body = ask(port, "/store")
            found, _, failure = body.decode().partition(' ["a", "b"] ')
            many = "(None, Some([52]))"
            assert status == 200
            assert found == f"({total}, Some(5000), false, true, true, true, {many})"
            assert failure.startswith('Err("')
    finally:
        server.end()


def test_bodies_are_taken_by_parts(built: Path) -> None:
    with served(built / "libuploads.so", "--body-size-max", "32MiB") as (server, port):
        connection = connect(port)
        for size in (0, 1, 20_000_000):
            body = (bytes(range(251)) * (size // 251 + 1))[:size]
            connection.request("PUT", "/", body)
            assert connection.getresponse().read() == f"{size} {sum(body)} 0".encode()
        connection.request("POST", "/small", b"x" * 100_000)
        response = connection.getresponse()
        assert (response.status, response.read()) == (413, b"too much")
        for path, message in [
            ("/panic", "as it is asked to$"),
            ("/error", "^handler: as it is asked to$"),
        ]:
            connection.auto_open = 0
            connection.request("POST", path, b"x" * 100_000)
            response = connection.getresponse()
            assert (response.status, response.read()) == (500, b"Internal Server Error\n")
            server.wait_for(message)
            server.wait_for(rf"libuploads\.so: jsk_body has returned \d+: POST {path}$")
        connection.close()


def test_a_response_is_given_later(cases: tuple[Served, int]) -> None:
    assert ask(cases[1], "/after") == (200, b"later: /after")
    connection = connect(cases[1])
    connection.request("GET", "/thread?name=Rust")
    response = connection.getresponse()
    assert (response.status, response.headers["X-Field"]) == (201, "early")
    assert response.read() == b"Hello from a thread, Rust!"
    connection.request("GET", "/owned")
    response = connection.getresponse()
    assert (response.status, response.headers["X-Field"]) == (201, "of the thread")
    assert response.read() == b"x" * LARGE
    connection.close()
    assert ask(cases[1], "/dropped") == (500, b"Internal Server Error\n")
