"""The time that is left for a response, in a field of the request: deadline-field of a route."""

import base64
import http.server
import json
import socket
import threading
from collections import Counter
from pathlib import Path
from typing import Any

from tests.serving.origin import Origin
from tests.serving.server_process import PATIENCE_S, Start, connect
from tests.serving.test_routes import serve

NAME = "X-Deadline-Ms"
KEY = f"deadline-field = '{NAME}'"


def answer_with_it(request: http.server.BaseHTTPRequestHandler) -> tuple[int, str]:
    """Answers with the values of the field, and with the body."""
    values = request.headers.get_all(NAME, [])
    body = getattr(request, "body", b"").decode()
    return 200, json.dumps({"values": values, "body": body})


def fetch(
    port: int, method: str, path: str, body: bytes | None = None, *, is_chunked: bool = False
) -> dict[str, Any]:
    """The answer of a server; the client claims a time of its own."""
    connection = connect(port)
    claims = {NAME: "999999999", "x_deadline_ms": "1", "Connection": f"close, {NAME}"}
    parts = iter([body or b""]) if is_chunked else body
    connection.request(method, path, body=parts, headers=claims, encode_chunked=is_chunked)
    found: dict[str, Any] = json.loads(connection.getresponse().read())
    connection.close()
    return found


def table(*servers: Origin, keys: str, upstream: str = "") -> str:
    listed = ", ".join(f'"{server.address}"' for server in servers)
    route = f"[[route]]\npath = '/app'\nto = 'app'\n{keys}\n"
    return f"[upstream.app]\nservers = [{listed}]\n{upstream}\n{route}"


def test_a_server_gets_the_time_that_is_left(tmp_path: Path, start: Start) -> None:
    with Origin("a", answer_with_it) as origin:
        text = table(origin, keys=f"head-time = '30s'\n{KEY}")
        port = serve(start, tmp_path, text)
        for method, body in [("GET", None), ("PUT", b"x" * 10), ("POST", b"x" * 100_000)]:
            for is_chunked in [False, True] if body and len(body) < 100 else [False]:
                found = fetch(port, method, "/app", body, is_chunked=is_chunked)
                value = found["values"][0]
                assert 0 < int(value) <= 30_000, method
                assert found["body"] == (body or b"").decode()


def test_without_the_key_it_is_the_field_of_the_client(tmp_path: Path, start: Start) -> None:
    with Origin("a", answer_with_it) as origin:
        port = serve(start, tmp_path, table(origin, keys=""))
        connection = connect(port)
        connection.request("GET", "/app", headers={NAME: "5"})
        assert json.loads(connection.getresponse().read())["values"] == ["5"]
        connection.close()


def test_it_is_less_for_another_try_and_after_a_queue(tmp_path: Path, start: Start) -> None:
    values: list[int] = []
    is_free = threading.Event()

    def fail_first(request: http.server.BaseHTTPRequestHandler) -> tuple[int, str]:
        values.append(int(request.headers[NAME]))
        if len(values) == 1:
            # Until then its time passes.
            is_free.wait(PATIENCE_S)
            raise ConnectionError(request)
        return answer_with_it(request)

    with Origin("a", fail_first) as one, Origin("b", fail_first) as other:
        text = table(one, other, keys=f"head-time = '50s'\n{KEY}")
        port = serve(start, tmp_path, text)
        asking = threading.Thread(target=fetch, args=[port, "GET", "/app"])
        asking.start()
        while not values:
            asking.join(0.001)
        # Another request is answered meanwhile, by the other server.
        fetch(port, "GET", "/app")
        asking.join(0.05)
        is_free.set()
        asking.join()
    first, between, last = values
    assert 0 < last < first <= 50_000
    assert between > last


def test_parts_of_a_gathered_response_have_its_deadline(tmp_path: Path, start: Start) -> None:
    with Origin("a", answer_with_it) as origin:
        text = f"""
        [upstream.app]
        servers = ["{origin.address}"]
        [[route]]
        path = "/home"
        gather = {{ one = "app:/1", two = "app:/2" }}
        deadline = "20s"
        parallel = 1
        {KEY}
        """
        port = serve(start, tmp_path, text)
        parts = fetch(port, "GET", "/home")["parts"]
        assert isinstance(parts, list)
        bodies = [base64.b64decode(part["body_base64"]) for part in parts]
        values = [json.loads(body)["values"] for body in bodies]
        assert all(len(value) == 1 and 0 < int(value[0]) <= 20_000 for value in values)


def variables(packet: bytes) -> tuple[Counter[str], dict[str, str], bytes]:
    """How often each variable of a packet is there, their values, and what follows the packet."""
    size = int.from_bytes(packet[1:3], "little")
    texts, at = [], 4
    while at < 4 + size:
        length = int.from_bytes(packet[at : at + 2], "little")
        texts.append(packet[at + 2 : at + 2 + length].decode())
        at += 2 + length
    assert at == 4 + size
    names = Counter(texts[::2])
    return names, dict(zip(texts[::2], texts[1::2], strict=True)), packet[at:]


def test_it_is_a_variable_in_the_uwsgi_protocol(tmp_path: Path, start: Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(PATIENCE_S)
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        text = f"""
        [upstream.app]
        servers = ["{address}"]
        protocol = "uwsgi"
        [[route]]
        path = "/app"
        to = "app"
        head-time = "30s"
        {KEY}
        """
        port = serve(start, tmp_path, text)
        with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as client:
            head = f"POST /app HTTP/1.1\r\nHost: a\r\n{NAME}: 1\r\nContent-Length: 4\r\n\r\n"
            client.sendall(head.encode() + b"body")
            connection, _ = listener.accept()
            with connection:
                connection.settimeout(PATIENCE_S)
                packet = b""
                while not packet.endswith(b"body"):
                    packet += connection.recv(65536)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            assert client.recv(65536).startswith(b"HTTP/1.1 200 ")
    names, values, rest = variables(packet)
    assert names["HTTP_X_DEADLINE_MS"] == 1
    assert 0 < int(values["HTTP_X_DEADLINE_MS"]) <= 30_000
    assert rest == b"body"
