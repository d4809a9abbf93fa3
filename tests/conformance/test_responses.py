"""Responses are parsed strictly, however their bytes are split."""

import pytest

from jissoku.conformance.messages import MalformedMessage, ResponseReader

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
CHUNKS = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n"
CHUNKS += b"1\r\nh\r\n1;a=b\r\ni\r\n0\r\nT: u\r\n\r\n"
EMPTY = b"HTTP/1.1 304 Not Modified\r\nETag: x\r\n\r\n"


def read(data: bytes, *methods: str, step: int = 10**6) -> list[tuple[int, bytes]]:
    reader = ResponseReader(methods)
    for start in range(0, len(data), step):
        reader.feed(data[start : start + step])
    reader.end()
    return [(answer.status, answer.body) for answer in reader.answers]


@pytest.mark.parametrize("step", [1, 3, 1000])
def test_consecutive_responses_are_separated(step: int) -> None:
    found = read(CONTINUE + OK + CHUNKS + EMPTY + OK, step=step)
    assert found == [(100, b""), (200, b"hi"), (200, b"hi"), (304, b""), (200, b"hi")]


def test_the_answer_to_head_has_no_body() -> None:
    head = OK.removesuffix(b"hi")
    assert read(OK + head + OK, "GET", "HEAD", "GET") == [(200, b"hi"), (200, b""), (200, b"hi")]
    with pytest.raises(MalformedMessage, match="begins with b'hi"):
        read(OK, "HEAD")


def test_a_body_may_last_to_the_end_of_the_connection() -> None:
    assert read(b"HTTP/1.0 200 OK\r\n\r\nall of it") == [(200, b"all of it")]


@pytest.mark.parametrize(
    ("fields", "version", "ends"),
    [
        ("", "1.1", False),
        ("Connection: close\r\n", "1.1", True),
        ("Connection: x, Close\r\n", "1.1", True),
        ("", "1.0", True),
        ("connection: keep-alive\r\n", "1.0", False),
    ],
)
def test_the_end_of_the_connection_is_announced(fields: str, version: str, *, ends: bool) -> None:
    reader = ResponseReader([])
    reader.feed(f"HTTP/{version} 200 OK\r\nContent-Length: 0\r\n{fields}\r\n".encode())
    assert reader.answers[0].announces_end is ends


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"<html>", "begins with"),
        (OK[:-1], "in the middle"),
        (OK[:20], "in the middle"),
        (b"HTTP/1.1 200\r\n\r\n", "status line"),
        (b"HTTP/2.0 200 OK\r\n\r\n", "status line"),
        (b"HTTP/1.1 200 OK\r\nA : b\r\n\r\n", "header line"),
        (b"HTTP/1.1 200 OK\r\nA\r\n\r\n", "header line"),
        (b"HTTP/1.1 200 OK\r\nA: b\n\r\n\r\n", "header line"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "Content-Length"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nhi", "Content-Length"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", "Transfer-Encoding"),
        (CHUNKS.replace(b"\r\n\r\n1", b"\r\nContent-Length: 9\r\n\r\n1"), "both"),
        (CHUNKS.replace(b"1;a", b"x;a"), "a chunk begins"),
        (CHUNKS.replace(b"\r\ni\r\n", b"\r\nii\r\n"), "longer than its size"),
        (b"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", "speaks of a body"),
    ],
)
def test_malformed_responses_are_reported(data: bytes, words: str) -> None:
    with pytest.raises(MalformedMessage, match=words):
        read(data)
