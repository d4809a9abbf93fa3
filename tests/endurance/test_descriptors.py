"""Exhausted descriptors: open connections are unaffected, and no core spins."""

import select
import socket
import time

import pytest

from tests.endurance.conftest import GET, answers, print_line, serving

pytestmark = pytest.mark.endurance

LIMIT = 256
WATCHED_S = 5.0


def waiting(server_limit: int) -> int:
    """More connections than the server can have."""
    return server_limit + 100


@pytest.mark.timeout(120)
def test_a_server_without_descriptors_answers_who_it_has(request: pytest.FixtureRequest) -> None:
    with serving("--fixed", "Hello", "--workers", "1", files=LIMIT) as server:
        connections = [server.connect() for _ in range(waiting(LIMIT))]
        for connection in connections:
            connection.sendall(GET)
        answered = served(connections)
        cpu_s, begun = server.cpu_s(), time.monotonic()
        while time.monotonic() - begun < WATCHED_S:
            assert answers(answered, GET) == len(answered)
            time.sleep(0.5)
        busy = (server.cpu_s() - cpu_s) / (time.monotonic() - begun)
        for connection in connections:
            connection.close()
        begun = time.monotonic()
        with server.connect() as newcomer:
            assert answers([newcomer], GET) == 1
        back_s = time.monotonic() - begun
    print_line(
        request, f"{len(answered)} of {len(connections)} connections fit into {LIMIT} descriptors"
    )
    print_line(
        request, f"{100 * busy:.1f} % of a core while the others waited; {back_s:.3f} s to recover"
    )
    assert len(answered) > LIMIT // 2
    assert busy < 0.05


def served(connections: list[socket.socket]) -> list[socket.socket]:
    """Clients that received an answer; the others wait in the kernel."""
    found: list[socket.socket] = []
    while ready := select.select(set(connections) - set(found), [], [], 1.0)[0]:
        for connection in ready:
            assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")
        found += ready
    return found
