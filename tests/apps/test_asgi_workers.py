"""ASGI in worker processes: start-up at a reload, back-pressure, and asyncio's debug mode."""

import select
import signal
import socket
from pathlib import Path

import pytest

from tests.apps.conftest import APPS, port_of, serve
from tests.apps.test_asgi import ask
from tests.apps.test_reloads import wait_for_files
from tests.serving.server_process import PATIENCE_S, spawn

STARTUP = """
import asyncio, pathlib
here = pathlib.Path(__file__).parent

async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        await receive()
        outcome = "complete"
        if (here / "started").exists():
            (here / "waits").touch()
            while not (here / "outcome").exists():
                await asyncio.sleep(0.01)
            outcome = (here / "outcome").read_text()
        (here / "started").touch()
        await send({"type": "lifespan.startup." + outcome, "message": "as the test wants"})
        await receive()
        await send({"type": "lifespan.shutdown.complete"})
        return
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"hello"})
"""


@pytest.mark.parametrize(("outcome", "said"), [
    ("complete", "^reloaded$"),
    ("failed", "^jissoku serve: not reloaded: .*exit code 1"),
])  # fmt: skip
def test_a_reload_waits_for_the_startup(outcome: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "there.py").write_text(STARTUP)
    served = serve("there:app", directory=tmp_path)
    try:
        port = port_of(served)
        served.send_signal(signal.SIGHUP)
        wait_for_files(tmp_path, "waits", 1)
        # A new worker that has not started accepts no connections, so the old one answers.
        for _ in range(10):
            assert ask(port, "/", "") == b"hello"
        assert "reloaded" not in served.lines.queue
        (tmp_path / "outcome").write_text(outcome)
        served.wait_for(said)
        has_reason = any("has failed: as the test wants" in line for line in served.seen)
        assert has_reason == (outcome == "failed")
        assert ask(port, "/", "") == b"hello"
    finally:
        served.end()


COUNTS = """
import asyncio
may_begin = asyncio.Event()

async def app(scope, receive, send):
    assert scope["type"] == "http"
    size = 0
    if scope["method"] == "GET":
        may_begin.set()
    else:
        await may_begin.wait()
        message = {"more_body": True}
        while message["more_body"]:
            message = await receive()
            size += len(message["body"])
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"%d" % size})
"""


@pytest.mark.slow
def test_an_application_that_does_not_receive_holds_its_client_back(tmp_path: Path) -> None:
    (tmp_path / "there.py").write_text(COUNTS)
    served = serve("there:app", "--body-size-max", "64MiB", directory=tmp_path)
    # The kernel buffers at most a few MiB on both sides.
    whole, held = 64 << 20, 32 << 20
    head = f"POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {whole}\r\n\r\n"
    try:
        port = port_of(served)
        with socket.create_connection(("127.0.0.1", port)) as opened:
            opened.sendall(head.encode())
            opened.settimeout(0)
            sent = 0
            # Until nothing was taken for a while.
            while select.select([], [opened], [], 0.5)[1]:
                sent += opened.send(bytes(65_536))
                assert sent < held
            opened.settimeout(PATIENCE_S)
            assert ask(port, "/", "") == b"0"
            opened.sendall(bytes(whole - sent))
            assert opened.makefile("rb").read().endswith(b"\r\n\r\n%d" % whole)
    finally:
        served.end()


ANSWERS = {"hello": b"hello", "stream": b"onetwo", "tasks": b"hello"}


def test_the_debug_mode_of_asyncio_has_no_objection() -> None:
    arguments = ["asgi_cases:app", "--app-dir", str(APPS), "--listen", "127.0.0.1:0", "--quiet"]
    served = spawn(*arguments, PYTHONASYNCIODEBUG="1")
    try:
        port = port_of(served)
        assert {case: ask(port, "/", case) for case in ANSWERS} == ANSWERS
        assert ask(port, "/", "echo", b"body") == b"body"
        served.process.terminate()
        assert served.process.wait(PATIENCE_S) == 0
    finally:
        served.end()
    said = [*served.seen[1:], *served.lines.queue]
    # On a busy machine a step may take long.
    assert [line for line in said if not line.startswith("Executing ")] == []
