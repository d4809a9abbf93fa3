"""One message on a new WebSocket, and what the target sends back.

Handshake and frames (RFC 6455 sections 4.1 and 5.2) are written and read here, so that no code is
shared with any server or with the load generator.
"""

import base64
import hashlib
import http.client
import itertools
import secrets
import socket
from collections.abc import Sequence
from typing import BinaryIO

from jissoku.errors import TargetError

GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

FIN, MASKED = 0x80, 0x80
TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10

# A longer message is refused rather than held in memory.
MESSAGE_BYTES_MAX = 256 * 1024 * 1024


def handshake_fields() -> list[tuple[str, str]]:
    """The header fields of a handshake, with a new key."""
    return [
        ("Upgrade", "websocket"),
        ("Connection", "Upgrade"),
        ("Sec-WebSocket-Key", base64.b64encode(secrets.token_bytes(16)).decode()),
        ("Sec-WebSocket-Version", "13"),
    ]


def check_handshake(sent: Sequence[tuple[str, str]], answer: http.client.HTTPResponse) -> None:
    """Compares the answer to a handshake with what its key requires.

    Raises:
        TargetError: It does not complete the handshake; the message is the end of a sentence.
    """
    key = dict(sent)["Sec-WebSocket-Key"]
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

    Args:
        stream: Reads from the connection.

    Raises:
        OSError: The connection failed.
        http.client.HTTPException: The frames are malformed, or end before the message.
        TargetError: The message has another type, or the target closes the WebSocket.
    """
    opcode = TEXT if is_text else BINARY
    connection.sendall(frame(opcode, message))
    got, echo = _message(connection, stream)
    connection.sendall(frame(CLOSE, (1000).to_bytes(2)))
    if got != opcode:
        raise TargetError(f"sends back a message of type {got} and not {opcode}")
    return echo


def frame(opcode: int, payload: bytes) -> bytes:
    """A masked frame."""
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
