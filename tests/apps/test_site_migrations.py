"""Applications as their users start them, with the commands of docs/apps.md and no other option."""

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.apps.conftest import port_of
from tests.serving.server_process import COMMAND, PATIENCE_S, Served, ask, connect

pytestmark = pytest.mark.slow

UPLOAD_SIZE = 20_000_000


@contextmanager
def started(folder: Path, *arguments: str) -> Iterator[tuple[Served, int]]:
    process = subprocess.Popen(
        [*COMMAND, *arguments, "--listen", "127.0.0.1:0"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    served = Served(process)
    try:
        yield served, port_of(served)
    finally:
        served.end()


def upload(port: int, path: str, content: bytes) -> tuple[int, bytes]:
    """Sends a file as a form does."""
    head = (
        b'--limit\r\nContent-Disposition: form-data; name="file"; filename="a.bin"\r\n'
        b"Content-Type: application/octet-stream\r\n\r\n"
    )
    connection = connect(port)
    connection.request(
        "POST",
        path,
        head + content + b"\r\n--limit--\r\n",
        {"Content-Type": "multipart/form-data; boundary=limit"},
    )
    response = connection.getresponse()
    found = response.status, response.read()
    connection.close()
    return found


SETTINGS = """
ALLOWED_HOSTS = ["*"]
DEBUG = False
STATIC_ROOT = BASE_DIR / "static"
"""

URLS = """
import hashlib
from django.contrib import admin
from django.http import HttpResponse
from django.urls import path
from django.views.decorators.csrf import csrf_exempt
@csrf_exempt
def upload(request):
    digest = hashlib.sha256()
    for chunk in request.FILES["file"].chunks():
        digest.update(chunk)
    return HttpResponse(digest.hexdigest())
urlpatterns = [path("admin/", admin.site.urls), path("upload", upload)]
"""


@pytest.fixture
def django_site(tmp_path: Path) -> Path:
    """A site of `django-admin startproject` with a user of its admin."""
    pytest.importorskip("django")

    def run(*arguments: str) -> None:
        variables = {"DJANGO_SUPERUSER_PASSWORD": "secret"}
        subprocess.run(
            [sys.executable, *arguments], cwd=tmp_path, check=True, env={**os.environ, **variables}
        )

    run("-m", "django", "startproject", "mysite", ".")
    settings = tmp_path / "mysite" / "settings.py"
    settings.write_text(settings.read_text() + SETTINGS)
    (tmp_path / "mysite" / "urls.py").write_text(URLS)
    run("manage.py", "migrate", "-v0")
    run("manage.py", "collectstatic", "--noinput", "-v0")
    user = ["--username", "root", "--email", "root@example.com"]
    run("manage.py", "createsuperuser", "--noinput", *user, "-v0")
    return tmp_path


class Browser:
    """Requests with cookies."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.cookies: dict[str, str] = {}

    def request(self, path: str, form: dict[str, str] | None = None) -> tuple[int, str, str]:
        """Status, Location and text of the response."""
        connection = connect(self.port)
        headers = {"Cookie": "; ".join(f"{name}={text}" for name, text in self.cookies.items())}
        if form is not None:
            headers["Content-Type"] = "application/x-www-form-urlencoded"
        method = "GET" if form is None else "POST"
        connection.request(method, path, urllib.parse.urlencode(form or {}), headers)
        response = connection.getresponse()
        for cookie in response.headers.get_all("Set-Cookie") or []:
            name, _, value = cookie.partition(";")[0].partition("=")
            self.cookies[name] = value
        text = response.read().decode()
        connection.close()
        return response.status, response.headers.get("Location", ""), text


@pytest.mark.parametrize("threads", [[], ["--threads", "4"]])
def test_a_django_site_with_uploads_and_its_admin(threads: list[str], django_site: Path) -> None:
    arguments = ["mysite.wsgi:application", "--static", "/static=static", *threads]
    with started(django_site, *arguments) as (served, port):
        content = os.urandom(UPLOAD_SIZE)
        expected = hashlib.sha256(content).hexdigest().encode()
        assert upload(port, "/upload", content) == (200, expected)
        assert ask(port, "/static/admin/css/base.css")[0] == 200
        browser = Browser(port)
        _, _, page = browser.request("/admin/login/")
        token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', page)
        assert token
        form = {"csrfmiddlewaretoken": token[1], "username": "root", "password": "secret"}
        assert browser.request("/admin/login/?next=/admin/", form)[:2] == (302, "/admin/")
        for _ in range(2):
            status, _, page = browser.request("/admin/auth/user/")
            assert status == 200
            assert "root@example.com" in page
            served.reload()
        served.send_signal(signal.SIGTERM)
        assert served.process.wait(PATIENCE_S) == 0


SERVICE = """
import asyncio, time
from contextlib import asynccontextmanager
from fastapi import FastAPI, UploadFile
from fastapi.responses import StreamingResponse

left = []

@asynccontextmanager
async def lifespan(app):
    time.sleep({load_s})
    app.state.model = "loaded"
    yield
    print("the model is unloaded", flush=True)

app = FastAPI(lifespan=lifespan)

@app.get("/")
async def index():
    return {{"model": app.state.model, "left": len(left)}}

@app.get("/events")
async def events():
    async def stream():
        try:
            while True:
                yield "data: event\\n\\n"
                await asyncio.sleep(0.05)
        finally:
            left.append(1)
    return StreamingResponse(stream(), media_type="text/event-stream")

@app.post("/upload")
async def upload(file: UploadFile):
    return {{"size": len(await file.read())}}
"""


def check_service(folder: Path, load_s: float) -> None:
    (folder / "service.py").write_text(SERVICE.format(load_s=load_s))
    with started(folder, "service:app") as (served, port):
        assert json.loads(ask(port)[1]) == {"model": "loaded", "left": 0}
        size = {"size": UPLOAD_SIZE}
        assert json.loads(upload(port, "/upload", os.urandom(UPLOAD_SIZE))[1]) == size
        streams = [connect(port) for _ in range(2)]
        for stream in streams:
            stream.request("GET", "/events")
            response = stream.getresponse()
            assert response.headers["Content-Type"].startswith("text/event-stream")
            assert response.readline() == b"data: event\n"
            if stream is streams[0]:
                response.close()
                stream.close()
        # The generator of a client that has left ends.
        while json.loads(ask(port)[1])["left"] == 0:
            pass
        # A stream of events does not keep the server.
        served.send_signal(signal.SIGTERM)
        served.wait_for("^the model is unloaded$")
        assert served.process.wait(PATIENCE_S) == 0
        streams[1].close()


def test_a_fastapi_service_with_events(tmp_path: Path) -> None:
    pytest.importorskip("fastapi")
    pytest.importorskip("python_multipart")
    check_service(tmp_path, 0.1)


@pytest.mark.endurance
def test_a_fastapi_service_that_loads_a_model_for_90_s(tmp_path: Path) -> None:
    pytest.importorskip("fastapi")
    (tmp_path / "service.py").write_text(SERVICE.format(load_s=90))
    process = subprocess.Popen(
        [*COMMAND, "service:app", "--listen", "127.0.0.1:0"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    served = Served(process)
    try:
        threading.Event().wait(90)
        assert ask(port_of(served))[0] == 200
    finally:
        served.end()


HELLO = """
from flask import Flask, Response, request, stream_with_context

def create_app(name="world"):
    app = Flask(__name__)

    @app.get("/")
    def index():
        return f"hello {name}"

    @app.get("/stream")
    def stream():
        def generate():
            for _ in range(200):
                yield request.args["who"] + "\\n"
        return Response(stream_with_context(generate()), mimetype="text/plain")

    @app.get("/empty/<kind>")
    def empty(kind):
        def generate():
            yield from ()
        bodies = {"list": [], "tuple": (), "iterator": iter(()), "generator": generate()}
        return Response(bodies[kind], mimetype="text/plain")

    @app.get("/json")
    def json():
        return []

    return app
"""


@pytest.mark.parametrize("threads", [[], ["--threads", "4"]])
def test_a_flask_application_with_streams(threads: list[str], tmp_path: Path) -> None:
    pytest.importorskip("flask")
    (tmp_path / "hello.py").write_text(HELLO)
    with started(tmp_path, "hello:create_app('flask')", *threads) as (_, port):
        assert ask(port) == (200, b"hello flask")
        for kind in ("list", "tuple", "iterator", "generator"):
            assert ask(port, f"/empty/{kind}") == (200, b""), kind
        assert ask(port, "/json") == (200, b"[]\n")
        found: dict[str, bytes] = {}

        def read(who: str) -> None:
            found[who] = ask(port, f"/stream?who={who}")[1]

        names = [f"client{number}" for number in range(8)]
        clients = [threading.Thread(target=read, args=[name]) for name in names]
        for client in clients:
            client.start()
        for client in clients:
            client.join(PATIENCE_S)
        assert found == {name: f"{name}\n".encode() * 200 for name in names}
