"""A gateway that lacks descriptors for connections to servers."""

import resource
import threading
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path

from tests.serving.origin import Origin, held_until
from tests.serving.server_process import PATIENCE_S, Start, connect
from tests.serving.test_failure_matrix import Gateway


def limit_descriptors(pid: int, most: int) -> None:
    """Sets how many the process may have."""
    _, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (most, hard))


def lowest_unused(pid: int) -> int:
    """The descriptor that the process would open next."""
    used = {int(entry.name) for entry in Path(f"/proc/{pid}/fd").iterdir()}
    return next(number for number in range(len(used) + 1) if number not in used)


def status_of(connection: HTTPConnection, path: str) -> tuple[int, str | None]:
    """The status of a response on this connection, and its Retry-After."""
    connection.request("GET", path)
    response = connection.getresponse()
    response.read()
    return response.status, response.getheader("Retry-After")


def wait_for_end(origin: Origin) -> None:
    """Waits until the gateway has closed its connections to a server."""
    for _ in range(int(100 * PATIENCE_S)):
        if not origin.connections:
            break
        origin.thread.join(0.01)
    assert not origin.connections


def test_the_oldest_unused_connection_makes_room_or_the_response_is_503(
    tmp_path: Path, start: Start
) -> None:
    is_free = threading.Event()
    with (
        Origin("a") as one,
        Origin("b") as two,
        Origin("c", held_until(is_free)) as held,
        ThreadPoolExecutor() as pool,
    ):
        text = "".join(
            f"[upstream.{name}]\nservers = {[at.address for at in servers]}\nidle-time = '1h'\n"
            f"failures = 1\n[[route]]\npath = '/{name}'\nto = '{name}'\n"
            for name, servers in {"one": [one], "two": [two], "held": [held]}.items()
        )
        gateway = Gateway(tmp_path, start, text)
        pid = gateway.served.process.pid
        ours, *others = [connect(gateway.port) for _ in range(3)]
        # All clients are accepted, and the connection to the second server is unused for longest.
        assert status_of(ours, "/two") == (200, None)
        assert [status_of(client, "/one") for client in (ours, *others)] == [(200, None)] * 3
        before, _ = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        limit_descriptors(pid, lowest_unused(pid))
        waiting = [pool.submit(status_of, others[0], "/held")]
        wait_for_end(two)
        assert len(one.connections) == 1
        waiting.append(pool.submit(status_of, others[1], "/held"))
        wait_for_end(one)
        while len(held.requests) < 2:
            assert gateway.served.process.poll() is None
        assert status_of(ours, "/two") == (503, "1")
        is_free.set()
        assert [each.result(PATIENCE_S) for each in waiting] == [(200, None)] * 2
        assert status_of(ours, "/two") == (200, None)
        for client in (ours, *others):
            client.close()
        limit_descriptors(pid, before)
        labels = {"upstream": "two", "reason": "proxy_internal_error"}
        assert gateway.metric("failures_total", **labels) == 1
        errors = gateway.errors()
    assert [error for error in errors if error] == ["proxy_internal_error"]
