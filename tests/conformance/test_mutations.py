"""Mutated requests, and the parsers of the bytes that a proxy forwards."""

import pytest

from jissoku.conformance.stream_readers import Reading, agree, mutated_requests, stream_readers

GET = b"GET //a HTTP/1.1\r\nHost: a\r\n\r\n"
POST = b"POST /b HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi"
CHUNKED = b"PUT /c HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nho\r\n0\r\n\r\n"


def test_a_seed_gives_the_same_requests_again() -> None:
    assert list(mutated_requests(50, 1)) == list(mutated_requests(50, 1))
    assert list(mutated_requests(50, 1)) != list(mutated_requests(50, 2))


@pytest.mark.parametrize("name", list(stream_readers()))
def test_every_parser_reads_plain_requests(name: str) -> None:
    found = stream_readers()[name](GET + POST + CHUNKED + GET)
    assert found.requests == (
        ("GET", "//a", b""),
        ("POST", "/b", b"hi"),
        ("PUT", "/c", b"ho"),
        ("GET", "//a", b""),
    )
    assert not found.refused


@pytest.mark.parametrize("name", list(stream_readers()))
def test_what_is_incomplete_is_no_request(name: str) -> None:
    found = stream_readers()[name](GET + POST[:-1])
    assert found.requests == (("GET", "//a", b""),)


# What a parser must not take for a request, after one that it reads.
REFUSED = {
    "two lengths": POST.replace(b"\r\n\r\n", b"\r\nContent-Length: 3\r\n\r\n"),
    "a bad size": CHUNKED.replace(b"\r\n2\r\n", b"\r\nx\r\n"),
    "no field": GET.replace(b"Host:", b"Host"),
}


@pytest.mark.parametrize("name", sorted({"strict", "h11", "gunicorn"} & set(stream_readers())))
@pytest.mark.parametrize("request_", REFUSED)
def test_a_refusal_says_why(name: str, request_: str) -> None:
    found = stream_readers()[name](GET + REFUSED[request_])
    assert found.requests == (("GET", "//a", b""),)
    assert found.refused


def test_a_refusal_agrees_with_what_came_before_it() -> None:
    one, two = ("GET", "/1", b""), ("GET", "/2", b"")
    whole = Reading(requests=(one, two))
    assert agree(whole, Reading(requests=(one,), refused="no"))
    assert not agree(whole, Reading(requests=(one,)))
    assert not agree(whole, Reading(requests=(two,), refused="no"))
