"""Memory of a gateway for clients that hold on: idle pairs, tunnels, and readers that stall."""

import resource
import selectors
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.endurance.conftest import GET, Server, print_line, serving

pytestmark = pytest.mark.endurance

KIB = 1024
PAIRS = 10_000
READERS = 1000
FILE_SIZE = KIB**3

# Descriptors that a process needs besides its connections.
SPARE = 100

UPGRADE = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
SWITCHED = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"


def pairs() -> int:
    """How many pairs this machine allows a gateway, and a test that is at both of their ends."""
    return min(PAIRS, (resource.getrlimit(resource.RLIMIT_NOFILE)[0] - SPARE) // 2)


class HoldingOrigin:
    """A server that answers all requests when it may, so that none shares a connection."""

    def __init__(self, response: bytes) -> None:
        self.response = response
        self.may_respond = threading.Event()
        self.requests = 0
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
        self.port = self.listener.getsockname()[1]
        self.connections: list[socket.socket] = []
        self.is_ended = threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self) -> None:
        waiting: list[socket.socket] = []
        with selectors.DefaultSelector() as selector:
            selector.register(self.listener, selectors.EVENT_READ)
            while not self.is_ended.is_set():
                for key, _ in selector.select(0.1):
                    opened = key.fileobj
                    assert isinstance(opened, socket.socket)
                    if opened is self.listener:
                        accepted, _ = opened.accept()
                        self.connections.append(accepted)
                        selector.register(accepted, selectors.EVENT_READ)
                    elif opened.recv(4096):
                        waiting.append(opened)
                        self.requests += 1
                    else:
                        selector.unregister(opened)
                if self.may_respond.is_set():
                    for opened in waiting:
                        opened.sendall(self.response)
                    waiting.clear()


@contextmanager
def holding_origin(response: bytes) -> Iterator[HoldingOrigin]:
    origin = HoldingOrigin(response)
    origin.thread.start()
    try:
        yield origin
    finally:
        origin.is_ended.set()
        origin.thread.join()
        for opened in [origin.listener, *origin.connections]:
            opened.close()


@contextmanager
def gateway_to(origin: str, folder: Path) -> Iterator[Server]:
    config = folder / "serve.toml"
    config.write_text(
        # A busy machine accepts late, and a request answered with 504 would never reach the server.
        "connect-time-max = '60s'\n"
        "workers = 1\nhead-time-max = '300s'\nidle-time-max = '300s'\n"
        f"[upstream.app]\nservers = ['{origin}']\nconnections-max = 20000\nidle-time = '300s'\n"
        "[[route]]\npath = '/**'\nto = 'app'\n"
    )
    with serving("--config", str(config)) as gateway:
        yield gateway


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("request_head", "response"), [(GET, OK), (UPGRADE, SWITCHED)], ids=["idle", "tunnel"]
)
def test_a_held_pair_takes_little_memory(
    request_head: bytes, response: bytes, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    count = pairs()
    with (
        holding_origin(response) as origin,
        gateway_to(f"127.0.0.1:{origin.port}", tmp_path) as gateway,
    ):
        before = gateway.rss_bytes()
        held = [gateway.connect(limit_s=60) for _ in range(count)]
        for opened in held:
            opened.sendall(request_head)
        while origin.requests < count:
            time.sleep(0.1)
        waiting = (gateway.rss_bytes() - before) / count
        assert gateway.descriptors() >= 2 * count
        origin.may_respond.set()
        for opened in held:
            assert opened.recv(4096).startswith(response[:12])
        after = (gateway.rss_bytes() - before) / count
        for opened in held:
            opened.close()
    print_line(
        request,
        f"{count:,} pairs of connections: {waiting:,.0f} bytes each while the response is awaited, "
        f"{after:,.0f} after it",
    )
    assert max(waiting, after) <= 4 * KIB


@pytest.mark.timeout(900)
def test_readers_that_stall_hold_little_memory(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    (tmp_path / "files").mkdir()
    with (tmp_path / "files" / "large").open("wb") as file:
        file.truncate(FILE_SIZE)
    with (
        serving(str(tmp_path / "files"), "--workers", "1") as origin,
        gateway_to("{}:{}".format(*origin.address), tmp_path) as gateway,
    ):
        before = gateway.rss_bytes()
        held = [stalled(gateway) for _ in range(READERS)]
        whole = settled_rss(gateway) - before
        for opened in held:
            opened.close()
    print_line(
        request, f"{READERS:,} readers of 1 GiB that stall: {whole / KIB**2:,.1f} MiB in all"
    )
    assert whole <= 128 * KIB**2


def stalled(gateway: Server) -> socket.socket:
    """A client that asks for a large file, and does not read on."""
    opened = gateway.connect(limit_s=60)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    opened.sendall(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n")
    assert opened.recv(15) == b"HTTP/1.1 200 OK"
    return opened


def settled_rss(gateway: Server) -> int:
    """The resident memory once the gateway uses no CPU time, because all output is stalled."""
    before, now = -1.0, gateway.cpu_s()
    while before != now:
        time.sleep(0.3)
        before, now = now, gateway.cpu_s()
    return gateway.rss_bytes()
