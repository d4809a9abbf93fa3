"""The recipe kernel-httpd over sockets: responses of the kernel, and those of the process."""

import os
import random
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from jissoku.model import UnavailableTarget, Workload
from jissoku.model.updated import updated
from jissoku.system.address import HOST, free_port
from jissoku.targets import catalogue, contract, launch, process, response
from jissoku.targets.placeholders import APPS, BuildPaths
from jissoku.targets.prepare import PreparedTarget, missing_requirement, prepare
from jissoku.targets.process import LaunchOptions, RunningTarget

RECIPE = catalogue.recipes()["kernel-httpd"]
PLAIN = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
LIMIT_S = 10.0


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> PreparedTarget:
    folder = tmp_path_factory.mktemp("kernel")
    found = prepare(RECIPE, BuildPaths(cache=folder, files=folder))
    if isinstance(found, UnavailableTarget):
        pytest.skip(found.sentence)
    return found


@pytest.fixture(scope="module")
def running(prepared: PreparedTarget) -> Iterator[RunningTarget]:
    with started(prepared) as found:
        yield found


@pytest.fixture
def alone(prepared: PreparedTarget) -> Iterator[RunningTarget]:
    """One that its test may stop."""
    with started(prepared) as found:
        yield found


def started(prepared: PreparedTarget, host: str = HOST) -> RunningTarget:
    cores = tuple(sorted(os.sched_getaffinity(0)))
    port = free_port(random.Random())
    placement = LaunchOptions(port=port, cores=cores, workers=1, seed=1, host=host)
    found = process.start(prepared, placement)
    launch.wait_until_ready(found, Workload())
    return found


def test_it_listens_at_the_address_that_it_is_given(prepared: PreparedTarget) -> None:
    with started(prepared, "127.0.0.3") as found, connect(found) as connection:
        assert connection.getpeername()[0] == "127.0.0.3"


@pytest.fixture
def connection(running: RunningTarget) -> Iterator[socket.socket]:
    """One that the kernel's part has: its first answer may be the process's."""
    with connect(running) as found:
        ask(found, PLAIN)
        yield found


def connect(running: RunningTarget) -> socket.socket:
    found = running.address.connect(LIMIT_S)
    found.settimeout(LIMIT_S)
    return found


def ask(connection: socket.socket, request: bytes, answers: int = 1) -> list[bytes]:
    """Sends, and reads `count` responses, each to the end of its 13 bytes or of the connection."""
    connection.sendall(request)
    received = b""
    while received.count(b"Hello, World!") < answers:
        piece = connection.recv(4096)
        if not piece:
            break
        received += piece
    return re.findall(rb"HTTP/1\.1 (\d+)", received)


@pytest.mark.slow
def test_the_contract_is_answered_inside_the_kernel(alone: RunningTarget) -> None:
    right = contract.expected_response("/")
    assert right is not None
    response.check_response(response.send_request(alone.address, Workload()), right)
    connections = [connect(alone) for _ in range(20)]
    # Shorter than the answer, as long, and longer.
    for size in (1, 38, 39, 40, 900):
        padded = PLAIN[:-2] + b"X-Padding: " + b"x" * (size - 1) + b"\r\n\r\n"
        for connection in connections:
            connection.sendall(padded)
        for connection in connections:
            assert ask(connection, b"") == [b"200"]
    for connection in connections:
        connection.close()
    assert alone.stop(), "SIGTERM sufficed"
    found = re.search(r"inside the kernel: (\d+), by the process: (\d+)", alone.output_tail())
    assert found, alone.output_tail()
    # Each connection may have asked before it was put into the map.
    assert int(found[1]) >= 80
    assert int(found[1]) + int(found[2]) >= 101


@pytest.mark.parametrize(
    ("request_", "statuses"),
    [
        (PLAIN * 3, [b"200"] * 3),
        (b"GET /42 HTTP/1.1\r\nHost: x\r\n\r\n", [b"404"]),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nab", [b"501"]),
        (b"GET / HTTP/1.1\r\nHost: x\r\ncontent-length: 2\r\n\r\nab", [b"501"]),
        (b"GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", [b"501"]),
        (b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", [b"200"]),
        (PLAIN[:-2] + b"X-Padding: " + b"x" * 2000 + b"\r\n\r\n", [b"200"]),
    ],
)
def test_what_the_kernel_leaves_the_process_answers(
    connection: socket.socket, request_: bytes, statuses: list[bytes]
) -> None:
    assert ask(connection, request_, len(statuses)) == statuses


def test_a_head_in_pieces_is_answered_once_and_what_follows_too(connection: socket.socket) -> None:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for piece in (PLAIN[:4], PLAIN[4:20]):
        connection.sendall(piece)
    assert ask(connection, PLAIN[20:]) == [b"200"]
    assert ask(connection, PLAIN) == [b"200"]


def test_a_connection_that_is_to_end_is_ended(connection: socket.socket) -> None:
    ask(connection, b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert connection.recv(1) == b""


def test_nothing_of_it_stays_in_the_kernel(alone: RunningTarget) -> None:
    with connect(alone) as connection:
        ask(connection, PLAIN)
        assert alone.stop(), "SIGTERM sufficed"
        assert connection.recv(1) == b""


@pytest.mark.parametrize(
    ("probe", "reason"),
    [
        ("import sys; sys.exit('it is Tuesday')", "it is Tuesday"),
        ("raise SystemExit(3)", "its probe exited with 3"),
        ("print('fine')", ""),
    ],
)
def test_an_unmet_requirement_of_a_recipe_has_its_reason(
    tmp_path: Path, probe: str, reason: str
) -> None:
    ours = updated(
        catalogue.recipes()["http-server"], probe=("{python}", "-c", probe), install="get it"
    )
    lack = missing_requirement(ours, BuildPaths(cache=tmp_path, files=tmp_path))
    assert (lack.reason if lack else "") == reason
    assert lack is None or lack.install_hint == "get it"


def test_the_probe_names_what_is_missing(tmp_path: Path) -> None:
    """Without pkg-config's table of libbpf, as on a machine where it was never installed."""
    probe = [sys.executable, str(APPS / "kernel_httpd_probe.py")]
    bare = {"PATH": os.environ["PATH"], "PKG_CONFIG_LIBDIR": str(tmp_path)}
    done = subprocess.run(probe, capture_output=True, text=True, env=bare, check=False)
    assert done.returncode == 1
    assert (
        done.stderr
        == "libbpf, which loads programs into the kernel, is not here to be built with\n"
    )
