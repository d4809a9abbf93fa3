"""Files that applications hand to the server, and that change meanwhile."""

import http.client
import os
from pathlib import Path

import pytest

from tests.apps.conftest import port_of, serve
from tests.serving.server_process import PATIENCE_S

# More than the buffers of both sockets hold.
SIZE = 24 << 20

# Each file grows after the application has read its size.
WSGI = """
import os

SENT = os.path.join(os.path.dirname(__file__), "sent")

def app(environ, start_response):
    file = open(SENT, "rb")
    fields = [("Content-Length", str(os.path.getsize(SENT)))]
    with open(SENT, "ab") as log:
        log.write(b"more")
    start_response("200 OK", fields)
    return environ["wsgi.file_wrapper"](file)
"""

ASGI = """
import os

SENT = os.path.join(os.path.dirname(__file__), "sent")

async def app(scope, receive, send):
    if scope["type"] != "http":
        raise NotImplementedError
    fields = [(b"content-length", str(os.path.getsize(SENT)).encode())]
    with open(SENT, "ab") as log:
        log.write(b"more")
    await send({"type": "http.response.start", "status": 200, "headers": fields})
    await send({"type": "http.response.pathsend", "path": SENT})
"""


@pytest.mark.parametrize("source", [WSGI, ASGI], ids=["wsgi", "asgi"])
def test_a_file_that_changes_is_sent_up_to_its_announced_size(tmp_path: Path, source: str) -> None:
    (tmp_path / "there.py").write_text(source)
    sent = tmp_path / "sent"
    body = bytes(range(256)) * (SIZE // 256)
    sent.write_bytes(body)
    served = serve("there:app", directory=tmp_path)
    connection = http.client.HTTPConnection("127.0.0.1", port_of(served), timeout=PATIENCE_S)
    try:
        connection.request("GET", "/")
        response = connection.getresponse()
        sent.chmod(0o600)
        os.link(sent, tmp_path / "backup")
        with sent.open("ab") as log:
            log.write(b"and more")
        sent.rename(tmp_path / "rotated")
        assert response.read() == body
        sent.write_bytes(b"small")
        connection.request("GET", "/")
        assert connection.getresponse().read() == b"small"
    finally:
        connection.close()
        served.end()
