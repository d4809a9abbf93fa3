"""What a client with one request at a time sees of a server that names itself and compresses."""

import gzip
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from jissoku.measure import probes
from jissoku.measure.client import RequestTarget, answer_fields
from jissoku.model import Workload
from jissoku.system.address import Address
from jissoku.system.interruption import Interrupted


class Compressing(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "Werkzeug/3.0", ""

    def do_GET(self) -> None:
        body = b"Hello, World!" * 100
        self.send_response(200)
        if "gzip" in self.headers.get("Accept-Encoding", ""):
            body = gzip.compress(body)
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def address() -> Iterator[Address]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Compressing) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield Address(port=server.server_port)
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("headers", "coding", "accepting"),
    [((), None, "gzip"), ((("Accept-Encoding", "identity"),), None, None)],
    ids=["not asked", "asked for another"],
)
def test_a_client_that_accepts_compressed_answers_sees_whether_there_are_any(
    address: Address,
    headers: tuple[tuple[str, str], ...],
    coding: str | None,
    accepting: str | None,
) -> None:
    asking = RequestTarget.of(address, Workload(headers=headers))
    assert answer_fields(asking)["Content-Encoding"] == coding
    assert answer_fields(asking)["Server"].startswith("Werkzeug/")
    assert answer_fields(asking.accepting_codings)["Content-Encoding"] == accepting


def test_thousands_of_idle_connections_end_with_an_interruption(address: Address) -> None:
    connected = []

    def check() -> None:
        connected.append(1)
        if len(connected) == 3:
            raise Interrupted

    asking = RequestTarget.of(address, Workload())
    with pytest.raises(Interrupted), probes._held(asking, check):
        pass
    assert len(connected) == 3
