"""Other tools' command lines: what scripts take from their reports is there, and true."""

import json
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from jissoku.calibrate import read_tools
from jissoku.calibrate.report_parser import read_values
from tests.conftest import Done, Run

RIGHT = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
WRONG = b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno"


class Server:
    """Answers every request rightly, but for `/missing`; keeps the first request's bytes."""

    def __init__(self) -> None:
        self.first = b""
        self.asked = 0
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
                        self.first = self.first or head
                        self.asked += 1
                    connection.sendall(WRONG if b"/missing" in head else RIGHT)


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.close()


def lines(done: Done) -> list[str]:
    assert done.returncode == 0, done
    return done.stdout.splitlines()


def test_hey_sends_what_hey_sends_and_counts_every_answer(
    server: Server, run: Run, tmp_path: Path
) -> None:
    text = lines(run(["hey", "-n", "21", "-c", "4", f"{server.url}/a"], tmp_path))
    assert server.asked == 21
    assert server.first.startswith(b"GET /a HTTP/1.1\r\n")
    for field in (b"Accept-Encoding: gzip", b"Content-Type: text/html"):
        assert field in server.first
    assert "  [200]\t21 responses" in text
    assert sum(int(row[1]) for line in text if (row := re.match(r"  0.\d+ \[(\d+)\]", line))) == 21
    [rate] = [float(line.split()[1]) for line in text if line.startswith("  Requests/sec:")]
    assert rate > 0
    assert [line.split()[0] for line in text if "% in " in line] == [
        f"{percent}%" for percent in (10, 25, 50, 75, 90, 95, 99)
    ]
    assert "jissoku notes:" in text
    assert "  -n is exact here: hey leaves 1 of them out" in text


def test_the_lines_of_hey_are_read_as_those_of_the_original(
    server: Server, run: Run, tmp_path: Path
) -> None:
    text = lines(run(["hey", "-n", "8", "-c", "2", "-o", "csv", f"{server.url}/"], tmp_path))
    head, *rows = [line.split(",") for line in text]
    assert head[0] == "response-time"
    assert len(rows) == 8
    assert {row[head.index("status-code")] for row in rows} == {"200"}
    assert {row[head.index("DNS")] for row in rows} == {""}, "what is not measured is no zero"
    assert all(float(row[0]) >= 0 for row in rows)


def test_rates_of_hey_are_those_of_each_worker(server: Server, run: Run, tmp_path: Path) -> None:
    words = ["hey", "-n", "20", "-c", "2", "-q", "50", f"{server.url}/"]
    text = "\n".join(lines(run(words, tmp_path)))
    assert "-q 50 for each of 2 is 100 requests/s in all" in text


def test_wrong_answers_are_told_and_not_counted_as_work(
    server: Server, run: Run, tmp_path: Path
) -> None:
    for verb in ("hey", "oha"):
        done = run([verb, "-n", "6", "-c", "2", f"{server.url}/missing"], tmp_path)
        assert done.returncode == 1
        assert re.search(r"\[404\]\s6 responses", done.stdout)
        assert re.search(r"Requests/sec:\s0.0000", done.stdout)
        assert "6 answers have a status of failure" in done.stdout


def test_oha_has_its_summary_and_its_keys(server: Server, run: Run, tmp_path: Path) -> None:
    text = lines(run(["oha", "--no-tui", "-n", "30", "-c", "3", f"{server.url}/"], tmp_path))
    assert text[:2] == ["Summary:", "  Success rate:\t100.00%"]
    assert "  [200] 30 responses" in text
    assert b"accept-encoding: gzip, compress, deflate, br" in server.first.lower()
    words = ["oha", "--no-tui", "-n", "30", "-c", "3", "--output-format", "json", "-o", "o.json"]
    assert lines(run([*words, f"{server.url}/"], tmp_path)) == []
    found = json.loads((tmp_path / "o.json").read_text())
    assert found["statusCodeDistribution"] == {"200": 30}
    assert found["errorDistribution"] == {}
    assert sum(found["responseTimeHistogram"].values()) == 30
    assert found["summary"]["fastest"] <= found["latencyPercentiles"]["p50"]
    assert found["latencyPercentiles"]["p50"] <= found["latencyPercentiles"]["p99.99"]
    assert found["summary"]["successRate"] == 1
    assert found["details"]["firstByte"]["average"] is None
    assert "all self-checks passed" in found["jissokuNotes"]


def test_wrk2_has_both_distributions(server: Server, run: Run, tmp_path: Path) -> None:
    words = ["wrk2", "-t1", "-c2", "-d1s", "-R50", "-U", f"{server.url}/"]
    text = lines(run(words, tmp_path))
    assert "  Latency Distribution (HdrHistogram - Recorded Latency)" in text
    assert sum("Uncorrected Latency" in line for line in text) == 1
    assert [line.split()[0] for line in text if re.match(r" *\d+\.\d{3}% ", line)][:8] == [
        "50.000%", "75.000%", "90.000%", "99.000%", "99.900%", "99.990%", "99.999%", "100.000%",
    ]  # fmt: skip
    assert sum(line.startswith("#[Mean") for line in text) == 2
    assert sum(line.endswith(" inf") for line in text) == 2
    assert any(line.startswith("Requests/sec:") for line in text)
    assert any(line.startswith("Transfer/sec:") for line in text)


def test_a_refusal_is_one_line(run: Run, tmp_path: Path) -> None:
    for words in (["hey", "-x", "a:1"], ["oha", "--db-url", "x"], ["oha", "--http2"]):
        done = run([*words, "http://127.0.0.1:1/"], tmp_path)
        assert done.returncode == 2
        assert done.stderr.count("\n") == 1
        assert words[1] in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["hey", "-n", "40", "-c", "4"],
        ["oha", "--no-tui", "--output-format", "json", "-n", "40", "-c", "4"],
        ["ab", "-k", "-n", "40", "-c", "4"],
    ],
    ids=lambda words: words[0],
)
def test_who_reads_the_original_reads_these(
    words: list[str], server: Server, run: Run, tmp_path: Path
) -> None:
    text = "\n".join(lines(run([*words, f"{server.url}/"], tmp_path)))
    read = read_tools()[words[0]].read
    found = read_values(read, text)
    assert found.keys() == read.keys()
    assert found["requests"] == 40
    assert {value for name, value in found.items() if name.startswith("errors")} == {0}
    assert found["rate_rps"] > 0
    assert found["p50_ns"] <= found["p99_ns"] <= found["max_ns"] * 1.01
