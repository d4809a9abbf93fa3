"""Command lines of other servers: what they become is understood, and serves the same."""

import argparse
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
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given, strategies as st

from jissoku import _native
from jissoku.cli.commands import jissoku
from jissoku.cli.frame import ExitCode
from jissoku.errors import InputError
from jissoku.migrate import tables
from jissoku.migrate.translate import ALL_PEERS, KINDS, Migration, migrate
from tests.serving.server_process import PATIENCE_S, spawn
from tests.serving.test_page import defaults


def translated(line: str, **files: str) -> Migration:
    def read(name: str) -> str:
        try:
            return files[name.partition(".")[0]]
        except KeyError as error:
            raise InputError(f"cannot read {name}") from error

    return migrate(shlex.split(line), read, cpu_count=4)


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
    "gunicorn a:b --forwarded-allow-ips 10.0.0.0/8": (
        "a:b --trusted-proxies 10.0.0.0/8 --forwarded-fields x-forwarded-proto"
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
    "gunicorn --workers 3 --bind unix:myproject.sock -m 007 wsgi:app": (
        "wsgi:app --listen unix:myproject.sock --workers 3"
    ),
    "gunicorn asgi:app -k uvicorn.workers.UvicornWorker": "asgi:app --asgi",
    "gunicorn -w=2 --proxy-protocol v1 a:b": (
        "a:b --listen 127.0.0.1:8000,proxy-protocol --workers 2"
    ),
    "granian --interface asgi src/main.py": "main:app --asgi --app-dir src",
    "hypercorn asgi": "asgi:app",
    "uwsgi --http :80 src/web.py": "web:application --listen 0.0.0.0:80 --app-dir src",
    "/usr/bin/python3.12 -m uvicorn --port 80 -- a:b": "a:b --listen 127.0.0.1:80",
    "/venv/bin/gunicorn a:b": "a:b",
    "GUNICORN_CMD_ARGS='-w 3 --reload' gunicorn a:b -w 2": "a:b --workers 2 --reload",
    "UVICORN_WORKERS=3 UVICORN_RELOAD=false uvicorn a:b": "a:b --workers 3",
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
    assert [one for one in found.absent if "-m 007" not in one] == []
    assert _native.run(["jissoku", "serve", *found.words, "--print-config"]) == 0


def test_what_differs_and_what_is_missing_is_named() -> None:
    found = translated("gunicorn a:b --timeout 9 --daemon -k gevent --pythonpath /srv")
    assert [one.split(":")[0] for one in found.differs[:2]] == ["--timeout 9", "--pythonpath /srv"]
    assert [one.split(":")[0] for one in found.absent] == [
        "--daemon",
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
        " --workers 9 --hang-timeout 20s --threads 2"
    )
    said = "\n".join(found.absent)
    how = "workers = 9 (conf.py, line 3: multiprocessing.cpu_count() * 2 + 1 with 4 CPUs)"
    assert how in found.differs
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
    more = translated("uwsgi app.ini --http :81", app=text).words[:5]
    assert more == ["web:app", "--listen", "0.0.0.0:8080", "--listen", "0.0.0.0:81"]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("", "nothing is no server"),
        ("apache2 -k start", "apache2 is no server that is known: gunicorn"),
        ("gunicorn a:b -c conf.py", "cannot read conf.py"),
        ("gunicorn --wokers 4 shop:app", "gunicorn has no option --wokers .* mean --workers?"),
        ("uvicorn a:b --prot 80", "did you mean --port?"),
        ("gunicorn a:b c:d", "gunicorn serves one application: a:b or c:d?"),
        ("gunicorn a:b -w", "-w of gunicorn needs a value"),
        ("gunicorn 007", "007 names no application: MODULE:APP"),
        ("uvicorn app", "app names no application: MODULE:APP"),
        ("FLASK_PORT=1 python app.py", "python is no server that is known"),
    ],
)
def test_bad_input_is_named(line: str, why: str) -> None:
    with pytest.raises(InputError, match=why):
        translated(line)


NAMES = st.one_of(
    st.sampled_from(["wsgi", "asgi", "uwsgi", "http", "unix", "env", "python", "run"]),
    st.from_regex(r"[a-z_][a-z0-9_]{0,9}", fullmatch=True).filter(str.isidentifier),
)
DOTTED = st.lists(NAMES, min_size=1, max_size=3).map(".".join)
SERVERS = {
    "gunicorn": "gunicorn {} -w 2",
    "uvicorn": "uvicorn --workers 2 {}",
    "granian": "granian --interface asgi {}",
    "hypercorn": "hypercorn -m 7 {}",
    "uwsgi": "uwsgi -w {}",
}


@pytest.mark.parametrize("server", SERVERS)
@given(module=DOTTED, attribute=DOTTED)
def test_the_application_is_the_same(server: str, module: str, attribute: str) -> None:
    app = f"{module}:{attribute}"
    found = translated(SERVERS[server].format(app))
    assert found.words[0] == app
    if server != "granian":
        assert {"--wsgi", "--asgi"} & set(found.words) == set()


def test_what_precedes_the_server_is_kept() -> None:
    line = "exec env GREETING=hi 'A=b c' poetry run gunicorn shop:app"
    found = translated(line)
    assert found.line == "exec poetry run env GREETING=hi 'A=b c' jissoku serve shop:app"
    assert translated("PORT=80 gunicorn a:b").line == "env PORT=80 jissoku serve a:b"
    assert translated("PORT=80 uvicorn a:b").words == ["a:b", "--listen", "127.0.0.1:8000"]


@pytest.mark.parametrize(
    ("line", "is_scheme"),
    [
        ("gunicorn a:b", True),
        ("gunicorn a:b -k uvicorn_worker.UvicornWorker", False),
        ("uvicorn a:b", False),
    ],
)
def test_proxies_get_no_more_trust_than_before(line: str, *, is_scheme: bool) -> None:
    only = ["--forwarded-fields", "x-forwarded-proto"] if is_scheme else []
    what = "the scheme" if only else "the address and the scheme"
    asgi = ["--asgi"] if "Worker" in line else []
    found = translated(f"{line} --forwarded-allow-ips '*'")
    assert found.words == ["a:b", *asgi, "--trusted-proxies", ALL_PEERS, *only]
    said = f"--forwarded-allow-ips *: any client can claim {what} of its requests"
    assert any(one.startswith(said) for one in found.differs)
    found = translated(f"{line} --forwarded-allow-ips '10.0.0.0/8, ::1,localhost'")
    assert found.words == ["a:b", *asgi, "--trusted-proxies", "10.0.0.0/8,::1", *only]
    assert found.absent == ["--forwarded-allow-ips localhost: it is no address"]


def test_lists_of_proxies_of_gunicorn_are_one_list() -> None:
    line = "gunicorn a:b -b unix:/x --forwarded-allow-ips ::1 --proxy-allow-from ::2 -c conf.py"
    found = translated(line, conf="forwarded_allow_ips = '*'")
    flags = found.words[3:]
    assert flags == ["--trusted-proxies", "::1,::2,unix", "--forwarded-fields", "x-forwarded-proto"]
    assert any(one.startswith("--proxy-allow-from ::2: --trusted") for one in found.differs)


def test_no_limit_is_not_a_limit_of_nothing() -> None:
    line = (
        "gunicorn a:b --limit-request-line 0 --limit-request-fields 0 --limit-request-field_size 0"
    )
    assert translated(f"{line} --root-path /").words == ["a:b"]
    said = "--limit-request-line 0: here --request-line-size-max has a default"
    assert said in translated(line).differs
    assert translated("uwsgi -w a:b --limit-post 0").words == ["a:b"]
    assert translated("uvicorn a:b --root-path /x/").words == ["a:b", "--root-path", "/x"]


def test_an_unknown_option_of_uwsgi_takes_its_value_along() -> None:
    found = translated("uwsgi --http :80 --quux 7 -w a:b --master")
    assert found.line == "jissoku serve a:b --listen 0.0.0.0:80"
    assert found.absent == ["--quux 7: no option that is known here"]


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("n = os.cpu_count()\nworkers = max(2, n * 2)", "8"),
        ("workers: int = len(os.sched_getaffinity(0)) // 3", "1"),
        ("import x\nworkers = x.read()", None),
        ("workers = 'a' * 9", None),
        ("workers = 2\nworkers += 1", None),
    ],
)
def test_a_number_of_workers_is_computed_or_missed(source: str, value: str | None) -> None:
    found = translated("gunicorn -c conf.py a:b", conf=source)
    if value is None:
        assert "known only when it runs" in found.absent[-1]
    else:
        assert found.words == ["a:b", "--workers", value]


def test_a_value_that_is_not_known_names_the_flag() -> None:
    found = translated("gunicorn -c conf.py a:b", conf="workers = read()")
    reason = "workers (conf.py, line 1: read() is known only when it runs)"
    assert found.absent == [f"{reason}; write --workers VALUE"]


def test_a_command_line_precedes_the_file_that_it_names() -> None:
    text = "bind = ':1'\nworkers = 8\nwsgi_app = 'a:b'"
    found = translated("gunicorn -b :2 -w 2 x:y -c conf.py", conf=text)
    assert found.line == "jissoku serve x:y --listen 0.0.0.0:2 --workers 2"


def test_gunicorn_reads_its_file_without_being_asked_to() -> None:
    assert translated("gunicorn a:b", gunicorn="workers = 8").words == ["a:b", "--workers", "8"]


def invoke(*words: str) -> Result:
    return CliRunner().invoke(jissoku, ["migrate", *words])


def test_the_output_is_the_line_alone() -> None:
    line = "jissoku serve shop:app --workers 4\n"
    for words in (["gunicorn -w 4 shop:app"], ["gunicorn", "-w", "4", "shop:app"]):
        found = invoke(*words)
        assert found.stdout == line
        assert "\ndiffers:\n" in found.stderr


def test_a_line_without_an_application_is_not_good() -> None:
    words = ["migrate", "gunicorn", "-w", "4"]
    assert jissoku.main(words, standalone_mode=False) == ExitCode.BAD_INPUT
    found = invoke(*words[1:])
    assert found.stdout == "jissoku serve MODULE:APP --workers 4\n"
    assert "no application is named" in found.stderr


@pytest.mark.parametrize("name", tables.SERVERS)
def test_the_tables_name_options_that_exist(name: str) -> None:
    flags = {one.here for one in tables.server(name).option if one.here.startswith("--")}
    assert flags - set(defaults()) == set()
    assert {one.kind for one in tables.server(name).option} <= set(KINDS)
    assert all(one.note for one in tables.server(name).option if one.kind == "absent")
    names = [word for one in tables.server(name).option for word in one.names]
    assert len(names) == len(set(names)) > 20


def of_click(command: Any) -> dict[str, bool]:
    """Whether each option of a command of click has a value."""
    options = [one for one in command.params if one.param_type_name == "option"]
    assert all(one.nargs == 1 for one in options)
    return {name: not one.is_flag for one in options for name in (*one.opts, *one.secondary_opts)}


def of_argparse(parser: argparse.ArgumentParser) -> dict[str, bool]:
    actions = parser._actions
    # Of gunicorn's --proxy-protocol the value may be missing.
    return {
        name: action.nargs not in {0, "?"} for action in actions for name in action.option_strings
    }


def arities(name: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, bool]:
    if name == "gunicorn":
        return of_argparse(pytest.importorskip("gunicorn.config").Config().parser())
    if name == "uvicorn":
        return of_click(pytest.importorskip("uvicorn.main").main)
    if name == "granian":
        return of_click(pytest.importorskip("granian.cli").cli)
    program = pytest.importorskip("hypercorn.__main__")
    parsers: list[argparse.ArgumentParser] = []

    def parse_args(parser: argparse.ArgumentParser, _: object) -> None:
        parsers.append(parser)
        raise InterruptedError

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parse_args)
    with pytest.raises(InterruptedError):
        program.main(["app"])
    return of_argparse(parsers[0])


@pytest.mark.parametrize("name", ["gunicorn", "uvicorn", "granian", "hypercorn"])
def test_the_tables_have_every_option_of_the_server(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = arities(name, monkeypatch)
    here = {word: one.value for one in tables.server(name).option for word in one.names}
    assert len(there) > 30
    # Whether each has a value, too.
    assert {word: there[word] for word in there.keys() - {"-h", "--help"}} == {
        word: value for word, value in here.items() if word in there
    }


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
