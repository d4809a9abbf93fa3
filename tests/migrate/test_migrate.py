"""Command lines of other servers: what they become is understood, and serves the same."""

import http.client
import os
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from jissoku import _native
from jissoku.errors import InputError
from jissoku.migrate import tables
from jissoku.migrate.translate import KINDS, Migration, migrate
from tests.apps.test_migration import of_granian, of_gunicorn, of_uvicorn
from tests.serving.server_process import PATIENCE_S, spawn
from tests.serving.test_page import defaults


def translated(line: str, **files: str) -> Migration:
    def read(name: str) -> str:
        try:
            return files[name.partition(".")[0]]
        except KeyError as error:
            raise InputError(f"cannot read {name}") from error

    return migrate(shlex.split(line), read)


LINES = {
    "gunicorn mysite.wsgi -w 4 -b :8000": (
        "mysite.wsgi:application --listen 0.0.0.0:8000 --workers 4"
    ),
    "gunicorn -w4 -b 127.0.0.1:1 --bind=unix:/run/x.sock --threads 8 -k gthread a:b": (
        "a:b --listen 127.0.0.1:1 --listen unix:/run/x.sock --workers 4 --threads 8"
    ),
    "gunicorn 'a:make(1)' -t 30 --graceful-timeout 5 --keep-alive 3 --access-logfile -": (
        "'a:make(1)' --hang-timeout 30s --stop-timeout 5s --idle-time-max 3s --access-log=-"
    ),
    "gunicorn a:b -k uvicorn.workers.UvicornWorker --forwarded-allow-ips '*'": (
        "a:b --asgi --trusted-proxies 0.0.0.0/0,::/0,unix"
    ),
    "gunicorn a:b --proxy-protocol --max-requests 9 --reload": (
        "a:b --listen 127.0.0.1:8000,proxy-protocol --max-requests 9 --reload"
    ),
    "gunicorn a:b --chdir /srv --root-path /x --log-level WARN": (
        "a:b --chdir /srv --root-path /x --log-level warning"
    ),
    "uvicorn a:b --root-path /x --lifespan off --log-level trace --env-file .env": (
        "a:b --root-path /x --lifespan off --log-level debug --env-file .env"
    ),
    "python -m gunicorn a:b -b [::1]:80": "a:b --listen '[::1]:80'",
    "uvicorn app:app": "app:app",
    "uvicorn app:app --port 80 --workers 2 --factory": (
        "app:app --listen 127.0.0.1:80 --workers 2 --factory"
    ),
    "uvicorn app:app --host ::1 --uds /run/x --limit-concurrency 9 --app-dir src": (
        "app:app --listen '[::1]:8000' --listen unix:/run/x --connections-max 9 --app-dir src"
    ),
    "granian --interface wsgi --port 80 app:app --blocking-threads 4 --workers-max-rss 200": (
        "app:app --listen 127.0.0.1:80 --wsgi --threads 4 --worker-memory-max 200MiB"
    ),
    "granian app:app --static-path-mount assets --access-log --reload": (
        "app:app --access-log=- --reload --static /static=assets"
    ),
    "hypercorn -b 0.0.0.0:80 asgi:app:app --read-timeout 5 -w 2": (
        "app:app --listen 0.0.0.0:80 --pause-max 5s --workers 2 --asgi"
    ),
    "uwsgi --http :80 --wsgi-file src/web.py --callable app --master -p 4 --threads 2": (
        "web:app --listen 0.0.0.0:80 --app-dir src --workers 4 --threads 2"
    ),
    "uwsgi --socket /run/x.sock --chmod-socket=660 -w mysite.wsgi --static-map /static=/srv/s": (
        "mysite.wsgi:application --listen unix:/run/x.sock,uwsgi --socket-mode 660"
        " --static /static=/srv/s"
    ),
}


@pytest.mark.parametrize("line", LINES)
def test_a_line_becomes_ours_and_is_understood(line: str) -> None:
    found = translated(line)
    assert found.line == f"jissoku serve {LINES[line]}"
    assert found.absent == []
    assert _native.run(["jissoku", "serve", *found.words, "--print-config"]) == 0


def test_what_differs_and_what_is_missing_is_named() -> None:
    found = translated("gunicorn a:b --timeout 9 --daemon --quux -k gevent --pythonpath /srv")
    assert [one.split(":")[0] for one in found.differs[:2]] == ["--timeout 9", "--pythonpath /srv"]
    assert [one.split(":")[0] for one in found.absent] == [
        "--daemon",
        "--quux",
        "worker class gevent",
    ]
    assert any("75 s" in one for one in found.differs)
    assert not any("75 s" in one for one in translated("gunicorn a:b --keep-alive 9").differs)


def test_a_configuration_in_python_is_read_and_not_run() -> None:
    text = (
        "import multiprocessing\n"
        "bind = ['127.0.0.1:1', 'unix:/run/x']\n"
        "workers = multiprocessing.cpu_count() * 2 + 1\n"
        "timeout = 20\n"
        "reload = False\n"
        "raw_env = ['A=b c']\n"
        "daemon = True\n"
        "wsgi_app = 'a.b:c'\n"
        "raise SystemExit\n"
        "def post_fork(server, worker):\n"
        "    pass\n"
    )
    found = translated("gunicorn -c conf.py --threads 2", conf=text)
    assert found.line == (
        "env 'A=b c' jissoku serve a.b:c --listen 127.0.0.1:1 --listen unix:/run/x"
        " --hang-timeout 20s --threads 2"
    )
    said = "\n".join(found.absent)
    assert "workers (conf.py, line 3: multiprocessing.cpu_count() * 2 + 1 is known only" in said
    assert "daemon (conf.py, line 7)" in said
    assert "post_fork (conf.py, line 10: a hook" in said


def test_an_ini_file_is_read() -> None:
    text = (
        "[other]\nhttp = :1\n[uwsgi]\n; a comment\nhttp = :8080\nmodule = web:app\n"
        "processes = 3 ; three\nmaster = true\npy-autoreload = 1\nchdir = %d\nvacuum = true\n"
        "reload-on-rss = 300\nsomething = 1\n"
    )
    found = translated("uwsgi --ini app.ini", app=text)
    assert found.line == (
        "jissoku serve web:app --listen 0.0.0.0:8080 --workers 3 --reload"
        " --worker-memory-max 300MiB"
    )
    assert [one.partition(" ")[0] for one in found.absent] == ["chdir", "something"]
    assert translated("uwsgi app.ini", app=text).line == found.line


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("", "nothing is no server"),
        ("apache2 -k start", "apache2 is no server that is known: gunicorn"),
        ("gunicorn a:b -c conf.py", "cannot read conf.py"),
    ],
)
def test_bad_input_is_named(line: str, why: str) -> None:
    with pytest.raises(InputError, match=why):
        translated(line)


@pytest.mark.parametrize("name", tables.SERVERS)
def test_the_tables_name_options_that_exist(name: str) -> None:
    flags = {one.here for one in tables.server(name).option if one.here.startswith("--")}
    assert flags - set(defaults()) == set()
    assert {one.kind for one in tables.server(name).option} <= set(KINDS)
    assert all(one.note for one in tables.server(name).option if one.kind == "absent")
    names = [word for one in tables.server(name).option for word in one.names]
    assert len(names) == len(set(names)) > 20


@pytest.mark.parametrize(
    ("name", "options"),
    [("gunicorn", of_gunicorn), ("uvicorn", of_uvicorn), ("granian", of_granian)],
)
def test_the_tables_have_every_option_of_the_server(name: str, options: object) -> None:
    assert callable(options)
    words = {word for one in tables.server(name).option for word in one.names}
    here = {word for word in options() if word.startswith("-")} - {"-h", "--help", "-v"}
    assert here - words <= {"--version"}


APP = """
def application(environ, start_response):
    body = environ["wsgi.input"].read()
    status = "404 Not Found" if environ["PATH_INFO"] == "/none" else "200 OK"
    text = f'{environ["REQUEST_METHOD"]} {environ["PATH_INFO"]}?{environ["QUERY_STRING"]} '
    start_response(status, [("Content-Type", "text/plain"), ("X-A", environ.get("HTTP_X_A", ""))])
    return [text.encode(), body]

async def app(scope, receive, send):
    assert scope["type"] == "http"
    body = (await receive()).get("body", b"")
    text = f'{scope["method"]} {scope["path"]}?{scope["query_string"].decode()} '
    fields = [(b"content-type", b"text/plain"), (b"x-a", dict(scope["headers"]).get(b"x-a", b""))]
    status = 404 if scope["path"] == "/none" else 200
    await send({"type": "http.response.start", "status": status, "headers": fields})
    await send({"type": "http.response.body", "body": text.encode() + body})
"""

Request = tuple[str, str, str | bytes | None]

REQUESTS: list[Request] = [
    ("GET", "/", None),
    ("GET", "/a%20b/c?x=1&y=%3D", None),
    ("POST", "/post", b"body"),
    ("GET", "/none", None),
    ("DELETE", "/d", b""),
]

Answer = tuple[int, str | None, str | None, bytes]


def answers(port: int, requests: Sequence[Request] = REQUESTS) -> list[Answer]:
    found = []
    for method, target, body in requests:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
        connection.request(method, target, body, {"X-A": "b"})
        response = connection.getresponse()
        fields = (response.getheader("Content-Type"), response.getheader("X-A"))
        found.append((response.status, *fields, response.read()))
        connection.close()
    return found


@contextmanager
def listening(words: list[str], port: int, folder: Path) -> Iterator[None]:
    """Runs another server until it accepts connections."""
    with subprocess.Popen(words, cwd=folder, env={**os.environ, "PYTHONPATH": ""}) as process:
        try:
            deadline = time.monotonic() + PATIENCE_S
            while True:
                try:
                    socket.create_connection(("127.0.0.1", port), timeout=1).close()
                    break
                except OSError:
                    assert process.poll() is None, "it has ended"
                    assert time.monotonic() < deadline, "it does not listen"
            yield
        finally:
            process.terminate()
            process.wait(PATIENCE_S)


@pytest.mark.slow
@pytest.mark.parametrize(
    "line",
    [
        "gunicorn there -b 127.0.0.1:{port} --threads 2 --keep-alive 5",
        "uvicorn there:app --port {port} --timeout-keep-alive 5",
        "hypercorn there:app -b 127.0.0.1:{port}",
        "granian --interface asgi there:app --port {port}",
    ],
)
def test_ours_answers_as_the_other_server(line: str, tmp_path: Path) -> None:
    program = line.partition(" ")[0]
    pytest.importorskip(program)
    (tmp_path / "there.py").write_text(APP)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    words = shlex.split(line.format(port=port))
    with listening([sys.executable, "-m", *words], port, tmp_path):
        expected = answers(port)
    found = migrate(words, lambda name: name)
    served = spawn(*found.words, "--app-dir", str(tmp_path))
    try:
        served.wait_for(rf"listening on http://127\.0\.0\.1:{port}/")
        assert answers(port) == expected
    finally:
        served.end()
