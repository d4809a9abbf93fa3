"""Nine hundred clients of every slow kind at once, together with a normal one."""

import selectors
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.endurance.conftest import Server, loading, print_line, serving

pytestmark = pytest.mark.endurance

PER_KIND = 130
POST = b"POST / HTTP/1.1\r\nHost: a\r\n"

# Kind: what is sent first, what is sent every second, and after how many seconds it has to be over:
# the limit and a second, with the minimum rate that docs/serve.md recommends for hostile clients.
KINDS = {
    "slow head": (b"GET / HTTP/1.1\r\n", b"X-Slow: yes\r\n", 11),
    "dripped byte": (b"GET / HTTP/1.1\r\nX: ", b"a", 11),
    "slow body": (POST + b"Content-Length: 100000\r\n\r\n", b"b", 7),
    "slow chunks": (POST + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\nc\r\n", 7),
    "slow reader": (b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n", b"", 9),
    "half-open": (b"", b"", 11),
    "idle": (b"GET /small HTTP/1.1\r\nHost: a\r\n\r\n", b"", 77),
}
LONGEST_S = max(limit for _, _, limit in KINDS.values())

HONEST_WORST_NS = 50_000_000


@dataclass(slots=True)
class Attacker:
    """One slow client."""

    kind: str
    socket: socket.socket
    began: float = field(default_factory=time.monotonic)
    ended: float | None = None

    @property
    def port(self) -> int:
        port: int = self.socket.getsockname()[1]
        return port

    def drip(self) -> None:
        """Performs the action of its kind, once a second."""
        piece = KINDS[self.kind][1]
        try:
            if piece:
                self.socket.send(piece)
            elif self.kind == "slow reader":
                self.look(self.socket.recv(1))
        except BlockingIOError:
            pass
        except OSError:
            self.ended = time.monotonic()

    def look(self, received: bytes) -> None:
        """Records the end of the connection, or the rejection before it."""
        if not received or received.startswith(b"HTTP/1.1 408"):
            self.ended = time.monotonic()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "large").write_bytes(bytes(64 * 1024 * 1024))
    (tmp_path / "small").write_bytes(b"small")
    return tmp_path


def attackers(server: Server) -> Iterator[Attacker]:
    for kind, (first, _, _) in KINDS.items():
        for _ in range(PER_KIND):
            connection = socket.socket()
            if kind == "slow reader":
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.connect(server.address)
            connection.sendall(first)
            connection.setblocking(False)  # noqa: FBT003
            yield Attacker(kind, connection)


def attack(server: Server, clients: list[Attacker]) -> None:
    """Drips until all have been dropped, or have had twice the time.

    A client with a closed receive window does not receive the reset either, since its number lies
    beyond what there is room for (RFC 9293 section 3.10.7.4): of slow readers the server's side
    shows.
    """
    deadline = time.monotonic() + 2 * LONGEST_S
    with selectors.DefaultSelector() as selector:
        for attacker in clients:
            if attacker.kind != "slow reader":
                selector.register(attacker.socket, selectors.EVENT_READ, attacker)
        drips = time.monotonic() + 1
        while any(a.ended is None for a in clients) and time.monotonic() < deadline:
            for key, _ in selector.select(max(0.0, drips - time.monotonic())):
                try:
                    key.data.look(key.data.socket.recv(4096))
                except OSError:
                    key.data.ended = time.monotonic()
                if key.data.ended is not None:
                    selector.unregister(key.fileobj)
            if time.monotonic() >= drips:
                drips += 1
                drip(server, [attacker for attacker in clients if attacker.ended is None])


def drip(server: Server, clients: list[Attacker]) -> None:
    """The action of all remaining clients, once a second."""
    left = server.peers()
    for attacker in clients:
        if attacker.kind == "slow reader" and attacker.port not in left:
            attacker.ended = time.monotonic()
        else:
            attacker.drip()


@pytest.mark.timeout(400)
def test_the_slow_are_dropped_and_the_honest_notice_nothing(
    folder: Path, request: pytest.FixtureRequest
) -> None:
    warnings = ("-c", "4", "-R", "200", "-d", f"{LONGEST_S + 5}s")
    with serving(str(folder), "--workers", "1", "--pace-min", "240") as server:
        with loading(*warnings, f"{server.url}small") as load:
            clients = list(attackers(server))
            attack(server, clients)
            measurement = load.report()["targets"][0]
        for attacker in clients:
            attacker.socket.close()
    late = []
    for kind, (_, _, limit) in KINDS.items():
        lasted = [a.ended - a.began for a in clients if a.kind == kind and a.ended is not None]
        dropped = f"{len(lasted)} of {PER_KIND} dropped"
        print_line(
            request, f"{kind}: {dropped}, the last after {max(lasted, default=0):.1f} s ({limit} s)"
        )
        late += [kind] * (len(lasted) < PER_KIND)
    worst_ns = measurement["latency_ns"]["max"]
    print_line(
        request, f"honest requests: {measurement['requests']:,}, worst {worst_ns / 1e6:.1f} ms"
    )
    assert not late
    assert not any(measurement["errors"].values()), measurement["errors"]
