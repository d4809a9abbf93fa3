"""Streams and tunnels after a reload: --drain-streams."""

import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.serving.server_process import COMMAND, PATIENCE_S, Start

SWITCH = b"HTTP/1.1 101 Go\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
EVENTS = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def receive(connection: socket.socket, end: bytes) -> bytes:
    """What comes up to these bytes."""
    received = b""
    while not received.endswith(end):
        part = connection.recv(65536)
        assert part, received
        received += part
    return received


def has_ended(connection: socket.socket) -> bool:
    """Whether nothing comes before its end."""
    try:
        return connection.recv(65536) == b""
    except ConnectionResetError:
        return True


class Pair:
    """A client, and the connection of the gateway for its request."""

    def __init__(self, stack: ExitStack, port: int, listener: socket.socket) -> None:
        self.client = stack.enter_context(socket.create_connection(("127.0.0.1", port), PATIENCE_S))
        self.stack, self.listener = stack, listener

    def ask(self, *fields: str) -> socket.socket:
        """Sends a request; the server's side of it."""
        lines = ["GET / HTTP/1.1", "Host: a", *fields, "", ""]
        self.client.sendall("\r\n".join(lines).encode())
        server, _ = self.listener.accept()
        self.stack.enter_context(server)
        server.settimeout(PATIENCE_S)
        receive(server, b"\r\n\r\n")
        return server


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(PATIENCE_S)
        yield listening


@pytest.mark.slow
@pytest.mark.parametrize("is_longer", [True, False])
def test_streams_and_tunnels_have_a_time_of_their_own(
    start: Start, listener: socket.socket, *, is_longer: bool
) -> None:
    streams = ["--drain-streams", "1h"] if is_longer else []
    served = start(
        "--to",
        f"http://127.0.0.1:{listener.getsockname()[1]}",
        "--listen",
        "127.0.0.1:0",
        "--workers",
        "1",
        "--drain-timeout",
        "1ms",
        *streams,
    )
    port = int(served.wait_for(r"http://127\.0\.0\.1:([0-9]+)/")[1])
    with ExitStack() as stack:
        waiting, tunnel, events = (Pair(stack, port, listener) for _ in range(3))
        waiting.ask()
        tunnel_server = tunnel.ask("Connection: Upgrade", "Upgrade: websocket")
        tunnel_server.sendall(SWITCH)
        receive(tunnel.client, b"\r\n\r\n")
        events_server = events.ask()
        events_server.sendall(EVENTS + b"1\r\na\r\n")
        receive(events.client, b"1\r\na\r\n")
        served.reload()
        # What has no response yet has the shorter time.
        assert has_ended(waiting.client)
        if not is_longer:
            assert has_ended(tunnel.client)
            assert has_ended(events.client)
            return
        tunnel.client.sendall(b"ping")
        assert receive(tunnel_server, b"ping") == b"ping"
        tunnel_server.sendall(b"pong")
        assert receive(tunnel.client, b"pong") == b"pong"
        events_server.sendall(b"1\r\nb\r\n0\r\n\r\n")
        assert receive(events.client, b"0\r\n\r\n") == b"1\r\nb\r\n0\r\n\r\n"
        # A stop does not wait for them.
        served.send_signal(signal.SIGINT)
        served.send_signal(signal.SIGINT)
        assert has_ended(tunnel.client)
    assert served.process.wait(PATIENCE_S) is not None


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("fixed = 'x'\ndrain-streams = 'soon'", 2, "write a duration"),
        ("fixed = 'x'\ndrain-streams = '25h'", 2, "the longest time is 24 h"),
        (
            "drain-timeout = '2m'\ndrain-streams = '1m'\nfixed = 'x'",
            2,
            "shorter than drain-timeout",
        ),
        ("fixed = 'x'\n\ndrain-streams = '299s'", 3, "shorter than drain-timeout"),
    ],
)
def test_a_bad_time_is_refused_with_its_line(
    tmp_path: Path, text: str, line: int, why: str
) -> None:
    file = tmp_path / "serve.toml"
    file.write_text(text + "\n")
    command = [*COMMAND, "--config", str(file), "--listen", "127.0.0.1:0"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 2
    [sentence] = run.stderr.splitlines()
    assert f"serve.toml, line {line}: " in sentence
    assert why in sentence
