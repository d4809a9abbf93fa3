"""A separate server for each test, and external observation of it."""

import json
import os
import re
import resource
import selectors
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

JISSOKU = [sys.executable, "-m", "jissoku"]
IP_BIND_ADDRESS_NO_PORT = 24
GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Server:
    """A server that runs.

    Attributes:
        pid: Of its process.
        address: Where it listens.
    """

    pid: int
    address: tuple[str, int]

    @property
    def url(self) -> str:
        return f"http://{self.address[0]}:{self.address[1]}/"

    def connect(self, source: str = "127.0.0.1", limit_s: float = 5.0) -> socket.socket:
        """Connects from an address of this machine; closing resets, so that no port is kept."""
        connection = socket.socket()
        connection.settimeout(limit_s)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        # The port is chosen when the destination is known (ip(7)).
        connection.setsockopt(socket.IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1)
        connection.bind((source, 0))
        connection.connect(self.address)
        return connection

    def rss_bytes(self) -> int:
        status = Path(f"/proc/{self.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        assert found is not None
        return int(found[1]) * 1024

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.pid}/fd"))  # noqa: PTH208

    def peers(self) -> set[int]:
        """The ports of those whose connections it has not closed (proc_net_tcp(5), state 01)."""
        rows = (line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:])
        here = f":{self.address[1]:04X}"
        return {
            int(row[2].rpartition(":")[2], 16)
            for row in rows
            if row[1].endswith(here) and row[3] == "01"
        }

    def cpu_s(self) -> float:
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def serving(*warnings: str, files: int | None = None) -> Iterator[Server]:
    """Starts `jissoku lab serve` and ends it; `files` is the limit of its open descriptors."""

    command = [*JISSOKU, "lab", "serve", *warnings, "--listen", "127.0.0.1:0"]
    if files is not None:
        command = ["sh", "-c", f'ulimit -n {files}; exec "$@"', "sh", *command]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            found = re.match(r"listening on http://([\d.]+):(\d+)/", line)
            assert found is not None, line
            yield Server(process.pid, (found[1], int(found[2])))
            assert process.poll() is None, "the server died"
        finally:
            process.terminate()
            process.wait(timeout=30)


@dataclass(frozen=True, slots=True)
class Load:
    """A load generator that runs during a test."""

    process: subprocess.Popen[str]

    def report(self) -> dict[str, Any]:
        """Waits for its end, and reads its report."""
        out, complaint = self.process.communicate(timeout=7200)
        assert out, complaint
        found: dict[str, Any] = json.loads(out)
        return found


@contextmanager
def loading(*warnings: str) -> Iterator[Load]:
    """Starts `jissoku load --json`, and ends it if needed."""
    command = [*JISSOKU, "load", "--json", *warnings]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield Load(process)
        finally:
            process.terminate()


def answers(connections: list[socket.socket], request: bytes, limit_s: float = 60.0) -> int:
    """Sends a request on every connection, and counts those on which an answer with 200 came."""
    good = 0
    with selectors.DefaultSelector() as selector:
        for connection in connections:
            connection.sendall(request)
            selector.register(connection, selectors.EVENT_READ)
        left = len(connections)
        while left:
            ready = selector.select(limit_s)
            assert ready, f"{left} connections got no answer"
            for key, _ in ready:
                assert isinstance(key.fileobj, socket.socket)
                good += key.fileobj.recv(65536).startswith(b"HTTP/1.1 200 ")
                selector.unregister(key.fileobj)
                left -= 1
    return good


def print_line(request: pytest.FixtureRequest, text: str) -> None:
    """Prints a value past pytest's capture."""
    plugins = request.config.pluginmanager
    reporter, capture = plugins.get_plugin("terminalreporter"), plugins.get_plugin("capturemanager")
    assert reporter is not None
    assert capture is not None
    with capture.global_and_fixture_disabled():
        reporter.write_line(f"    {text}")


@pytest.fixture(autouse=True, scope="session")
def many_files() -> None:
    """Raises the limit of descriptors to its maximum."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
