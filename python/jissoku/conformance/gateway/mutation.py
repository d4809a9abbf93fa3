"""Requests with a few bytes changed, drawn from a seed, that servers may read differently."""

import random
from collections.abc import Iterator

# `%` is replaced by the number of the request between two letters, which no change makes another
# request's.
INNER = b"GET /m/%/in HTTP/1.1\r\nHost: a.example\r\n\r\n"
LENGTH = b"Content-Length: 47\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
POST = b"POST /m/% HTTP/1.1\r\nHost: a.example\r\n"
GET = b"GET /m/% HTTP/1.1\r\nHost: a.example\r\n\r\n"

BASES = (
    GET,
    POST + LENGTH + b"\r\n" + INNER,
    POST + CHUNKED + b"\r\n5\r\nhello\r\n0\r\n\r\n",
    POST + CHUNKED + b"\r\n2f\r\n" + INNER + b"\r\n0\r\n\r\n",
    POST + b"Content-Length: 5\r\nConnection: keep-alive, X-A\r\nX-A: 1\r\n\r\nhello",
    GET + INNER,
    b"OPTIONS /m/% HTTP/1.0\r\nHost: a.example\r\nConnection: keep-alive\r\n\r\n",
)

TOKENS = (
    *(b"\r\n", b"\n", b"\r", b"\x00", b"\x0b", b"\x0c", b"\x85", b"\xa0", b" ", b"\t", b":", b","),
    *(b";", b"0", b"1", b"+", b"-", b"0x", b"_", b"\r\n ", b"\r\n\r\n", b"0\r\n\r\n", b";a=b"),
    *(b"chunked", b"identity", b"gzip, ", b"HTTP/1.0", b"HTTP/1.1", b"\r\nX: y"),
    LENGTH,
    CHUNKED,
    b"Content-Length: 0\r\n",
    b"Content_Length: 9\r\n",
    b"Transfer-Encoding : chunked\r\n",
    b"Transfer-Encoding:\x0bchunked\r\n",
    b"Connection: Content-Length\r\n",
    b"Connection: close\r\n",
    b"Expect: 100-continue\r\n",
    b"Upgrade: websocket\r\nConnection: Upgrade\r\n",
    b"Host: b.example\r\n",
)

CHANGES_MAX = 3


def mutated_requests(count: int, seed: int) -> Iterator[bytes]:
    """Yields `count` requests; the same for the same seed."""
    rng = random.Random(seed)
    for number in range(count):
        data = rng.choice(BASES)
        for _ in range(rng.randint(1, CHANGES_MAX)):
            data = _changed(data, rng)
        yield data.replace(b"%", b"q%05dq" % number)


def _changed(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data) + 1)
    kind = rng.randrange(6)
    if kind == 0:
        return data[:at] + rng.choice(TOKENS) + data[at:]
    if kind == 1:
        # At the start of a line most tokens have a meaning.
        lines = data.split(b"\r\n")
        lines.insert(rng.randrange(len(lines)), rng.choice(TOKENS).removesuffix(b"\r\n"))
        return b"\r\n".join(lines)
    if kind == 2:
        return data[:at] + data[at + rng.randint(1, 3) :]
    if kind == 3:
        return data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]
    if kind == 4:
        lines = data.split(b"\r\n")
        lines.insert(rng.randrange(len(lines)), rng.choice(lines))
        return b"\r\n".join(lines)
    return data[:at] + data[at : at + 1].swapcase() + data[at + 1 :]
