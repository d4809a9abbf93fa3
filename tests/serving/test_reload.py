"""Repeated reloads of a process under load: no request and no idle connection is lost."""

import itertools
import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

from tests.serving.server_process import COMMAND, PATIENCE_S, Load, Served, Start, ask, connect


class Site:
    """A configuration that can be changed, and a server that has read it."""

    def __init__(self, folder: Path, start: Start, driver: str) -> None:
        self.driver = driver
        self.file = folder / "serve.toml"
        self.socket = folder / "web.sock"
        self.write(text="0", workers=2)
        self.served = start("--config", str(self.file))
        self.port = int(self.served.wait_for(r"http://127\.0\.0\.1:([0-9]+)/")[1])
        self.served.wait_for("listening on unix:")

    def write(self, *, text: str, workers: int) -> None:
        self.file.write_text(
            f"fixed = {text!r}\nworkers = {workers}\ndriver = {self.driver!r}\n"
            "listen = ['127.0.0.1:0', 'unix:web.sock']\n"
        )

    def check(self, text: str) -> None:
        """Both places give this answer, as soon as the old server has left."""
        deadline = time.monotonic() + PATIENCE_S
        for where in (self.port, self.socket):
            while ask(where) != (200, text.encode()):
                assert time.monotonic() < deadline, f"{where} never answered {text}"


@pytest.fixture(params=["auto"])
def site(tmp_path: Path, start: Start, request: pytest.FixtureRequest) -> Site:
    return Site(tmp_path, start, request.param)


def can_uring() -> bool:
    """Whether this kernel has io_uring, and lets us use it."""
    arguments = ["--fixed", "x", "--driver", "uring", "--listen", "unix:/nowhere/at/all"]
    run = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, check=False)
    return "io_uring" not in run.stderr


URING = pytest.param(
    "uring", marks=pytest.mark.skipif(not can_uring(), reason="this kernel keeps io_uring from us")
)
on_both_drivers = pytest.mark.parametrize("site", ["epoll", URING], indirect=True)


def reload_often(site: Site, count: int) -> None:
    """Reloads under load, with another answer and another number of workers each time."""
    workers = itertools.cycle([1, 3, 2, 4, 1, 2])
    with Load(site.port, site.socket) as load:
        for number in range(1, count + 1):
            site.write(text=str(number), workers=next(workers))
            site.served.reload()
            load.wait_for_answers()
    site.check(str(count))


@pytest.mark.slow
@on_both_drivers
def test_no_request_is_lost_in_reloads(site: Site) -> None:
    reload_often(site, 20)


@pytest.mark.race
@on_both_drivers
def test_no_request_is_lost_in_two_hundred_reloads(site: Site) -> None:
    reload_often(site, 200)


def replace_often(site: Site, count: int) -> None:
    """Lets a new process take over under load, and then another."""
    with Load(site.port, site.socket) as load:
        for number in range(1, count + 1):
            site.write(text=str(number), workers=number % 3 + 1)
            site.served.replace()
            load.wait_for_answers()
    site.check(str(count))


@on_both_drivers
def test_no_request_is_lost_when_a_new_process_takes_over(site: Site) -> None:
    replace_often(site, 3)
    assert site.served.process.wait(PATIENCE_S) == 0, "the first process ends in order"
    assert site.socket.exists()
    site.served.send_signal(signal.SIGTERM)
    while site.socket.exists():
        assert ask_or_nothing(site) in {b"3", None}


@pytest.mark.race
@on_both_drivers
def test_no_request_is_lost_when_twenty_processes_take_over(site: Site) -> None:
    replace_often(site, 20)


def ask_or_nothing(site: Site) -> bytes | None:
    try:
        return ask(site.socket)[1]
    except OSError:
        return None


def test_an_idle_connection_gets_one_more_answer(site: Site) -> None:
    idle = [connect(where) for where in (site.port, site.socket) for _ in range(10)]
    for connection in idle:
        connection.request("GET", "/")
        assert connection.getresponse().read() == b"0"
    site.write(text="1", workers=1)
    site.served.reload()
    site.served.replace()
    for connection in idle:
        connection.auto_open = 0
        lives = True
        while lives:
            connection.request("POST", "/", body=b"x")
            response = connection.getresponse()
            assert (response.status, response.read()) == (200, b"0")
            lives = not response.will_close
        connection.close()


BROKEN = {
    "a key that is unknown": ("fixd = 'x'", "line 1: there is no key"),
    "a value that makes no sense": ("fixed = 'x'\nworkers = 'many'", "line 2: invalid value"),
    "no TOML": ("fixed =", "line 1: "),
    "a folder that is not there": ("folder = 'gone'", "gone"),
    "a place that is taken": ("fixed = 'x'\nlisten = '127.0.0.1:{port}'", "is already in use"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_configuration_leaves_the_old_one_serving(case: str, site: Site) -> None:
    text, reason = BROKEN[case]
    with Load(site.port, site.socket), socket.create_server(("127.0.0.1", 0)) as occupant:
        site.file.write_text(text.format(port=occupant.getsockname()[1]))
        site.served.send_signal(signal.SIGHUP)
        site.served.wait_for(f"not reloaded: .*{reason}")
    site.check("0")
    site.write(text="1", workers=1)
    site.served.reload()
    site.check("1")


def test_a_successor_that_cannot_begin_leaves_the_old_process_serving(site: Site) -> None:
    with Load(site.port, site.socket):
        site.file.write_text("fixd = 'x'")
        site.served.send_signal(signal.SIGUSR2)
        site.served.wait_for("there is no key")
        site.served.wait_for(r"not replaced: process \d+ ended before it was ready")
        # Detected later, when the successor has the sockets, too.
        site.file.write_text(
            "folder = '/nowhere/at/all'\nlisten = ['127.0.0.1:0', 'unix:web.sock']\n"
        )
        site.served.send_signal(signal.SIGUSR2)
        site.served.wait_for(r"not replaced: process \d+ ended before it was ready")
    site.check("0")
    site.write(text="1", workers=1)
    site.served.replace()
    site.check("1")


def children(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(child) for child in text.split()]


def test_a_successor_that_hangs_ends_with_the_server(site: Site) -> None:
    site.file.unlink()
    # A reader waits for a writer that never comes.
    os.mkfifo(site.file)
    site.served.send_signal(signal.SIGUSR2)
    deadline = time.monotonic() + PATIENCE_S
    while not (successors := children(site.served.process.pid)):
        assert time.monotonic() < deadline, "no successor was started"
    site.check("0")
    site.served.send_signal(signal.SIGTERM)
    assert site.served.process.wait(PATIENCE_S) == 0
    for pid in successors:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    assert not site.socket.exists()


def test_a_second_interrupt_means_at_once(start_in_lab: Start) -> None:
    served = start_in_lab("--contract", "--listen", "127.0.0.1:0", "--stop-timeout", "1h")
    port = int(served.wait_for(r"http://127\.0\.0\.1:([0-9]+)/")[1])
    waiting = connect(port)
    waiting.request("GET", "/delay?ms=60000")
    assert ask(port) == (200, b"Hello, World!")
    served.send_signal(signal.SIGINT)
    deadline = time.monotonic() + PATIENCE_S
    while listens(port):
        assert time.monotonic() < deadline, "the server still listens"
    assert served.process.poll() is None, "a client waits for a response"
    served.send_signal(signal.SIGINT)
    assert served.process.wait(PATIENCE_S) == 0
    waiting.close()


def listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


def test_requests_in_flight_are_answered_while_stopping(start_in_lab: Start) -> None:
    served = start_in_lab("--contract", "--listen", "127.0.0.1:0", "--workers", "2")
    port = int(served.wait_for(r"http://127\.0\.0\.1:([0-9]+)/")[1])
    waiting = [connect(port) for _ in range(8)]
    for connection in waiting:
        connection.request("GET", "/delay?ms=300")
    served.send_signal(signal.SIGTERM)
    for connection in waiting:
        response = connection.getresponse()
        assert (response.status, response.read()) == (200, b"Hello, World!")
        connection.close()
    assert served.process.wait(PATIENCE_S) == 0


PROXY = """
daemon off; master_process off; worker_processes 1; pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ worker_connections 512; }}
http {{
  access_log off; client_body_temp_path {folder}/a; proxy_temp_path {folder}/b;
  fastcgi_temp_path {folder}/c; uwsgi_temp_path {folder}/d; scgi_temp_path {folder}/e;
  upstream web {{ server {upstream}; keepalive 32; }}
  server {{
    listen unix:{folder}/proxy.sock;
    location / {{
      proxy_pass http://web; proxy_http_version 1.1; proxy_set_header Connection "";
      proxy_next_upstream off;
    }}
  }}
}}
"""


@pytest.mark.race
@pytest.mark.parametrize("kind", ["tcp", "unix"])
def test_no_request_is_lost_behind_nginx(kind: str, site: Site, tmp_path: Path) -> None:
    nginx = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
    if nginx is None:
        pytest.skip("nginx is not installed")
    upstream = f"127.0.0.1:{site.port}" if kind == "tcp" else f"unix:{site.socket}"
    settings = tmp_path / "nginx.conf"
    settings.write_text(PROXY.format(folder=tmp_path, upstream=upstream))
    proxy = subprocess.Popen([nginx, "-c", settings, "-e", tmp_path / "error.log"])
    try:
        wait_until_it_listens(tmp_path / "proxy.sock")
        workers = itertools.cycle([1, 3, 2, 4])
        with Load(tmp_path / "proxy.sock") as load:
            for number in range(1, 101):
                site.write(text=str(number), workers=next(workers))
                change(site.served, number)
                load.wait_for_answers()
        errors = (tmp_path / "error.log").read_text()
        assert "upstream" not in errors, errors
    finally:
        proxy.terminate()
        proxy.wait()


def change(served: Served, number: int) -> None:
    """Mostly reloads, now and then a new process."""
    if number % 20:
        served.reload()
    else:
        served.replace()


def wait_until_it_listens(path: Path) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        connection = connect(path)
        try:
            return connection.connect()
        except OSError:
            assert time.monotonic() < deadline, f"there is no listener on {path}"
        finally:
            connection.close()
