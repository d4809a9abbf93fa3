"""Worker processes: start, failure, reload and stop."""

import signal
import time
from pathlib import Path

import pytest

from tests.apps.conftest import port_of, serve
from tests.serving.server_process import PATIENCE_S, Client, ask

SOURCE = """
import os
VERSION = {version!r}
def app(environ, start_response):
    if environ["PATH_INFO"] == "/exit":
        os._exit(7)
    environ["wsgi.input"].read()
    body = f"{{VERSION}} {{os.getpid()}} {{environ['wsgi.multiprocess']}}".encode()
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]
"""


def answer(port: int) -> list[str]:
    status, body = ask(port)
    assert status == 200
    return body.decode().split()


def test_a_worker_that_exits_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "there.py").write_text(SOURCE.format(version="one"))
    served = serve("there:app", "--workers", "2", directory=tmp_path)
    try:
        port = port_of(served)
        version, pid, is_multiprocess = answer(port)
        assert (version, is_multiprocess) == ("one", "True")
        assert pid != str(served.process.pid)
        with pytest.raises((OSError, EOFError)):
            ask(port, "/exit")
        served.wait_for(r"^jissoku serve: worker [01] has failed .* exit code 7$")
        assert answer(port)[0] == "one"
        served.send_signal(signal.SIGTERM)
        assert served.process.wait(PATIENCE_S) == 0
    finally:
        served.end()


@pytest.mark.slow
def test_a_reload_serves_new_code_and_loses_nothing(tmp_path: Path) -> None:
    source = tmp_path / "there.py"
    source.write_text(SOURCE.format(version="one"))
    served = serve("there:app", "--workers", "2", directory=tmp_path)
    clients: list[Client] = []
    try:
        port = port_of(served)
        clients = [
            Client(port, method, keeps_alive=keeps_alive)
            for method in ("GET", "POST")
            for keeps_alive in (True, False)
        ]
        for client in clients:
            client.start()
        # Of different lengths, because Python treats a source with the same second and size as
        # unchanged.
        for version in ("second", "three"):
            source.write_text(SOURCE.format(version=version))
            served.reload()
            deadline = time.monotonic() + PATIENCE_S
            while answer(port)[0] != version:
                assert time.monotonic() < deadline
            for client in clients:
                client.wait_for_an_answer()
        source.write_text("1 / 0")
        served.send_signal(signal.SIGHUP)
        served.wait_for("^jissoku serve: cannot import there: ZeroDivisionError")
        served.wait_for("^jissoku serve: not reloaded: .*exit code 1")
        assert answer(port)[0] == "three"
    finally:
        for client in clients:
            client.stopping.set()
        for client in clients:
            client.join(PATIENCE_S)
        served.end()
    assert [client.wrong for client in clients] == [None] * len(clients)


def test_an_application_that_cannot_be_had_is_reported_once(tmp_path: Path) -> None:
    served = serve("nowhere:app", "--workers", "2", directory=tmp_path)
    try:
        served.wait_for("^jissoku serve: there is no module named nowhere")
        assert served.process.wait(PATIENCE_S) == 2
        assert [*served.seen, *served.lines.queue] == served.seen[:1]
    finally:
        served.end()


IMPORT_THAT_MAY_NOT_END = """
import os, pathlib, time
here = pathlib.Path(__file__).parent
if (here / "block").exists():
    (here / "blocked").touch()
    while True:
        time.sleep(3600)
def app(environ, start_response):
    if environ["PATH_INFO"] == "/exit":
        (here / "block").touch()
        os._exit(7)
    start_response("200 OK", [])
    return [b"here"]
"""


def wait_for_file(path: Path) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not path.exists():
        assert time.monotonic() < deadline, f"there is no {path.name}"
        time.sleep(0.001)


@pytest.mark.parametrize("occasion", ["start", "reload", "crash", "replacement"])
def test_a_stop_does_not_wait_for_workers_that_start(occasion: str, tmp_path: Path) -> None:
    (tmp_path / "there.py").write_text(IMPORT_THAT_MAY_NOT_END)
    if occasion == "start":
        (tmp_path / "block").touch()
    limit = ["--max-requests", "3"] if occasion == "replacement" else []
    served = serve("there:app", "--workers", "2", *limit, directory=tmp_path)
    try:
        port = 0 if occasion == "start" else port_of(served)
        if occasion != "start":
            assert ask(port) == (200, b"here")
        if occasion == "reload":
            (tmp_path / "block").touch()
            served.send_signal(signal.SIGHUP)
        if occasion == "crash":
            with pytest.raises((OSError, EOFError)):
                ask(port, "/exit")
        if occasion == "replacement":
            (tmp_path / "block").touch()
            while not (tmp_path / "blocked").exists():
                ask(port)
        wait_for_file(tmp_path / "blocked")
        served.send_signal(signal.SIGTERM)
        # A worker that has failed and was not replaced is the server's failure.
        assert served.process.wait(PATIENCE_S / 2) == (1 if occasion == "crash" else 0)
    finally:
        served.end()
