"""Falcon, Quart, Litestar and Django on the server, and requests, urllib3 and curl as clients."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.apps.conftest import port_of, serve

requests = pytest.importorskip("requests")
urllib3 = pytest.importorskip("urllib3")

# Each answers: /json with a JSON object, POST /echo with its body, /stream in three parts, and
# /error with a 500.
FALCON = """
import falcon

class Json:
    def on_get(self, request, response):
        response.media = {"path": request.path, "x": request.get_param("x")}

class Echo:
    def on_post(self, request, response):
        response.data = request.bounded_stream.read()

class Stream:
    def on_get(self, request, response):
        response.stream = iter([b"one ", b"two ", b"three"])

class Error:
    def on_get(self, request, response):
        raise ValueError("of the resource")

app = falcon.App()
for path, resource in (("/json", Json()), ("/echo", Echo()), ("/stream", Stream())):
    app.add_route(path, resource)
app.add_route("/error", Error())
"""

FALCON_ASGI = """
import falcon.asgi

class Json:
    async def on_get(self, request, response):
        response.media = {"path": request.path, "x": request.get_param("x")}

class Echo:
    async def on_post(self, request, response):
        response.data = await request.stream.read()

class Stream:
    async def on_get(self, request, response):
        async def parts():
            for part in (b"one ", b"two ", b"three"):
                yield part
        response.stream = parts()

class Error:
    async def on_get(self, request, response):
        raise ValueError("of the resource")

app = falcon.asgi.App()
for path, resource in (("/json", Json()), ("/echo", Echo()), ("/stream", Stream())):
    app.add_route(path, resource)
app.add_route("/error", Error())
"""

QUART = """
from quart import Quart, request

app = Quart(__name__)

@app.get("/json")
async def json():
    return {"path": request.path, "x": request.args.get("x")}

@app.post("/echo")
async def echo():
    return await request.get_data()

@app.get("/stream")
async def stream():
    async def parts():
        for part in (b"one ", b"two ", b"three"):
            yield part
    return parts()

@app.get("/error")
async def error():
    raise ValueError("of the endpoint")
"""

LITESTAR = """
from litestar import Litestar, MediaType, Request, Response, get, post
from litestar.response import Stream

@get("/json")
async def json(request: Request) -> dict[str, str | None]:
    return {"path": request.url.path, "x": request.query_params.get("x")}

@post("/echo")
async def echo(request: Request) -> Response[bytes]:
    return Response(await request.body(), media_type="application/octet-stream", status_code=200)

async def parts():
    for part in (b"one ", b"two ", b"three"):
        yield part

@get("/stream")
async def stream() -> Stream:
    return Stream(parts())

@get("/error")
async def error() -> None:
    raise ValueError("of the handler")

app = Litestar([json, echo, stream, error])
"""

DJANGO = """
import django
from django.conf import settings
from django.http import HttpResponse, JsonResponse, StreamingHttpResponse
from django.urls import path

settings.configure(
    ALLOWED_HOSTS=["*"], ROOT_URLCONF=__name__, SECRET_KEY="test", DATA_UPLOAD_MAX_MEMORY_SIZE=None
)

def json(request):
    return JsonResponse({"path": request.path, "x": request.GET.get("x")})

def echo(request):
    return HttpResponse(request.body)

def stream(request):
    return StreamingHttpResponse(PARTS())

def error(request):
    raise ValueError("of the view")

urlpatterns = [path("json", json), path("echo", echo), path("stream", stream), path("error", error)]
"""

DJANGO_WSGI = (
    DJANGO
    + """
from django.core.wsgi import get_wsgi_application

def PARTS():
    return iter([b"one ", b"two ", b"three"])

app = get_wsgi_application()
"""
)

DJANGO_ASGI = (
    DJANGO
    + """
from django.core.asgi import get_asgi_application

async def PARTS():
    for part in (b"one ", b"two ", b"three"):
        yield part

app = get_asgi_application()
"""
)

APPS = {
    "falcon": ("falcon", FALCON, []),
    "falcon-threads": ("falcon", FALCON, ["--threads", "4"]),
    "falcon-asgi": ("falcon", FALCON_ASGI, []),
    "quart": ("quart", QUART, []),
    "litestar": ("litestar", LITESTAR, []),
    "django-wsgi": ("django", DJANGO_WSGI, []),
    "django-asgi": ("django", DJANGO_ASGI, []),
}


@pytest.fixture(scope="module", params=list(APPS))
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    package, source, arguments = APPS[request.param]
    if find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    directory = tmp_path_factory.mktemp("framework")
    (directory / "there.py").write_text(source)
    served = serve("there:app", *arguments, directory=directory)
    try:
        yield f"http://127.0.0.1:{port_of(served)}"
    finally:
        served.end()


BODY = bytes(range(256)) * 1_000


@pytest.mark.slow
def test_requests_is_answered(url: str) -> None:
    with requests.Session() as session:
        answer = session.get(f"{url}/json?x=%C3%A9", timeout=25)
        assert (answer.status_code, answer.json()) == (200, {"path": "/json", "x": "\u00e9"})
        assert session.post(f"{url}/echo", data=BODY, timeout=25).content == BODY
        parts = iter([BODY, b"", BODY])
        assert session.post(f"{url}/echo", data=parts, timeout=25).content == 2 * BODY
        assert session.get(f"{url}/stream", timeout=25).content == b"one two three"
        assert session.get(f"{url}/error", timeout=25).status_code == 500
        assert session.get(f"{url}/nowhere", timeout=25).status_code == 404


def test_urllib3_keeps_its_connection(url: str) -> None:
    with urllib3.PoolManager(timeout=25, retries=False) as pool:
        for _ in range(3):
            assert pool.request("GET", f"{url}/stream").data == b"one two three"
            assert pool.request("POST", f"{url}/echo", body=BODY).data == BODY
        assert pool.connection_from_url(url).num_connections == 1


def test_curl_is_answered(url: str, tmp_path: Path) -> None:
    curl = shutil.which("curl")
    if curl is None:
        pytest.skip("curl is not installed")
    body = tmp_path / "body"
    body.write_bytes(BODY)
    command = [curl, "--silent", "--show-error", "--max-time", "25", "--data-binary", f"@{body}"]
    command += ["--header", "Expect: 100-continue", f"{url}/echo"]
    echoed = subprocess.run(command, capture_output=True, check=True).stdout
    assert echoed == BODY
    seen = subprocess.run(
        [curl, "--silent", "--show-error", "--max-time", "25", f"{url}/json?x=1", f"{url}/stream"],
        capture_output=True,
        check=True,
    ).stdout
    first, end, rest = seen.partition(b"}")
    assert (json.loads(first + end), rest.strip()) == (
        {"path": "/json", "x": "1"},
        b"one two three",
    )
