"""ASGI as an application and its clients see it."""

import http.client
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jissoku.conformance.applications import Connection
from tests.apps.app_cases import check, read_cases
from tests.apps.conftest import APPS, port_of, serve
from tests.serving.server_process import PATIENCE_S

CASES = read_cases("asgi.toml")


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    served = serve("asgi_cases:app")
    try:
        yield port_of(served)
    finally:
        served.end()


@pytest.fixture(scope="module")
def strict_port() -> Iterator[int]:
    """As `port`, with exceptions after a disconnect."""
    served = serve("asgi_cases:app", "--asgi-spec-version", "2.4")
    try:
        yield port_of(served)
    finally:
        served.end()


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_every_case_holds(case: dict[str, Any], port: int) -> None:
    check(case, port)


def ask(port: int, target: str, case: str, body: bytes | None = None) -> bytes:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    try:
        connection.request("POST" if body else "GET", target, body, {"Case": case})
        return connection.getresponse().read()
    finally:
        connection.close()


def notes(port: int) -> str:
    """Waits for the notes of the application."""
    deadline = time.monotonic() + PATIENCE_S
    while not (text := ask(port, "/", "read_notes").decode()):
        assert time.monotonic() < deadline
    return text


def message(case: str, target: str = "/", *fields: str, method: str = "GET") -> bytes:
    lines = [f"{method} {target} HTTP/1.1", "Host: a", f"Case: {case}", *fields, "", ""]
    return "\r\n".join(lines).encode()


def test_a_large_body_arrives_in_both_directions(port: int) -> None:
    body = bytes(range(256)) * 4_000
    assert ask(port, "/", "echo", body) == body
    assert ask(port, "/", "path") == (APPS / "asgi_cases.py").read_bytes()


def test_a_response_is_sent_while_the_body_arrives(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as opened:
        opened.sendall(message("duplex", "/", "Content-Length: 3", method="POST") + b"a")
        connection = Connection(opened)
        while not connection.buffer.endswith(b"<a>\r\n"):
            connection.receive()
        opened.sendall(b"bc")
        while not connection.buffer.endswith(b"0\r\n\r\n"):
            connection.receive()
        assert b"<bc>" in connection.buffer


@pytest.mark.parametrize("target", ["/", "/?begun"])
@pytest.mark.parametrize(("name", "expected"), [
    ("port", "http.disconnect"),
    ("strict_port", "http.disconnect OSError"),
])  # fmt: skip
def test_an_application_learns_that_its_client_is_gone(
    name: str, expected: str, target: str, request: pytest.FixtureRequest
) -> None:
    port: int = request.getfixturevalue(name)
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as opened:
        opened.sendall(message("disconnect", target))
        if target != "/":
            assert opened.recv(1000)
    assert notes(port) == expected


def test_a_slow_client_holds_the_application_back(strict_port: int) -> None:
    port = strict_port
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as opened:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        opened.sendall(message("endless"))
        assert notes(port)
        for _ in range(100):
            if not ask(port, "/", "read_notes"):
                break
            time.sleep(0.05)
        else:
            pytest.fail("the application goes on sending")
    # It may have been about to send once more after the last read.
    while not (text := notes(port)).endswith(" OSError"):
        pass
    sent, _ = text.split()
    # The kernel buffers at most a few MiB on both sides.
    assert int(sent) * 8192 < 16 * 1024 * 1024


def test_work_after_the_response_does_not_delay_the_next_request(port: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    seen = []
    for case in ("background", "read_notes"):
        connection.request("GET", "/", headers={"Case": case})
        seen.append(connection.getresponse().read())
    connection.close()
    assert seen == [b"hello", b""], "the second request was answered before the work was done"
    assert ask(port, "/", "end_background") == b"hello"
    assert notes(port) == "background"


def test_many_requests_are_in_progress_at_once(port: int) -> None:
    results: list[bytes] = []
    threads = [
        threading.Thread(target=lambda: results.append(ask(port, "/", "tasks"))) for _ in range(50)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [b"hello"] * 50


LIFESPAN = """
import asyncio
async def app(scope, receive, send):
    if scope["type"] == "http":
        if scope["path"] == "/wait":
            print("request begun", flush=True)
            try:
                await asyncio.sleep(100)
            finally:
                print("request ended", flush=True)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"hello"})
        if scope["path"] == "/background":
            await asyncio.sleep(0.3)
            print("background ended", flush=True)
        return
    await receive()
    STARTUP
    await receive()
    print("shutdown seen", flush=True)
    await send({"type": "lifespan.shutdown.complete"})
"""


def write_lifespan(path: Path, startup: str) -> None:
    (path / "there.py").write_text(LIFESPAN.replace("STARTUP", startup))


def test_a_shutdown_waits_for_tasks_and_ends_the_lifespan(tmp_path: Path) -> None:
    write_lifespan(tmp_path, 'await send({"type": "lifespan.startup.complete"})')
    served = serve("there:app", directory=tmp_path)
    try:
        assert ask(port_of(served), "/background", "") == b"hello"
        served.process.terminate()
        served.wait_for("^background ended$")
        served.wait_for("^shutdown seen$")
        assert served.process.wait(PATIENCE_S) == 0
    finally:
        served.end()


@pytest.mark.slow
def test_a_shutdown_cancels_what_does_not_end(tmp_path: Path) -> None:
    write_lifespan(tmp_path, 'await send({"type": "lifespan.startup.complete"})')
    served = serve("there:app", "--stop-timeout", "300ms", directory=tmp_path)
    try:
        with socket.create_connection(("127.0.0.1", port_of(served)), PATIENCE_S) as opened:
            opened.sendall(message("", "/wait"))
            served.wait_for("^request begun$")
            served.process.terminate()
            assert opened.recv(1) == b""
        served.wait_for("^request ended$")
        served.wait_for("^shutdown seen$")
        assert served.process.wait(PATIENCE_S) == 0
    finally:
        served.end()


@pytest.mark.parametrize(("startup", "sentence"), [
    ('await send({"type": "lifespan.startup.failed", "message": "no database"}); return',
     "the application's startup has failed: no database"),
])  # fmt: skip
def test_a_failed_startup_ends_the_server(startup: str, sentence: str, tmp_path: Path) -> None:
    write_lifespan(tmp_path, startup)
    served = serve("there:app", directory=tmp_path)
    try:
        assert sentence in served.wait_for(r"^jissoku serve: ").string
        assert served.process.wait(PATIENCE_S) == 1
    finally:
        served.end()


@pytest.mark.parametrize("startup", ["return", "raise TypeError", "assert False"])
def test_an_application_without_lifespan_is_served(startup: str, tmp_path: Path) -> None:
    write_lifespan(tmp_path, startup)
    served = serve("there:app", directory=tmp_path)
    try:
        assert ask(port_of(served), "/", "") == b"hello"
    finally:
        served.end()


def test_an_application_that_fails_before_it_receives_is_reported(tmp_path: Path) -> None:
    (tmp_path / "there.py").write_text(
        "async def app(scope, receive, send):\n    scope['absent']\n"
    )
    served = serve("there:app", directory=tmp_path)
    try:
        port_of(served)
        found = "served without lifespan: the application has raised KeyError: 'absent'"
        assert any(f"{found} ({tmp_path / 'there.py'}, line 2)" in line for line in served.seen)
    finally:
        served.end()


def test_wsgi_can_be_named(tmp_path: Path) -> None:
    (tmp_path / "there.py").write_text("async def app(*arguments):\n    pass\n")
    served = serve("there:app", "--wsgi", directory=tmp_path)
    try:
        assert limited(port_of(served), "GET", "/") == (500, b"")
        # What it returns is no iterable.
        served.wait_for("^TypeError: 'coroutine' object is not iterable$")
    finally:
        served.end()


def test_asgi_can_be_named(tmp_path: Path) -> None:
    (tmp_path / "there.py").write_text(
        "async def inner(scope, receive, send):\n"
        "    assert scope['type'] == 'http'\n"
        "    await send({'type': 'http.response.start', 'status': 200})\n"
        "    await send({'type': 'http.response.body', 'body': b'hello'})\n"
        "def app(scope, receive, send):\n"
        "    return inner(scope, receive, send)\n"
    )
    served = serve("there:app", "--asgi", directory=tmp_path)
    try:
        assert ask(port_of(served), "/", "") == b"hello"
    finally:
        served.end()


LIMITED = """
seen = []

async def app(scope, receive, send):
    if scope["type"] != "http":
        raise NotImplementedError
    if scope["path"] == "/seen":
        body = repr(seen).encode()
    else:
        size, message = 0, {"more_body": True}
        while message.get("more_body"):
            message = await receive()
            size += len(message.get("body", b""))
        seen.append(message["type"])
        body = b"%d" % size
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})
"""


def limited(port: int, method: str, path: str, body: Any = None) -> tuple[int, bytes]:
    """Status and body of a response; without the body if it is an error."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=25)
    try:
        connection.request(method, path, body)
        with connection.getresponse() as response:
            text = response.read()
            return response.status, text if response.status == 200 else b""
    finally:
        connection.close()


def test_the_body_size_is_limited(tmp_path: Path) -> None:
    (tmp_path / "limited.py").write_text(LIMITED)
    served = serve("limited:app", "--body-size-max", "100000", directory=tmp_path)
    chunks = [b"x" * 50_000, b"y" * 50_000, b"z"]
    try:
        port = port_of(served)
        assert limited(port, "POST", "/", b"x" * 100_000) == (200, b"100000")
        assert limited(port, "POST", "/", b"x" * 100_001) == (413, b"")
        assert limited(port, "POST", "/", iter(chunks[:2])) == (200, b"100000")
        assert limited(port, "POST", "/", iter(chunks)) == (413, b"")
        # The length that was announced never reaches the application; chunks do, until one exceeds.
        expected = b"['http.request', 'http.request', 'http.disconnect']"
        until = time.monotonic() + 25
        while limited(port, "GET", "/seen")[1] != expected and time.monotonic() < until:
            time.sleep(0.01)
        assert limited(port, "GET", "/seen") == (200, expected)
    finally:
        served.end()


KEEPS = """
kept = []

async def app(scope, receive, send):
    assert scope["type"] == "http"
    path = scope["path"]
    said = []
    if path == "/keep":
        kept.append((receive, send))
    elif path == "/use":
        receive_kept, send_kept = kept.pop()
        said.append((await receive_kept())["type"])
        try:
            await send_kept({"type": "http.response.start", "status": 500, "headers": []})
        except Exception as error:
            said.append(type(error).__name__)
    body = " ".join([path, *said]).encode()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})
"""


def test_callables_that_an_application_keeps_stay_those_of_their_request(tmp_path: Path) -> None:
    (tmp_path / "there.py").write_text(KEEPS)
    served = serve("there:app", directory=tmp_path)
    try:
        connection = http.client.HTTPConnection("127.0.0.1", port_of(served), timeout=PATIENCE_S)

        def get(path: str) -> bytes:
            connection.request("GET", path)
            return connection.getresponse().read()

        # Those of the first request would be reused by the second.
        assert [get(path) for path in ("/", "/keep", "/", "/use", "/")] == [
            b"/", b"/keep", b"/", b"/use http.disconnect RuntimeError", b"/",
        ]  # fmt: skip
        connection.close()
    finally:
        served.end()


TASKS = """
import asyncio

ended = []

async def child():
    await asyncio.sleep(0)

async def app(scope, receive, send):
    assert scope["type"] == "http"
    task = asyncio.current_task()
    if scope["path"] == "/late":
        other = asyncio.create_task(child())
        assert {task, other} <= asyncio.all_tasks()
        await other
        assert other not in asyncio.all_tasks()
    elif scope["path"] == "/wait":
        await asyncio.sleep(0)
    elif scope["path"] == "/debug":
        loop = asyncio.get_running_loop()
        before = loop.get_debug()
        loop.set_debug(True)
        assert (before, loop.get_debug()) == (False, True)
        loop.set_debug(False)
    tasks = asyncio.all_tasks()
    assert task in tasks
    known = getattr(asyncio.tasks, "_all_tasks", tasks)  # until Python 3.11
    assert task in known
    assert len(known) >= len(tasks)
    assert not ended or ended[-1] not in tasks
    ended.append(task)
    body = b"%d" % len(tasks)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})
"""


def test_tasks_of_requests_are_among_all_tasks(tmp_path: Path) -> None:
    (tmp_path / "there.py").write_text(TASKS)
    served = serve("there:app", directory=tmp_path)
    try:
        port = port_of(served)
        for path in ("/", "/", "/wait", "/late", "/debug", "/"):
            assert ask(port, path, "") == b"1", path
    finally:
        served.end()
