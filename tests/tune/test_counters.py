import http.server
import threading
from collections.abc import Iterator

import pytest

from jissoku.observe import counters, strace
from jissoku.observe.counters import RequestFailed, RequestSpec

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
def address(request: pytest.FixtureRequest) -> Iterator[tuple[str, int]]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), request.param) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield "127.0.0.1", server.server_address[1]
        server.shutdown()
        thread.join()


def test_calls_are_read_with_and_without_errors() -> None:
    assert strace.calls(TABLE) == {"writev": 400, "epoll_wait": 410, "rt_sigsuspend": 1}
    assert strace.calls("strace: attach: Operation not permitted\n") == {}


def test_connections_and_segments_are_counted_by_the_client(
    address: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jissoku.observe.strace.shutil.which", lambda _: None)
    found = counters.count_requests(1, RequestSpec(address=address, target="/"))
    assert found.per_request["connections"] == 0.25
    # On a busy machine the kernel may send one of them again, to probe for a loss (RFC 8985).
    assert found.per_request["segments"] == pytest.approx(2.0, abs=0.1)
    assert "strace is not installed" in found.syscalls_reason
    assert "writev" not in found.per_request


@pytest.mark.parametrize("address", [ClosesSilently], indirect=True)
def test_a_server_may_close_without_a_word(
    address: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jissoku.observe.strace.shutil.which", lambda _: None)
    found = counters.count_requests(1, RequestSpec(address=address, target="/"))
    assert found.requests == counters.REQUESTS
    assert found.per_request["connections"] == 1.0


def test_a_server_that_is_not_there_has_no_counters() -> None:
    with pytest.raises(RequestFailed, match="/gone was not answered"):
        counters.count_requests(1, RequestSpec(address="/nowhere/to/be/found.sock", target="/gone"))
