"""What is set for an application: its root path, environment, directory, lifespan and logging."""

import json
import logging
import subprocess
from pathlib import Path

import pytest

from tests.apps.conftest import port_of, serve as serve_app
from tests.serving.server_process import COMMAND, PATIENCE_S, Served, ask

FLASK = """
from flask import Flask, request, url_for
app = Flask(__name__)

@app.get("/there")
def there():
    return [request.script_root, request.path, url_for("there"), request.url]
"""

STARLETTE = """
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Mount, Route

async def there(request):
    scope = request.scope
    assert scope["raw_path"] == scope["path"].encode()
    url = str(request.url_for("there"))
    link = url[url.index("/", 8):]
    return JSONResponse([scope["root_path"], scope["path"], link, str(request.url)])

app = Starlette(routes=[Mount("/in", routes=[Route("/there", there, name="inner")]),
                        Route("/there", there, name="there")])
"""

DJANGO = """
import django
from django.conf import settings
from django.http import JsonResponse
from django.urls import path, reverse

settings.configure(ALLOWED_HOSTS=["*"], ROOT_URLCONF=__name__, SECRET_KEY="x")
django.setup()

def there(request):
    root = request.META["SCRIPT_NAME"]
    return JsonResponse([root, request.path_info, reverse("there"), request.build_absolute_uri()],
                        safe=False)

urlpatterns = [path("there", there, name="there")]
from django.core.{0} import get_{1}_application
app = get_{1}_application()
"""

FRAMEWORKS = {
    "flask": FLASK,
    "starlette": STARLETTE,
    "django-wsgi": DJANGO.format("wsgi", "wsgi"),
    "django-asgi": DJANGO.format("asgi", "asgi"),
}


def serve(folder: Path, source: str, *arguments: str) -> Served:
    (folder / "there.py").write_text(source)
    return serve_app("there:app", *arguments, directory=folder)


def answer(folder: Path, source: str, *arguments: str, path: str = "/") -> str:
    """The body of the response of an application."""
    served = serve(folder, source, *arguments)
    try:
        status, body = ask(port_of(served), path)
        assert status == 200, body
        return body.decode()
    finally:
        served.end()


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_links_of_frameworks_begin_with_the_root_path(tmp_path: Path, framework: str) -> None:
    pytest.importorskip(framework.partition("-")[0])
    source = FRAMEWORKS[framework]
    served = serve(tmp_path, source, "--root-path", "/api/v1/")
    try:
        port = port_of(served)
        root, path, link, url = json.loads(ask(port, "/there")[1])
        assert (root, link) == ("/api/v1", "/api/v1/there")
        assert path in {"/there", "/api/v1/there"}
        assert url == f"http://127.0.0.1:{port}/api/v1/there"
        assert ask(port, "/api/v1/there")[0] == 404, "the proxy has removed the prefix once"
        if framework == "starlette":
            assert ask(port, "/in/there")[0] == 200
    finally:
        served.end()


@pytest.mark.parametrize(
    "path", ["api", "/", "//api", "/a//b", "/a/../b", "/a%20b", "/a?b", "/a\r\nX: y", "/é", "/.a"]
)
def test_a_root_path_is_plain(path: str) -> None:
    assert "'--root-path </PATH>'" in refusal("there:app", f"--root-path={path}")


def refusal(*arguments: str) -> str:
    """What is printed when bad input is refused."""
    ended = subprocess.run(
        [*COMMAND, *arguments, "--listen", "127.0.0.1:0"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert ended.returncode == 2, ended
    return ended.stderr


ENVIRONMENT = """
import json, os
from pathlib import Path
def app(environ, start_response):
    start_response("200 OK", [])
    values = [os.environ.get(name) for name in ("ONE", "HOME", "TWO")]
    return [json.dumps([*values, os.getcwd(), os.popen("echo $ONE").read()]).encode()]
"""


def test_variables_of_a_file_and_the_working_directory(tmp_path: Path) -> None:
    (tmp_path / "work" / "code").mkdir(parents=True)
    (tmp_path / "work" / "code" / "there.py").write_text(ENVIRONMENT)
    (tmp_path / ".env").write_text("ONE=1 # one\nHOME=/nowhere\nTWO='${TWO}\n'\n")
    config = tmp_path / "serve.toml"
    config.write_text(
        'app = "there:app"\napp-dir = "work/code"\nchdir = "work"\nenv-file = ".env"\n'
        'access-log = "access.log"\nlisten = "127.0.0.1:0"\n'
    )
    by_file = ["--config", str(config)]
    by_flags = ["there:app", "--chdir", "work", "--app-dir", "code", "--env-file", ".env"]
    for arguments in (by_file, [*by_flags, "--listen", "127.0.0.1:0"]):
        process = subprocess.Popen(
            [*COMMAND, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
        )
        served = Served(process)
        try:
            port = port_of(served)
            one, home, two, directory, inherited = json.loads(ask(port)[1])
            assert (one, two, inherited) == ("1", "${TWO}\n", "1\n")
            assert (home != "/nowhere", directory) == (True, str(tmp_path / "work"))
            (tmp_path / ".env").write_text("ONE=2\n")
            served.reload()
            assert json.loads(ask(port)[1])[::2] == ["2", None, "2\n"]
        finally:
            served.end()
        (tmp_path / ".env").write_text("ONE=1 # one\nHOME=/nowhere\nTWO='${TWO}\n'\n")
    assert "access.log" in {path.name for path in tmp_path.iterdir()}


def test_what_cannot_be_prepared_is_refused(tmp_path: Path) -> None:
    bad = tmp_path / "bad.env"
    bad.write_text("A=1\nB: 2\n")
    assert f"{bad}, line 2: write NAME=VALUE" in refusal("there:app", "--env-file", str(bad))
    assert "there is no directory" in refusal("there:app", "--chdir", str(bad))
    assert "cannot read /nowhere" in refusal("there:app", "--log-config", "/nowhere")
    assert "needs an application" in refusal(str(tmp_path), "--env-file", str(bad))
    assert "[possible values: critical," in refusal("there:app", "--log-level", "loud")


LIFESPAN = """
import os
async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        {0}
    await send({{"type": "http.response.start", "status": 200, "headers": []}})
    await send({{"type": "http.response.body", "body": str(scope.get("state")).encode()}})
"""
RAISES = LIFESPAN.format("raise ValueError('no lifespan')")
ANSWERS = LIFESPAN.format(
    'scope["state"]["x"] = 1; await receive(); '
    'await send({"type": "lifespan.startup.complete"}); await receive(); return'
)


def test_a_lifespan_may_be_off_or_required(tmp_path: Path) -> None:
    assert answer(tmp_path, ANSWERS) == "{'x': 1}"
    assert answer(tmp_path, ANSWERS, "--lifespan", "on") == "{'x': 1}"
    assert answer(tmp_path, ANSWERS, "--lifespan", "off") == "{}"
    assert answer(tmp_path, RAISES) == "{}"
    assert answer(tmp_path, RAISES, "--lifespan", "off") == "{}"
    for source, message in [
        (RAISES, "startup has failed: the application has raised ValueError: no lifespan"),
        (LIFESPAN.format("return"), "startup has failed: it has returned without an answer"),
        (ENVIRONMENT, "--lifespan on is for ASGI applications"),
    ]:
        served = serve(tmp_path, source, "--lifespan", "on")
        try:
            served.wait_for(message)
            assert served.process.wait(PATIENCE_S) in {1, 2}
        finally:
            served.end()


LOGGING = """
import logging
log = logging.getLogger("there")
def app(environ, start_response):
    log.debug("debug line"); log.info("info line"); log.warning("warning line")
    start_response("200 OK", [])
    return [b""]
"""


def lines_of(folder: Path, source: str, *arguments: str) -> list[str]:
    """What an application has logged for a request."""
    served = serve(folder, source, *arguments)
    try:
        ask(port_of(served))
        served.wait_for("warning line")
        return [line for line in served.seen if "line" in line]
    finally:
        served.end()


def test_the_level_is_that_of_the_root_logger(tmp_path: Path) -> None:
    assert lines_of(tmp_path, LOGGING) == ["warning line"]
    expected = ["INFO:there:info line", "WARNING:there:warning line"]
    assert lines_of(tmp_path, LOGGING, "--log-level", "Info") == expected
    own = "import logging\nlogging.basicConfig(format='own %(message)s')\n" + LOGGING
    expected = ["own debug line", "own info line", "own warning line"]
    assert lines_of(tmp_path, own, "--log-level", "debug") == expected


CONFIG = {
    "version": 1,
    "formatters": {"f": {"format": "by file %(message)s"}},
    "handlers": {"h": {"class": "logging.StreamHandler", "formatter": "f"}},
    "root": {"level": "INFO", "handlers": ["h"]},
}
INI = """[loggers]
keys=root
[handlers]
keys=h
[formatters]
keys=f
[logger_root]
level=INFO
handlers=h
[handler_h]
class=StreamHandler
args=()
formatter=f
[formatter_f]
format=by file %(message)s
"""


@pytest.mark.parametrize("suffix", ["json", "yaml", "ini"])
def test_logging_is_configured_by_a_file(tmp_path: Path, suffix: str) -> None:
    if suffix == "yaml":
        pytest.importorskip("yaml")
    file = tmp_path / f"log.{suffix}"
    file.write_text(INI if suffix == "ini" else json.dumps(CONFIG))
    expected = ["by file info line", "by file warning line"]
    assert lines_of(tmp_path, LOGGING, "--log-config", str(file)) == expected
    lines = lines_of(tmp_path, LOGGING, "--log-config", str(file), "--log-level", "debug")
    assert lines == ["by file debug line", *expected]
    assert logging.getLogger().level != logging.DEBUG, "of the worker, not of this process"


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("a.json", '{"version": 1,\n "handlers": {]}', "line 2 column 15"),
        ("a.json", '{"version": 1, "handlers": {"h": {"class": "no.such"}}}', "no"),
        ("a.json", "[]", "cannot use"),
        ("a.yaml", "version: 1\nroot: [", "line 2, column 8"),
        ("a.ini", "[loggers]\nkeys=root\nx\n", "line  3"),
        ("a.ini", "", "cannot use"),
    ],
)
def test_a_file_that_configures_nothing_is_refused(
    tmp_path: Path, name: str, text: str, reason: str
) -> None:
    (tmp_path / name).write_text(text)
    (tmp_path / "there.py").write_text(LOGGING)
    message = refusal("there:app", "--app-dir", str(tmp_path), "--log-config", str(tmp_path / name))
    assert f"cannot use {tmp_path / name}: " in message
    assert reason in message
