"""One request or WebSocket message to a target, and the verification of its response.

The request is written to a socket as the load generator writes it; the standard library's
http.client, which shares no code with any server or with the load generator, reads the answer.
"""

import base64
import gzip
import hashlib
import http.client
import itertools
import json
import secrets
import socket
import zlib
from dataclasses import dataclass
from typing import BinaryIO

from jissoku import model
from jissoku.errors import TargetError
from jissoku.model import ConnectionMode, Match, Workload, updated
from jissoku.system.address import Address

GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

FIN, MASKED = 0x80, 0x80
TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10

# A longer message is refused rather than held in memory.
MESSAGE_BYTES_MAX = 256 * 1024 * 1024


# One message on a new WebSocket, and what the target sends back. Handshake and frames (RFC 6455
# sections 4.1 and 5.2) are written and read here, so that no code is shared with any server or with
# the load generator.


def check_handshake(key: str, answer: http.client.HTTPResponse) -> None:
    """TargetError, the end of a sentence, unless the answer is as its key requires."""
    wanted = base64.b64encode(hashlib.sha1((key + GUID).encode(), usedforsecurity=False).digest())
    given = answer.getheader("Sec-WebSocket-Accept", "")
    if given != wanted.decode():
        raise TargetError(
            f"answers with Sec-WebSocket-Accept {given!r} and not {wanted.decode()!r}"
        )
    upgrade = answer.getheader("Upgrade", "")
    if upgrade.lower() != "websocket":
        raise TargetError(f"answers with Upgrade {upgrade!r} and not 'websocket'")


def exchange(
    connection: socket.socket, stream: BinaryIO, message: bytes, *, is_text: bool
) -> bytes:
    """Sends a message on an open WebSocket, and returns the one that comes back.

    TargetError if that is of another type or a Close.
    """
    opcode = TEXT if is_text else BINARY
    connection.sendall(frame(opcode, message))
    got, echo = _message(connection, stream)
    connection.sendall(frame(CLOSE, (1000).to_bytes(2)))
    if got != opcode:
        raise TargetError(f"sends back a message of type {got} and not {opcode}")
    return echo


def frame(opcode: int, payload: bytes) -> bytes:
    size = len(payload)
    if size < 126:
        head = bytes([FIN | opcode, MASKED | size])
    elif size < 65_536:
        head = bytes([FIN | opcode, MASKED | 126]) + size.to_bytes(2)
    else:
        head = bytes([FIN | opcode, MASKED | 127]) + size.to_bytes(8)
    key = secrets.token_bytes(4)
    masked = bytes(a ^ b for a, b in zip(payload, itertools.cycle(key), strict=False))
    return head + key + masked


def _message(connection: socket.socket, stream: BinaryIO) -> tuple[int, bytes]:
    """The opcode and the payload of the next message; pings before it are answered."""
    message, opcode = bytearray(), 0
    while True:
        first, second = _take(stream, 2)
        if first & 0x70 or second & MASKED:
            raise http.client.HTTPException("a frame is masked, or has a reserved bit")
        size = second
        if second > 125:
            size = int.from_bytes(_take(stream, 2 if second == 126 else 8))
        if size + len(message) > MESSAGE_BYTES_MAX:
            raise http.client.HTTPException(f"a message of more than {MESSAGE_BYTES_MAX} bytes")
        payload = _take(stream, size)
        kind = first & 0x0F
        if kind == CLOSE:
            code = int.from_bytes(payload[:2])
            raise TargetError(f"closes the WebSocket with code {code}")
        if kind == PING:
            connection.sendall(frame(PONG, payload))
        elif kind != PONG:
            # A continuation has opcode 0.
            opcode = opcode or kind
            message += payload
            if first & FIN:
                return opcode, bytes(message)


def _take(stream: BinaryIO, size: int) -> bytes:
    taken = stream.read(size)
    if len(taken) < size:
        raise http.client.IncompleteRead(taken, size - len(taken))
    return taken


REQUEST_LIMIT_S = 5.0

SWITCHING_PROTOCOLS = 101

# A longer body is refused rather than held in memory.
BODY_BYTES_MAX = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetResponse:
    """A target's answer; on a WebSocket, that to the handshake, with a message as its body."""

    status: int
    reason: str
    fields: tuple[tuple[str, str], ...]
    body: bytes
    keeps_alive: bool

    def field(self, name: str) -> str:
        """The value of a field, "" if there is none; several are joined by commas."""
        return ", ".join(value for key, value in self.fields if key.lower() == name.lower())

    @property
    def is_success(self) -> bool:
        """101 is a good answer to the handshake of a WebSocket."""
        return 200 <= self.status < 300 or self.status == SWITCHING_PROTOCOLS

    def recorded(self) -> model.VerifiedResponse:
        """Its record; the size of the head assumes one space after each colon."""
        line = len(f"HTTP/1.1 {self.status} {self.reason}\r\n")
        fields = sum(len(key) + len(value) + len(": \r\n") for key, value in self.fields)
        return model.VerifiedResponse(
            status=self.status,
            content_type=self.field("Content-Type"),
            body_sha256=hashlib.sha256(self.body).hexdigest(),
            body_bytes=len(self.body),
            head_bytes=line + fields + len("\r\n"),
            content_sha256=_content_sha256(self.field("Content-Encoding"), self.body),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedResponse:
    """The expected answer. `is_first_response`: it is the target's first, not the contract's."""

    status: int
    content_type: str
    body: bytes
    is_first_response: bool = False


class ChangedBody(TargetError):  # noqa: N818 - the target is right, and the comparison too strict
    """A body that differs from the target's own first one."""


def _content_sha256(coding: str, body: bytes) -> str:
    """The uncompressed content: its compressed bytes depend on the level of compression."""
    if coding.strip().lower() not in {"gzip", "x-gzip"}:
        return ""
    try:
        return hashlib.sha256(gzip.decompress(body)).hexdigest()
    except (OSError, EOFError, zlib.error):
        return ""


def send_request(
    address: Address, workload: Workload, limit_s: float = REQUEST_LIMIT_S, *, index: int = 0
) -> TargetResponse:
    """Sends a target one request on a new connection, and reads the answer.

    On a WebSocket, that is the handshake and one message. `index` is that of the raw request.
    Raises OSError also when an answer takes longer than `limit_s`, http.client.HTTPException for
    one that is not HTTP or truncated, and TargetError for a WebSocket that is not opened.
    """
    with address.connect(limit_s) as connection:
        connection.settimeout(limit_s)
        key = base64.b64encode(secrets.token_bytes(16)).decode()
        handshake = [
            ("Upgrade", "websocket"),
            ("Connection", "Upgrade"),
            ("Sec-WebSocket-Key", key),
            ("Sec-WebSocket-Version", "13"),
        ]
        handshake = handshake if workload.websocket else []
        asked = updated(workload, headers=(*handshake, *workload.headers))
        connection.sendall(request(address, asked, index))
        reader = http.client.HTTPResponse(connection, method=workload.method)
        try:
            reader.begin()
            keeps_alive = not reader.will_close
            if handshake and reader.status == SWITCHING_PROTOCOLS:
                check_handshake(key, reader)
                body = exchange(connection, reader.fp, workload.message, is_text=workload.is_text)
            else:
                body = reader.read(BODY_BYTES_MAX + 1)
            if len(body) > BODY_BYTES_MAX:
                raise http.client.HTTPException(f"a body of more than {BODY_BYTES_MAX} bytes")
            if reader.length:
                raise http.client.IncompleteRead(body, reader.length)
            fields = tuple(reader.getheaders())
        finally:
            reader.close()
    return TargetResponse(
        status=reader.status,
        reason=reader.reason,
        fields=fields,
        body=body,
        keeps_alive=keeps_alive,
    )


def request(address: Address, workload: Workload, index: int = 0) -> bytes:
    """The request's bytes (RFC 9112 section 3); of several raw requests the one at `index`."""
    if workload.raw_requests:
        text = workload.raw_requests[index].text.replace(b"{PATH}", workload.path.encode())
        return text.replace(b"{HOST}", address.authority.encode())
    lines = [f"{workload.method} {workload.path} HTTP/1.1"]
    given = {name.lower() for name, _ in workload.headers}
    if "host" not in given:
        lines.append(f"Host: {address.authority}")
    lines += [f"{name}: {value}" for name, value in workload.headers]
    body = b"" if workload.websocket else workload.body
    if body and "content-length" not in given:
        lines.append(f"Content-Length: {len(body)}")
    if workload.connection_mode is ConnectionMode.CLOSE and "connection" not in given:
        lines.append("Connection: close")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def expect_echo(workload: Workload) -> ExpectedResponse:
    return ExpectedResponse(status=SWITCHING_PROTOCOLS, content_type="", body=workload.message)


def expect_first_response(answer: TargetResponse) -> ExpectedResponse:
    """Makes the first response the expected one; TargetError unless it is a success."""
    if not 200 <= answer.status < 300:
        raise TargetError(
            f"answers {answer.status} {answer.reason}: choose a path that exists, with --path"
        )
    return ExpectedResponse(
        status=answer.status,
        content_type=answer.field("Content-Type"),
        body=answer.body,
        is_first_response=True,
    )


def check_response(
    answer: TargetResponse, expected: ExpectedResponse, match: Match = Match.BYTES
) -> None:
    """Compares an answer with the expected one: status, content type, and what `match` asks for.

    What is expected by the contract has to be the same in all bytes. ChangedBody if only the
    bodies differ, from one that the target has given itself, else TargetError: the end of a
    sentence.
    """
    before = " (its first answer)" if expected.is_first_response else ""
    match = match if expected.is_first_response else Match.BYTES
    if answer.status != expected.status:
        raise TargetError(f"answers {answer.status} and not {expected.status}{before}")
    given = answer.field("Content-Type")
    if given != expected.content_type:
        wanted = expected.content_type
        raise TargetError(f"answers with content type {given!r} and not {wanted!r}{before}")
    if match is Match.STATUS:
        return
    if match is Match.JSON:
        if not _is_same_json(answer.body, expected.body):
            raise TargetError(f"answers with other keys or types of JSON{before}")
        return
    # The body of a response, and not a message of a WebSocket, has a length field.
    is_body = answer.status != SWITCHING_PROTOCOLS
    length = answer.field("Content-Length")
    if is_body and length != str(len(expected.body)) and (length or not expected.is_first_response):
        wanted = str(len(expected.body))
        text = f"answers with content length {length!r} and not {wanted!r}{before}"
        raise _changed(text, answer, expected)
    if len(answer.body) != len(expected.body) or (
        match is Match.BYTES and answer.body != expected.body
    ):
        text = f"{_difference(answer.body, expected.body)}{before}"
        raise _changed(text, answer, expected)


def _changed(text: str, answer: TargetResponse, expected: ExpectedResponse) -> TargetError:
    if not expected.is_first_response:
        return TargetError(text)
    if _is_same_json(answer.body, expected.body):
        return ChangedBody(f"{text}; --match json compares keys and types instead")
    if len(answer.body) == len(expected.body):
        return ChangedBody(f"{text}; --match length compares their length instead")
    return ChangedBody(f"{text}; --match status compares their status alone")


def _is_same_json(given: bytes, wanted: bytes) -> bool:
    try:
        return _is_same_shape(json.loads(given), json.loads(wanted))
    except ValueError:
        return False


def _is_same_shape(given: object, wanted: object) -> bool:
    """Whether keys and types are the same: of lists those of the first items; null may be any."""
    if given is None or wanted is None:
        return True
    if isinstance(given, dict) and isinstance(wanted, dict):
        return given.keys() == wanted.keys() and all(
            _is_same_shape(given[key], wanted[key]) for key in given
        )
    if isinstance(given, list) and isinstance(wanted, list):
        return not (given and wanted) or _is_same_shape(given[0], wanted[0])
    numbers = (int, float)
    if isinstance(given, numbers) and isinstance(wanted, numbers):
        return isinstance(given, bool) == isinstance(wanted, bool)
    return type(given) is type(wanted)


def _difference(given: bytes, wanted: bytes) -> str:
    at = next(
        (i for i, (a, b) in enumerate(zip(given, wanted, strict=False)) if a != b),
        min(len(given), len(wanted)),
    )
    return (
        f"answers with wrong bytes: at offset {at} {given[at : at + 16]!r} "
        f"and not {wanted[at : at + 16]!r}"
    )
