"""IPv4 clients of a listener on [::] are IPv4 clients, wherever their address is used."""

import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.serving.server_process import PATIENCE_S, Start
from tests.serving.test_gateway_log import lines_of

APP = """
async def app(scope, receive, send):
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": scope["client"][0].encode()})


def wsgi(environ, start_response):
    start_response("200 OK", [])
    return [environ["REMOTE_ADDR"].encode()]
"""


class Reflecting(BaseHTTPRequestHandler):
    """Responds with the forwarded client."""

    def do_GET(self) -> None:
        body = self.headers["X-Forwarded-For"].encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Says nothing."""


def get(port: int, path: str, *fields: str, source: str = "127.0.0.1") -> tuple[int, str]:
    """Status and body of a response to a client with this address."""
    lines = [f"GET {path} HTTP/1.1", "Host: a", "Connection: close", *fields, "", ""]
    with socket.create_connection(("127.0.0.1", port), PATIENCE_S, (source, 0)) as client:
        client.sendall("\r\n".join(lines).encode())
        with client.makefile("rb") as stream:
            head, _, body = stream.read().partition(b"\r\n\r\n")
    return int(head[9:12]), body.decode()


@pytest.mark.parametrize("host", ["127.0.0.1", "[::]"])
def test_ipv4_clients_have_ipv4_addresses(tmp_path: Path, start: Start, host: str) -> None:
    (tmp_path / "web.py").write_text(APP)

    with ThreadingHTTPServer(("127.0.0.1", 0), Reflecting) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        file = tmp_path / "serve.toml"
        file.write_text(f"""
            listen = "{host}:0"
            workers = 1
            access-log = "access.log"
            log-format = "json"
            trusted-proxies = "127.0.0.9"
            [upstream.u]
            servers = ["127.0.0.1:{server.server_address[1]}"]
            [[route]]
            path = "/to"
            to = "u"
            [[route]]
            path = "/rate"
            fixed = "x"
            rate = {{ per = "address", requests = 1, every = "3600s" }}
            [[route]]
            path = "/**"
            app = "web:app"
        """)
        served = start("--config", str(file), "--app-dir", str(tmp_path))
        port = int(served.wait_for(r"http://.*:([0-9]+)/")[1])
        assert get(port, "/to") == (200, "127.0.0.1")
        assert get(port, "/app") == (200, "127.0.0.1")
        forwarded = "X-Forwarded-For: 192.0.2.7"
        assert get(port, "/app", forwarded, source="127.0.0.9") == (200, "192.0.2.7")
        assert get(port, "/app", forwarded) == (200, "127.0.0.1"), "it is not trusted"
        statuses = [get(port, "/rate", source=f"127.0.0.{last}")[0] for last in (2, 3, 2)]
        assert statuses == [200, 200, 429]
        logged = "\n".join(lines_of(served, tmp_path / "access.log"))
        server.shutdown()
    assert logged.count("127.0.0.1") >= 1
    assert "ffff" not in logged


def test_wsgi_applications_get_ipv4_addresses(tmp_path: Path, start: Start) -> None:
    (tmp_path / "web.py").write_text(APP)
    served = start("web:wsgi", "--app-dir", str(tmp_path), "--listen", "[::]:0")
    port = int(served.wait_for(r"http://.*:([0-9]+)/")[1])
    assert get(port, "/") == (200, "127.0.0.1")
