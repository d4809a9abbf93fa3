"""Parses requests that a proxy forwards in the uwsgi protocol.

https://uwsgi-docs.readthedocs.io/en/latest/Protocol.html: a header of four bytes, CGI variables
(RFC 3875 section 4.1), and the body. A packet is judged by the cases for HTTP, so its variables
become the fields that they were made of.
"""

import struct
from collections.abc import Iterator
from urllib.parse import unquote_to_bytes

from jissoku.conformance.gateway.request_reader import MalformedRequest, ReceivedRequest

HEADER = struct.Struct("<BHB")
SIZE = struct.Struct("<H")

# Fields of HTTP whose variables have no prefix.
FIELDS = {"CONTENT_TYPE": "Content-Type", "CONTENT_LENGTH": "Content-Length"}


def packet_head(data: bytes) -> tuple[ReceivedRequest, int] | None:
    """The request of a packet and its size without the body; None if it is incomplete.

    Raises:
        MalformedRequest: It is no packet of a request, or its variables contradict each other.
    """
    if len(data) < HEADER.size:
        return None
    modifier, length, _ = HEADER.unpack_from(data)
    if modifier != 0:
        raise MalformedRequest(f"a packet has the modifier {modifier}")
    size = HEADER.size + length
    if len(data) < size:
        return None
    pairs = list(_pairs(data[HEADER.size : size]))
    variables = dict(pairs)
    try:
        method, target = variables["REQUEST_METHOD"], variables["REQUEST_URI"]
        path, protocol = variables["PATH_INFO"], variables["SERVER_PROTOCOL"]
        variables["CONTENT_LENGTH"]
    except KeyError as error:
        raise MalformedRequest(f"a packet has no {error.args[0]}") from error
    if not protocol.startswith("HTTP/1."):
        raise MalformedRequest(f"SERVER_PROTOCOL reads {protocol[:20]!r}")
    if unquote_to_bytes(target.partition("?")[0].encode("latin-1")).decode("latin-1") != path:
        raise MalformedRequest(f"PATH_INFO is {path[:60]!r} and REQUEST_URI {target[:60]!r}")
    request = ReceivedRequest(
        method=method,
        target=target,
        version=protocol.removeprefix("HTTP/"),
        fields=tuple(_fields(pairs)),
    )
    return request, size


def _pairs(content: bytes) -> Iterator[tuple[str, str]]:
    texts = []
    at = 0
    while at < len(content):
        if at + SIZE.size > len(content):
            raise MalformedRequest("a packet ends within a length")
        (length,) = SIZE.unpack_from(content, at)
        at += SIZE.size
        if at + length > len(content):
            raise MalformedRequest("a variable is longer than its packet")
        texts.append(content[at : at + length].decode("latin-1"))
        at += length
    if len(texts) % 2:
        raise MalformedRequest(f"{texts[-1][:60]} has no value")
    yield from zip(texts[::2], texts[1::2], strict=True)


def _fields(pairs: list[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    for name, value in pairs:
        if name in FIELDS:
            if value:
                yield FIELDS[name], value
        elif name.startswith("HTTP_") and name.removeprefix("HTTP_") not in FIELDS:
            yield name.removeprefix("HTTP_").replace("_", "-").title(), value
