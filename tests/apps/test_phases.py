"""The log and the metrics say where the time of a request went. Sleeps give lower bounds."""

import json
import re
import signal
import socket
import threading
import time
from pathlib import Path

import pytest

from tests.apps.conftest import port_of, serve
from tests.serving.server_process import PATIENCE_S, ask, spawn

SLEEP_S = 0.2

# More than the kernel and the server buffer for a client that does not read.
BODY_SIZE = 32 << 20

WSGI = f"""
import time
def app(environ, start_response):
    start_response("200 OK", [])
    if "large" in environ["PATH_INFO"]:
        return (b"x" * 65536 for _ in range({BODY_SIZE} // 65536))
    time.sleep({SLEEP_S})
    return [b"ok"]
"""

ASGI = f"""
import asyncio
async def app(scope, receive, send):
    if scope["type"] != "http":
        raise NotImplementedError
    await send({{"type": "http.response.start", "status": 200, "headers": []}})
    if "large" in scope["path"]:
        for _ in range({BODY_SIZE} // 65536):
            await send({{"type": "http.response.body", "body": b"x" * 65536, "more_body": True}})
    else:
        await asyncio.sleep({SLEEP_S})
    await send({{"type": "http.response.body", "body": b""}})
"""

KINDS = {
    "inline": (WSGI, []),
    "threads": (WSGI, ["--threads", "1"]),
    "asgi": (ASGI, []),
}


def read_slowly(port: int) -> None:
    """Asks for the large response, and reads it to its end after a pause."""
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(b"GET /large HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        time.sleep(SLEEP_S)
        while client.recv(1 << 20):
            pass


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.slow
def test_each_phase_is_logged_and_counted(kind: str, tmp_path: Path) -> None:
    source, arguments = KINDS[kind]
    (tmp_path / "there.py").write_text(source)
    log = tmp_path / "access.log"
    options = ["--access-log", str(log), "--log-format", "json", "--metrics", "127.0.0.1:0"]
    served = serve("there:app", *arguments, *options, directory=tmp_path)
    try:
        port = port_of(served)
        metrics = int(served.wait_for(r"^metrics on http://127\.0\.0\.1:([0-9]+)/metrics$")[1])
        asked = [threading.Thread(target=ask, args=(port,)) for _ in range(2)]
        for thread in asked:
            thread.start()
        for thread in asked:
            thread.join()
        read_slowly(port)
        deadline = time.monotonic() + PATIENCE_S
        while b"jissoku_app_seconds_count 3\n" not in (page := ask(metrics, "/metrics")[1]):
            assert time.monotonic() < deadline, page
    finally:
        served.end()

    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [line["status"] for line in lines] == [200, 200, 200]
    *small, large = (
        {key: line[f"{key}_ns"] / 1e9 for key in ("queue", "app", "write")} for line in lines
    )
    assert all(one["app"] >= SLEEP_S and one["write"] == 0 for one in small)
    # Requests wait for a thread. Those of a busy worker wait in the kernel, which it does not see.
    if kind == "threads":
        assert max(one["queue"] for one in small) >= SLEEP_S / 2
    assert large["write"] >= SLEEP_S / 2
    assert large["queue"] < large["write"]

    # All three waited for less than the largest bound, and their sum is that of the log.
    assert b'jissoku_app_write_seconds_bucket{le="10.0"} 3\n' in page
    total = next(line for line in page.splitlines() if line.startswith(b"jissoku_app_seconds_sum "))
    assert float(total.split()[1]) == pytest.approx(sum(one["app"] for one in [*small, large]))


def test_a_file_beside_an_application_has_no_phases(
    tmp_path: Path,
) -> None:
    (tmp_path / "there.py").write_text(WSGI)
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "a.txt").write_text("file")
    log = tmp_path / "access.log"
    static = ["--static", f"/static={tmp_path / 'files'}"]
    static += ["--access-log", str(log), "--log-format", "extended"]
    served = serve("there:app", *static, directory=tmp_path)
    try:
        port = port_of(served)
        assert ask(port, "/static/a.txt")[1] == b"file"
        assert ask(port)[1] == b"ok"
    finally:
        served.end()
    file, app = log.read_text().splitlines()
    assert "queue_us" not in file
    assert re.search(r'" "-" duration_us=\d+ queue_us=\d+ app_us=\d+ write_us=\d+$', app)


# A reader of the format, which accepts nothing before and after it.
COMBINED = re.compile(
    r"127\.0\.0\.1 - - \[\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d \+0000\] "
    r'"(?P<line>[^"]*)" (?P<status>\d{3}) (?P<size>\d+) "(?P<referer>[^"]*)" "(?P<agent>[^"]*)"'
)


def contents(folder: Path) -> dict[str, list[str]]:
    """The arguments for each kind of content."""
    (folder / "there.py").write_text(WSGI)
    (folder / "index.html").write_text("file")
    app = ["there:app", "--app-dir", str(folder)]
    return {
        "files": [str(folder)],
        "wsgi": app,
        "threads": [*app, "--threads", "1"],
        "gateway": ["--to", "http://127.0.0.1:9"],
    }


@pytest.mark.parametrize("content", ["files", "wsgi", "threads", "gateway"])
def test_the_combined_format_is_nothing_else(content: str, tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    arguments = [*contents(tmp_path)[content], "--access-log", str(log)]
    served = spawn(*arguments, "--listen", "127.0.0.1:0")
    try:
        with socket.create_connection(("127.0.0.1", port_of(served)), PATIENCE_S) as client:
            head = b"GET /?a=b HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
            client.sendall(head + b'Referer: http://r/\r\nUser-Agent: "curl"\r\n\r\n')
            while client.recv(4096):
                pass
        served.send_signal(signal.SIGTERM)
        assert served.process.wait(PATIENCE_S) == 0
    finally:
        served.end()
    (line,) = log.read_text().splitlines()
    found = COMBINED.fullmatch(line)
    assert found, line
    assert found["line"] == "GET /?a=b HTTP/1.1"
    assert (found["referer"], found["agent"]) == ("http://r/", r"\x22curl\x22")
