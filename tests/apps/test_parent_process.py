"""The process that owns the listeners, and what its workers get from it."""

import os
import signal
import socket
from pathlib import Path

import psutil
import pytest

from tests.apps.conftest import port_of, serve
from tests.serving.server_process import PATIENCE_S, Load, Served, ask, spawn
from tests.serving.test_process import activate

WSGI = """
import os
def app(environ, start_response):
    environ["wsgi.input"].read()
    start_response("200 OK", [])
    return [str(os.getpid()).encode()]
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

APPS = {"wsgi": (WSGI, []), "threads": (WSGI, ["--threads", "3"]), "asgi": (ASGI, [])}


def workers_of(served: Served) -> list[psutil.Process]:
    return psutil.Process(served.process.pid).children()


@pytest.mark.slow
@pytest.mark.parametrize("app", APPS)
def test_no_request_is_lost_when_a_new_process_takes_over(app: str, tmp_path: Path) -> None:
    source, options = APPS[app]
    (tmp_path / "there.py").write_text(source)
    where = tmp_path / "app.sock"
    words = ["--workers", "2", "--listen", "127.0.0.1:0", "--listen", f"unix:{where}"]
    served = spawn("there:app", "--app-dir", str(tmp_path), *words, *options)
    try:
        port = port_of(served)
        with Load(port, where) as load:
            for _ in range(2):
                served.replace()
                load.wait_for_answers()
        assert served.process.wait(PATIENCE_S) == 0
    finally:
        served.end()


@pytest.mark.slow
@pytest.mark.parametrize("origin", ["shell", "predecessor", "systemd"])
def test_workers_end_with_their_parent(origin: str, tmp_path: Path) -> None:
    (tmp_path / "there.py").write_text(WSGI)
    options = ["there:app", "--app-dir", str(tmp_path), "--workers", "2"]
    with socket.create_server(("127.0.0.1", 0)) as listener:
        if origin == "systemd":
            served = Served(activate(listener, *options))
        else:
            served = spawn(*options, "--listen", "127.0.0.1:0")
    try:
        port_of(served)
        if origin == "predecessor":
            served.replace()
            assert served.process.wait(PATIENCE_S) == 0
        parent = served.successors[-1] if served.successors else served.process.pid
        workers = psutil.Process(parent).children()
        assert len(workers) == 2
        os.kill(parent, signal.SIGKILL)
        gone, alive = psutil.wait_procs(workers, PATIENCE_S)
        assert (len(gone), alive) == (2, [])
    finally:
        served.end()


def test_the_log_is_opened_again_by_all_workers(tmp_path: Path) -> None:
    (tmp_path / "there.py").write_text(WSGI)
    log, rotated = tmp_path / "access.log", tmp_path / "access.log.1"
    served = serve("there:app", "--workers", "2", "--access-log", str(log), directory=tmp_path)
    try:
        port = port_of(served)
        for _ in range(10):
            ask(port, "/before")
        log.rename(rotated)
        served.send_signal(signal.SIGUSR1)
        served.wait_for("^reloaded$")
        for _ in range(10):
            ask(port, "/after")
        served.send_signal(signal.SIGTERM)
        assert served.process.wait(PATIENCE_S) == 0
    finally:
        served.end()
    texts = [path.read_text() for path in (rotated, log)]
    assert [(text.count("/before"), text.count("/after")) for text in texts] == [(10, 0), (0, 10)]


def test_workers_accept_from_a_socket_of_systemd(tmp_path: Path) -> None:
    (tmp_path / "there.py").write_text(WSGI)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        process = activate(listener, "there:app", "--app-dir", str(tmp_path), "--workers", "2")
    try:
        old = ask(port)[1]
        process.send_signal(signal.SIGHUP)
        assert process.stdout is not None
        assert "reloaded\n" in iter(process.stdout.readline, "")
        assert old != ask(port)[1]
        process.terminate()
        assert process.wait(PATIENCE_S) == 0
    finally:
        process.kill()
        process.communicate()


CORES = sorted(os.sched_getaffinity(0))


@pytest.mark.skipif(len(CORES) < 2, reason="needs two cores")
def test_workers_are_pinned_round_robin(tmp_path: Path) -> None:
    (tmp_path / "there.py").write_text(WSGI)
    cores = f"{CORES[0]},{CORES[1]}"
    served = serve("there:app", "--workers", "3", "--cores", cores, directory=tmp_path)
    try:
        port_of(served)
        pinned = []
        for worker in workers_of(served):
            threads = [os.sched_getaffinity(thread.id) for thread in worker.threads()]
            pinned += sorted({min(allowed) for allowed in threads if len(allowed) == 1})
        assert sorted(pinned) == sorted([CORES[0], CORES[1], CORES[0]])
    finally:
        served.end()
