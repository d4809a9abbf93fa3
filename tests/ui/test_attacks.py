"""Requests of other sites and programs are refused: the table is `attacks.toml`."""

import socket
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.ui.conftest import LIMIT_S, Client

ATTACKS = tomllib.loads(Path(__file__).with_name("attacks.toml").read_text())["attack"]

HEADERS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


def raw(port: int, head: list[str]) -> str:
    """Sends a head as it is, which clients would correct, and returns the response's head."""
    request = "\r\n".join([*head, "Connection: close", "", ""]).encode()
    with socket.create_connection(("127.0.0.1", port), LIMIT_S) as connection:
        connection.sendall(request)
        received = b""
        while b"\r\n\r\n" not in received and (part := connection.recv(65536)):
            received += part
    return received.partition(b"\r\n\r\n")[0].decode()


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack["name"])
def test_it_is_refused(client: Client, attack: dict[str, Any]) -> None:
    head = [line.format(port=client.port) for line in attack["head"]]
    if attack.get("session"):
        head.append(f"Cookie: {client.cookie}")
    answer = raw(client.port, head)
    assert answer.startswith(f"HTTP/1.1 {attack['status']} ")
    assert "<script" not in answer


def test_every_name_of_loopback_is_ours(client: Client) -> None:
    for name in ("127.0.0.1", "localhost", "LOCALHOST", "[::1]"):
        head = ["GET / HTTP/1.1", f"Host: {name}:{client.port}", f"Cookie: {client.cookie}"]
        assert raw(client.port, head).startswith("HTTP/1.1 200 ")


@pytest.mark.parametrize("path", ["/", "/missing", "/static/ui.css", "/enter?token=x"])
def test_every_answer_has_the_headers(client: Client, path: str) -> None:
    headers = client.get(path).headers
    assert headers.items() >= HEADERS.items()
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    refused = Client(client.port).get("/").headers
    assert refused["content-security-policy"] == policy


def test_the_link_works_once_and_its_cookie_is_strict(client: Client) -> None:
    assert client.get("/enter?token=" + "x" * 43).status == 403
    cookie_name = client.cookie.partition("=")[0]
    assert cookie_name == f"jissoku-{client.port}"
