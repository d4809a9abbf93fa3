"""What a handler gets of a request, and what becomes of its response, over real sockets."""

import json
import re
import socket
from email.utils import parsedate_to_datetime
from html import escape
from urllib.parse import quote, unquote

import pytest

from tests.serving.server_process import PATIENCE_S, ask, connect

LARGE = 4 << 20


def exchange(port: int, request: str) -> bytes:
    """All that a server answers to these bytes until it closes the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as client:
        client.sendall(request.encode("latin-1"))
        client.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: client.recv(65536), b""))


def body_of(response: bytes) -> list[str]:
    """The lines behind the head."""
    return response.partition(b"\r\n\r\n")[2].decode().split("\n")


def test_a_request_is_as_it_was_sent(cases_port: int) -> None:
    head = "POST /a%20b/../%41?q=1&r=%2B HTTP/1.1\r\nHost: h\r\nConnection: close\r\n"
    form = "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 9\r\n\r\nf=a+b%21x"
    assert body_of(exchange(cases_port, head + form)) == [
        "POST",
        "/a%20b/../%41?q=1&r=%2B",
        "/A",
        "q=1&r=%2B",
        "127.0.0.1",
        "http",
        "HTTP/1.1",
        "a b!x",
        "f=a+b%21x",
    ]


def test_a_chunked_body_is_whole_and_http_1_0_is_named(cases_port: int) -> None:
    head = "PUT / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
    response = exchange(cases_port, head + "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")
    assert body_of(response)[-1] == "abcde"
    assert body_of(exchange(cases_port, "GET / HTTP/1.0\r\n\r\n"))[6] == "HTTP/1.0"


def test_all_fields_and_parameters_are_iterated(cases_port: int) -> None:
    fields = "Host: h\r\nA: 1\r\na:  2 \r\nConnection: close\r\n\r\n"
    response = exchange(cases_port, "GET /fields HTTP/1.1\r\n" + fields)
    assert body_of(response) == ["Host=h", "A=1", "a=2", "Connection=close", ""]
    assert ask(cases_port, "/queries?a=1&a=%32&b+c=&d")[1] == b"a=1\na=2\nb c=\nd=\n"


def test_the_server_adds_length_and_date_and_no_body_for_head(cases_port: int) -> None:
    connection = connect(cases_port)
    for method in ("GET", "HEAD"):
        connection.request(method, "/etag")
        response = connection.getresponse()
        assert response.headers["Content-Length"] == "9"
        assert parsedate_to_datetime(response.headers["Date"]).year >= 2026
        assert response.read() == (b"version 1" if method == "GET" else b"")
    connection.close()
    assert b"Content-Length" not in exchange(
        cases_port, "GET /no-content HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
    )


@pytest.mark.parametrize(
    ("tag", "status"),
    [('"v1"', 304), ('W/"v1"', 304), ('"v0", "v1"', 304), ("*", 304), ('"v2"', 200)],
)
def test_a_client_that_has_the_tag_gets_304(cases_port: int, tag: str, status: int) -> None:
    connection = connect(cases_port)
    connection.request("GET", "/etag", headers={"If-None-Match": tag})
    response = connection.getresponse()
    assert (response.status, response.headers["ETag"]) == (status, '"v1"')
    assert response.read() == (b"" if status == 304 else b"version 1")
    connection.close()


def test_lent_bodies_are_released_once_sent(cases_port: int) -> None:
    before = int(ask(cases_port, "/released")[1])
    status, body = ask(cases_port, "/large")
    assert (status, len(body), set(body)) == (200, LARGE, {ord("x")})
    connection = connect(cases_port)
    connection.request("HEAD", "/large")
    assert connection.getresponse().headers["Content-Length"] == str(LARGE)
    connection.close()
    # A client that leaves in the middle.
    with socket.create_connection(("127.0.0.1", cases_port), timeout=PATIENCE_S) as client:
        client.sendall(b"GET /large HTTP/1.1\r\nHost: h\r\n\r\n")
        assert client.recv(1) == b"H"
    while int(ask(cases_port, "/released")[1]) < before + 3:
        pass
    assert int(ask(cases_port, "/released")[1]) == before + 3
    assert ask(cases_port, "/copied") == (201, bytes(1 << 20))


def test_fields_and_statuses_that_are_not_valid_have_no_effect(cases_port: int) -> None:
    request = "GET /refused?x=a%0D%0AB:%20c HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
    response = exchange(cases_port, request)
    assert body_of(response) == ["-1 -1 -1 -1 -1"]
    assert b"\r\nA:" not in response
    assert b"\r\nB:" not in response


def test_texts_are_escaped(cases_port: int) -> None:
    text = '<b class="x">\'&\u00e9\n\\</b>'
    connection = connect(cases_port)
    connection.request("GET", f"/escape?t={quote(text)}")
    response = connection.getresponse()
    assert response.headers["X-Date"] == "Sun, 06 Nov 1994 08:49:37 GMT"
    read = response.read().decode()
    connection.close()
    html, _, rest = read.rpartition("\n")[0].rpartition("\n")
    assert (html, json.loads(rest)) == (escape(text).replace("&#x27;", "&#39;"), text)
    assert unquote(read.rpartition("\n")[2]) == text
    assert re.fullmatch(r"[\w.~%-]+", read.rpartition("\n")[2])


@pytest.mark.parametrize("path", ["/failed", "/silent"])
def test_a_failure_is_500_and_the_connection_stays(cases_port: int, path: str) -> None:
    connection = connect(cases_port)
    for _ in range(2):
        connection.request("GET", path)
        response = connection.getresponse()
        assert (response.status, response.read()) == (500, b"Internal Server Error\n")
        connection.auto_open = 0
    connection.close()


def test_requests_in_one_packet_are_answered_in_order(cases_port: int) -> None:
    one = "GET /queries?n={} HTTP/1.1\r\nHost: h\r\n\r\n"
    last = "GET /queries?n=z HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
    response = exchange(cases_port, "".join(one.format(n) for n in range(50)) + last)
    assert [line for line in response.decode().split("\n") if line.startswith("n=")] == [
        *(f"n={n}" for n in range(50)),
        "n=z",
    ]
