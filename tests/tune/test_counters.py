import http.server
import threading
from collections.abc import Iterator

import pytest

from jissoku.measure import counting
from jissoku.measure.client import ProbeError, RequestTarget
from jissoku.measure.inspection import LocalInspector
from jissoku.model import CoreAssignment
from jissoku.system.address import Address
from jissoku.system.strace import counts_by_name

INSPECTOR = LocalInspector(1, CoreAssignment(server=(0,), generator=(0,), shared=True))

# As strace 6.1 writes it.
TABLE = """% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 41.20    0.001210           3       400           writev
 20.00    0.000500           1       410        10 epoll_wait
  0.00    0.000000           0         1         1 rt_sigsuspend
------ ----------- ----------- --------- --------- ----------------
100.00    0.001710           2       811        11 total
"""


class Talks(http.server.BaseHTTPRequestHandler):
    """Answers in two segments, and closes a connection after the fourth request."""

    protocol_version = "HTTP/1.1"
    asked = 0

    def do_GET(self) -> None:
        self.asked += 1
        self.close_connection = self.asked == 4
        fields = b"Connection: close\r\n" if self.close_connection else b""
        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n" + fields + b"\r\n")
        self.wfile.write(b"42")

    def log_message(self, *_: object) -> None:
        """Nothing is logged."""


class ClosesSilently(Talks):
    """Closes each connection after its answer, and does not say so."""

    def do_GET(self) -> None:
        self.close_connection = True
        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n42")


@pytest.fixture(params=[Talks])
def target(request: pytest.FixtureRequest) -> Iterator[RequestTarget]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), request.param) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield asking(Address(port=server.server_address[1]))
        server.shutdown()
        thread.join()


def test_calls_are_read_with_and_without_errors() -> None:
    assert counts_by_name(TABLE) == {"writev": 400, "epoll_wait": 410, "rt_sigsuspend": 1}
    assert counts_by_name("strace: attach: Operation not permitted\n") == {}


@pytest.mark.slow
def test_connections_and_segments_are_counted_by_the_client(
    target: RequestTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jissoku.system.strace.shutil.which", lambda _: None)
    found = counting.count_requests(INSPECTOR, target)
    assert found.per_request["connections"] == 0.25
    # On a busy machine the kernel may send one of them again, to probe for a loss (RFC 8985).
    assert found.per_request["segments"] == pytest.approx(2.0, abs=0.1)
    assert "strace is not installed" in found.syscalls_reason
    assert "writev" not in found.per_request


@pytest.mark.slow
@pytest.mark.parametrize("target", [ClosesSilently], indirect=True)
def test_a_server_may_close_without_a_word(
    target: RequestTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jissoku.system.strace.shutil.which", lambda _: None)
    found = counting.count_requests(INSPECTOR, target)
    assert found.requests == counting.REQUESTS
    assert found.per_request["connections"] == 1.0


def test_a_server_that_is_not_there_has_no_counters() -> None:
    with pytest.raises(ProbeError, match="was not answered"):
        counting.count_requests(INSPECTOR, asking(Address(socket="/nowhere/to/be/found.sock")))


def asking(address: Address) -> RequestTarget:
    return RequestTarget(connect=address.connect, request=b"GET / HTTP/1.1\r\nHost: here\r\n\r\n")
