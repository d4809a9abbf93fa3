"""Middleware and tools that look into an application: they see its bodies and its lines."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.apps.conftest import port_of, serve
from tests.conftest import LIMIT_S
from tests.serving.server_process import PATIENCE_S

COMPRESSED = """
import pathlib
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import FileResponse
from starlette.routing import Route
from {module} import {name}

FILE = pathlib.Path(__file__).with_name("file.txt")
app = Starlette(
    routes=[Route("/", lambda request: FileResponse(FILE))],
    middleware=[Middleware({name}, minimum_size=1)],
)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "name", "coding"),
    [
        ("starlette.middleware.gzip", "GZipMiddleware", "gzip"),
        ("brotli_asgi", "BrotliMiddleware", "br"),
    ],
)
def test_a_middleware_compresses_the_body_of_a_file(
    module: str, name: str, coding: str, tmp_path: Path
) -> None:
    """With `http.response.pathsend` it would see no body."""
    pytest.importorskip(module.partition(".")[0])
    (tmp_path / "file.txt").write_text("text " * 10_000)
    (tmp_path / "there.py").write_text(COMPRESSED.format(module=module, name=name))
    served = serve("there:app", directory=tmp_path)
    try:
        url = f"http://127.0.0.1:{port_of(served)}/"
        asked = ["curl", "-s", "-D-", "-o", "/dev/null", "-H", f"Accept-Encoding: {coding}", url]
        done = subprocess.run(asked, capture_output=True, text=True, check=True, timeout=PATIENCE_S)
        assert f"content-encoding: {coding}\n" in done.stdout.lower().replace("\r", "")
    finally:
        served.end()


COVERED = """
import urllib.request
import jissoku

def app(environ, start_response):
    start_response("200 OK", [])
    return [b"seen"]

with jissoku.serve_in_thread(app) as live:
    assert urllib.request.urlopen(live.url).read() == b"seen"
"""


@pytest.mark.slow
def test_coverage_measures_an_application_in_a_thread(tmp_path: Path) -> None:
    pytest.importorskip("coverage")
    (tmp_path / "script.py").write_text(COVERED)
    for words in (["run", "script.py"], ["report", "--fail-under=100", "--include=script.py"]):
        done = subprocess.run(
            [sys.executable, "-m", "coverage", *words],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT_S,
        )
        assert done.returncode == 0, done.stdout + done.stderr
