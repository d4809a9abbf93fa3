import http.client
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from jissoku.errors import TargetError
from jissoku.model import ConnectionMode, Match, Workload
from jissoku.model.updated import updated
from jissoku.system.address import HOST, Address
from jissoku.targets import response
from jissoku.targets.response import ExpectedResponse, TargetResponse

Speaks = Callable[[bytes], Address]

RIGHT = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\n42"
EXPECTED = ExpectedResponse(status=200, content_type="text/plain", body=b"42")


@pytest.fixture
def speaks() -> Iterator[Speaks]:
    """A server that reads one request, sends given bytes and closes the connection."""
    threads: list[threading.Thread] = []

    def one(said: bytes) -> Address:
        listener = socket.create_server((HOST, 0))

        def serve() -> None:
            with closing(listener), listener.accept()[0] as connection:
                connection.recv(65536)
                connection.sendall(said)

        threads.append(threading.Thread(target=serve))
        threads[-1].start()
        return Address(port=listener.getsockname()[1])

    yield one
    for thread in threads:
        thread.join()


def test_an_answer_is_read_whole(speaks: Speaks) -> None:
    given = response.send_request(speaks(RIGHT), Workload())
    assert (given.status, given.reason, given.body) == (200, "OK", b"42")
    assert given.field("content-TYPE") == "text/plain"
    assert given.keeps_alive
    response.check_response(given, EXPECTED)


def test_the_record_of_an_answer_counts_its_bytes(speaks: Speaks) -> None:
    recorded = response.send_request(speaks(RIGHT), Workload()).recorded()
    assert recorded.head_bytes == len(RIGHT) - 2
    assert recorded.body_bytes == 2
    assert recorded.content_type == "text/plain"


def test_an_answer_that_ends_with_its_connection_says_so(speaks: Speaks) -> None:
    given = response.send_request(speaks(b"HTTP/1.1 200 OK\r\n\r\n42"), Workload())
    assert given.body == b"42"
    assert not given.keeps_alive


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"SSH-2.0-OpenSSH\r\n",
        RIGHT[:-1],
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
    ],
    ids=["nothing", "another protocol", "a body too short", "a chunk too short"],
)
def test_what_is_no_whole_answer_is_refused(speaks: Speaks, said: bytes) -> None:
    with pytest.raises((http.client.HTTPException, OSError)):
        response.send_request(speaks(said), Workload())


def test_the_request_is_written_as_the_workload_says() -> None:
    workload = Workload(
        path="/x?y=1",
        method="POST",
        headers=(("X-A", "1"),),
        body=b"body",
        connection_mode=ConnectionMode.CLOSE,
    )
    assert response.request(Address(port=81), workload) == (
        b"POST /x?y=1 HTTP/1.1\r\nHost: 127.0.0.1:81\r\nX-A: 1\r\nContent-Length: 4\r\n"
        b"Connection: close\r\n\r\nbody"
    )
    own_host = Workload(headers=(("host", "example.org"),))
    assert response.request(Address(socket="/a"), own_host) == (
        b"GET / HTTP/1.1\r\nhost: example.org\r\n\r\n"
    )


def given(**changes: object) -> TargetResponse:
    right = TargetResponse(
        status=200,
        reason="OK",
        fields=(("content-type", "text/plain"), ("content-length", "2")),
        body=b"42",
        keeps_alive=True,
    )
    return updated(right, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (given(status=500), "answers 500 and not 200"),
        (given(body=b"43"), "wrong bytes: at offset 1 b'3' and not b'2'"),
        (given(body=b"42\n"), "wrong bytes: at offset 2"),
        (given(body=b""), "wrong bytes: at offset 0 b'' and not b'42'"),
        (given(fields=()), "content type '' and not 'text/plain'"),
        (given(fields=(("Content-Type", "text/plain"),)), "content length '' and not '2'"),
        (
            given(fields=(("Content-Type", "text/plain"), ("Content-Length", "3"))),
            "content length '3' and not '2'",
        ),
        (
            given(fields=(("Content-Type", "text/html"), ("Content-Length", "2"))),
            "content type 'text/html' and not 'text/plain'",
        ),
    ],
)
def test_an_answer_that_is_not_the_right_one_is_refused(wrong: TargetResponse, why: str) -> None:
    with pytest.raises(TargetError) as refused:
        response.check_response(wrong, EXPECTED)
    assert why in str(refused.value)


def test_later_answers_are_held_to_a_learned_one() -> None:
    chunked = given(fields=(("Content-Type", "text/plain"),))
    learned = response.expect_first_response(chunked)
    response.check_response(chunked, learned)
    with pytest.raises(TargetError, match=r"wrong bytes: .* \(its first answer\)"):
        response.check_response(updated(chunked, body=b"43"), learned)


def learned_json(body: bytes) -> response.ExpectedResponse:
    return response.expect_first_response(given(body=body, fields=JSON_FIELDS))


JSON_FIELDS = (("Content-Type", "application/json"),)


@pytest.mark.parametrize(
    ("first", "later", "is_same"),
    [
        (b'{"at": 1.5, "n": [1, 2]}', b'{"at": 20, "n": [3]}', True),
        (b'{"at": 1, "n": []}', b'{"n": [{"a": 1}], "at": 2}', True),
        (b'{"at": null}', b'{"at": "x"}', True),
        (b'{"at": 1}', b'{"at": "1"}', False),
        (b'{"at": true}', b'{"at": 1}', False),
        (b'{"at": 1}', b'{"at": 1, "error": 2}', False),
        (b'{"n": [{"a": 1}]}', b'{"n": [{"b": 1}]}', False),
        (b"[1]", b'{"a": 1}', False),
        (b'{"at": 1}', b"<html>", False),
    ],
)
def test_json_matches_by_keys_and_types(first: bytes, later: bytes, *, is_same: bool) -> None:
    answer = given(body=later, fields=JSON_FIELDS)
    if is_same:
        response.check_response(answer, learned_json(first), Match.JSON)
    else:
        with pytest.raises(TargetError, match=r"other keys or types of JSON \(its first answer\)"):
            response.check_response(answer, learned_json(first), Match.JSON)


@pytest.mark.parametrize(
    ("later", "accepted"),
    [
        (b'{"at": 21}', {Match.LENGTH, Match.JSON, Match.STATUS}),
        (b'{"at": 3}', {Match.JSON, Match.STATUS}),
        (b'{"of": 22}', {Match.LENGTH, Match.STATUS}),
        (b"nothing", {Match.STATUS}),
    ],
)
def test_each_way_to_match_accepts_what_it_says(later: bytes, accepted: set[Match]) -> None:
    found = set()
    for match in Match:
        try:
            response.check_response(
                given(body=later, fields=JSON_FIELDS), learned_json(b'{"at": 20}'), match
            )
        except TargetError:
            continue
        found.add(match)
    assert found == accepted


def test_what_the_contract_expects_has_to_match_in_all_bytes() -> None:
    for match in Match:
        with pytest.raises(TargetError, match="wrong bytes"):
            response.check_response(given(body=b"43"), EXPECTED, match)


def test_a_failure_is_not_learned() -> None:
    with pytest.raises(TargetError, match="answers 404 Not Found: choose a path"):
        response.expect_first_response(given(status=404, reason="Not Found"))
