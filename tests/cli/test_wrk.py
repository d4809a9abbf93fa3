"""`jissoku wrk`: the values that scripts read from reports of wrk exist, and are correct."""

import re
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from jissoku.inference.tool_values import read_values
from jissoku.measure.oracle import read_tools
from tests.conftest import Run

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
NOT_FOUND = b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno"


class Server:
    """Answers requests with 200, and those for `/missing` with 404; counts them.

    Of those for `/sometimes` every fourth gets no response.
    """

    def __init__(self) -> None:
        self.requests = 0
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):  # The listener was closed.
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        received = b""
        with connection, suppress(ConnectionError):
            while some := connection.recv(65536):
                received += some
                while b"\r\n\r\n" in received:
                    head, _, received = received.partition(b"\r\n\r\n")
                    with self._lock:
                        self.requests += 1
                    if b"/sometimes" in head and self.requests % 4 == 0:
                        continue
                    connection.sendall(NOT_FOUND if b"/missing" in head else OK)


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.close()


def test_a_parser_of_wrks_report_reads_ours(server: Server, run: Run, tmp_path: Path) -> None:
    words = ["wrk", "-t1", "-c2", "-d200ms", "-R100", "--latency", f"{server.url}/"]
    done = run(words, tmp_path)
    assert done.returncode == 0, done
    lines = done.stdout.splitlines()
    assert lines[1] == "  1 threads and 2 connections"
    assert [line.split()[0] for line in lines if re.match(r" {4}\d+% ", line)] == [
        "50%", "75%", "90%", "99%",
    ]  # fmt: skip
    assert any(line.startswith("Transfer/sec:") for line in lines)
    values = read_tools()["wrk"].read
    found = read_values(values, done.stdout)
    assert found.keys() == values.keys()
    assert 0 < found["requests"] <= server.requests
    assert found["rate_rps"] > 0
    assert {value for name, value in found.items() if name.startswith("errors")} == {0}


@pytest.mark.slow
def test_error_statuses_are_reported_and_in_no_rate(
    server: Server, run: Run, tmp_path: Path
) -> None:
    done = run(["wrk", "-t1", "-c2", "-d1s", f"{server.url}/missing"], tmp_path)
    assert done.returncode == 1
    assert re.search(r"Non-2xx or 3xx responses: [1-9]", done.stdout)
    assert re.search(r"Requests/sec:\s+0\.00", done.stdout)


@pytest.mark.slow
def test_requests_without_a_response_are_in_the_statistics(
    server: Server, run: Run, tmp_path: Path
) -> None:
    words = ["wrk", "-t1", "-c2", "-d1s", "-T", "100ms", f"{server.url}/sometimes"]
    done = run(words, tmp_path)
    row = next(line for line in done.stdout.splitlines() if line.startswith("    Latency"))
    found = re.fullmatch(
        r"    Latency +([0-9.]+)ms +[0-9.]+ms +([0-9.]+)ms +[0-9.]+%  or more", row
    )
    assert found is not None, done.stdout
    # A quarter has waited for 100 ms.
    assert float(found[1]) > 15
    assert float(found[2]) >= 100
