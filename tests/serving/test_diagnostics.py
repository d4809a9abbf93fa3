"""What responses say about how their requests were forwarded: Proxy-Status and Server-Timing."""

import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.serving.server_process import PATIENCE_S, Start, connect

# A response of a server that is itself behind a proxy, and measures itself.
ANSWER = (
    b"HTTP/1.1 203 Yes\r\nProxy-Status: inner\r\nserver-timing: db;dur=1\r\nContent-Length: 2\r\n"
    b"Trailing: yes\r\n\r\nok"
)

LISTENS = r"http://127\.0\.0\.1:([0-9]+)/"

Fields = tuple[int, str | None, str | None]


@pytest.fixture
def server() -> Iterator[str]:
    """The address of a server that answers the first request of each connection."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                received = b""
                while b"\r\n\r\n" not in received:
                    received += connection.recv(65536)
                connection.sendall(ANSWER)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield f"127.0.0.1:{listener.getsockname()[1]}"
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join(PATIENCE_S)


@pytest.fixture
def refusing() -> Iterator[str]:
    """The address of a port that refuses connections."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{bound.getsockname()[1]}"


def asked(where: int | Path, path: str, **fields: str) -> Fields:
    """The status, Proxy-Status and Server-Timing of a response, each with all its lines."""
    connection = connect(where)
    try:
        connection.request("GET", path, headers={"Host": "a"} | fields)
        response = connection.getresponse()
        response.read()
        return (
            response.status,
            response.getheader("Proxy-Status"),
            response.getheader("Server-Timing"),
        )
    finally:
        connection.close()


def configured(folder: Path, server: str, refusing: str, *, also_unix: bool = False) -> list[str]:
    listen = f'"unix:{folder}/front.sock"' if also_unix else ""
    (folder / "serve.toml").write_text(f"""
        listen = ["127.0.0.1:0", {listen}]
        workers = 1
        [upstream.app]
        servers = ["{server}"]
        [upstream.gone]
        servers = ["{refusing}"]
        [[route]]
        path = "/app"
        to = "app"
        [[route]]
        path = "/gone"
        to = "gone"
    """)
    return ["--config", str(folder / "serve.toml")]


TIMES = r"wait;dur=[0-9]+\.[0-9]{3}, connect;dur=[0-9]+\.[0-9]{3}, head;dur=[0-9]+\.[0-9]{3}"


def test_listed_clients_see_how_their_requests_were_forwarded(
    tmp_path: Path, start: Start, server: str, refusing: str
) -> None:
    served = start(*configured(tmp_path, server, refusing), "--diagnostics-for", "127.0.0.0/8")
    port = int(served.wait_for(LISTENS)[1])
    status, proxy_status, timing = asked(port, "/app")
    assert (status, proxy_status) == (203, 'inner, jissoku; next-hop="app"; received-status=203')
    assert timing is not None
    assert re.fullmatch(f"db;dur=1, {TIMES}", timing)
    status, proxy_status, timing = asked(port, "/gone")
    expected = 'jissoku; next-hop="gone"; error=connection_refused'
    assert (status, proxy_status) == (502, expected)
    assert timing is not None
    assert re.fullmatch(TIMES, timing)
    refused = asked(port, "/app", Connection="Host")
    assert refused == (400, "jissoku; error=http_request_error", None)


def test_others_do_not(tmp_path: Path, start: Start, server: str, refusing: str) -> None:
    arguments = configured(tmp_path, server, refusing, also_unix=True)
    served = start(*arguments, "--diagnostics-for", "10.0.0.0/8,unix")
    port = int(served.wait_for(LISTENS)[1])
    assert asked(port, "/app") == (203, "inner", "db;dur=1")
    assert asked(port, "/gone") == (502, None, None)
    assert asked(port, "/app", Connection="Host") == (400, None, None)
    (_, proxy_status, _) = asked(tmp_path / "front.sock", "/gone")
    assert proxy_status == 'jissoku; next-hop="gone"; error=connection_refused'


def test_the_client_of_a_trusted_proxy_is_the_one_that_counts(
    tmp_path: Path, start: Start, server: str, refusing: str
) -> None:
    trusted = ("--trusted-proxies", "127.0.0.1", "--diagnostics-for", "192.0.2.0/24")
    served = start(*configured(tmp_path, server, refusing), *trusted)
    port = int(served.wait_for(LISTENS)[1])
    fields = {"X-Forwarded-For": "192.0.2.7"}
    (_, proxy_status, _) = asked(port, "/app", **fields)
    assert proxy_status == 'inner, jissoku; next-hop="app"; received-status=203'
    assert asked(port, "/app") == (203, "inner", "db;dur=1")


def test_what_is_no_client_is_refused(start: Start, server: str) -> None:
    served = start("--to", f"http://{server}", "--diagnostics-for", "world")
    served.wait_for("world")
    assert served.process.wait(PATIENCE_S) == 2
