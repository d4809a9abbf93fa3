"""Repeated reloads of an application under load: no request is lost."""

import itertools
import signal
import time
from pathlib import Path

import pytest

from tests.apps.conftest import port_of, serve
from tests.serving.server_process import PATIENCE_S, Load, Served, connect, spawn

pytestmark = pytest.mark.slow

WSGI = """
def app(environ, start_response):
    environ["wsgi.input"].read()
    start_response("200 OK", [])
    return [b"here"]
"""

ASGI = """
async def app(scope, receive, send):
    if scope["type"] != "http":
        raise RuntimeError
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"here"})
"""

APPS = {"wsgi": (WSGI, ""), "threads": (WSGI, "threads = 3\n"), "asgi": (ASGI, "")}


def reload_often(app: str, count: int, folder: Path) -> None:
    """Reloads under load, with another number of workers each time."""
    source, options = APPS[app]
    (folder / "there.py").write_text(source)

    def configure(workers: int) -> None:
        (folder / "serve.toml").write_text(
            f'app = "there:app"\napp-dir = "."\nworkers = {workers}\n{options}'
            "listen = ['127.0.0.1:0', 'unix:app.sock']\n"
        )

    configure(2)
    served = spawn("--config", str(folder / "serve.toml"))
    try:
        port = port_of(served)
        served.wait_for("^listening on unix:")
        workers = itertools.cycle([1, 3, 2])
        with Load(port, folder / "app.sock") as load:
            for _ in range(count):
                configure(next(workers))
                served.reload()
                load.wait_for_answers()
    finally:
        served.end()


@pytest.mark.parametrize("app", APPS)
def test_no_request_is_lost_in_reloads(app: str, tmp_path: Path) -> None:
    reload_often(app, 3, tmp_path)


@pytest.mark.race
@pytest.mark.parametrize("app", APPS)
def test_no_request_is_lost_in_fifty_reloads(app: str, tmp_path: Path) -> None:
    reload_often(app, 50, tmp_path)


HELD = """
import os, pathlib, time
here = pathlib.Path(__file__).parent
def app(environ, start_response):
    if environ["PATH_INFO"] == "/hold":
        (here / f"held-{os.getpid()}").touch()
        while not (here / "release").exists():
            time.sleep(0.01)
    start_response("200 OK", [])
    return [b"old"]
"""

HELD_ASGI = """
import asyncio, os, pathlib
here = pathlib.Path(__file__).parent
async def app(scope, receive, send):
    if scope["type"] != "http":
        raise RuntimeError
    if scope["path"] == "/hold":
        (here / f"held-{os.getpid()}").touch()
        while not (here / "release").exists():
            await asyncio.sleep(0.01)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"old"})
"""


@pytest.mark.parametrize("kind", ["wsgi", "threads", "asgi"])
def test_a_response_after_a_reload_says_whether_its_connection_ends(
    kind: str, tmp_path: Path
) -> None:
    (tmp_path / "there.py").write_text(HELD_ASGI if kind == "asgi" else HELD)
    threads = ["--threads", "2"] if kind == "threads" else []
    served = serve("there:app", *threads, directory=tmp_path)
    try:
        kept = connect(port_of(served))
        kept.request("GET", "/hold")
        wait_for_files(tmp_path, "held-*", 1)
        served.reload()
        (tmp_path / "release").touch()
        response = kept.getresponse()
        assert response.read() == b"old"
        if not response.will_close:
            kept.auto_open = 0
            kept.request("GET", "/")
            assert kept.getresponse().read() == b"old"
        kept.close()
    finally:
        served.end()


FIRST_ONLY = """
import pathlib, time
here = pathlib.Path(__file__).parent
try:
    (here / "first").touch(exist_ok=False)
except FileExistsError:
    while not (here / "fail").exists():
        time.sleep(0.01)
    raise RuntimeError("only the first worker can start") from None
def app(environ, start_response):
    start_response("200 OK", [])
    return [b"new"]
"""


def test_a_reload_that_fails_late_loses_no_request(tmp_path: Path) -> None:
    (tmp_path / "there.py").write_text(HELD)
    served = serve("there:app", "--workers", "2", directory=tmp_path)
    try:
        fail_late(served, tmp_path)
    finally:
        served.end()


def fail_late(served: Served, folder: Path) -> None:
    """Reloads with a worker that becomes ready, and one that does not."""
    port = port_of(served)
    held = [connect(port), connect(port)]
    for count, connection in enumerate(held, 1):
        connection.request("GET", "/hold")
        wait_for_files(folder, "held-*", count)
    (folder / "there.py").write_text(FIRST_ONLY)
    served.send_signal(signal.SIGHUP)
    # The old workers are busy, so the new one that is ready takes it.
    kept = connect(port)
    kept.request("GET", "/")
    assert kept.getresponse().read() == b"new"
    (folder / "fail").touch()
    served.wait_for("^jissoku serve: not reloaded: ")
    kept.auto_open = 0
    kept.request("GET", "/")
    assert kept.getresponse().read() == b"new"
    kept.close()
    (folder / "release").touch()
    for connection in held:
        assert connection.getresponse().read() == b"old"
        connection.close()


def wait_for_files(folder: Path, pattern: str, count: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while len(list(folder.glob(pattern))) < count:
        assert time.monotonic() < deadline, f"{pattern} is not there {count} times"
