"""Cases of WebSockets (`apps/websocket.toml`): frames sent to a server, and what comes back.

The application sends every message back as it is. Frames are those of RFC 6455 section 5.2, written
and read here, because a client library would not send what the protocol forbids.
"""

import base64
import itertools
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from jissoku.conformance.applications import (
    RESPONSE_LIMIT_S,
    Connection,
    MismatchError,
    expect,
)
from jissoku.system.address import Address

OPCODES = {"continuation": 0, "text": 1, "binary": 2, "close": 8, "ping": 9, "pong": 10}
KEY = base64.b64encode(b"0123456789abcdef").decode()
# The digest of KEY and the GUID of RFC 6455 section 1.3.
ACCEPT = "BACScCJPNqyz+UBoqMH89VmURoA="
MASK = bytes.fromhex("a55a3cc3")

# Bit of a frame's first byte that says that the message is compressed (RFC 7692 section 6).
RSV1 = 0x40

# What a compressed message ends with, and which is left out (RFC 7692 section 7.2.1).
TAIL = b"\x00\x00\xff\xff"

NO_STATUS = 1005


def expanded(cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A case for each of the values of `each`, in place of cases that have it."""
    return [one for case in cases for one in _expand(case)]


def _expand(case: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if "each" not in case:
        yield case
        return
    for value in case["each"]:
        made = {name: _filled(item, value) for name, item in case.items() if name != "each"}
        made |= {"name": f"{case['name']}_{str(value).replace(' ', '_')}", "group": case["name"]}
        yield made


def _filled(item: Any, value: Any) -> Any:
    match item:
        case "{each}":
            return value
        case str():
            return item.replace("{each}", str(value))
        case list():
            return [_filled(part, value) for part in item]
        case dict():
            return {name: _filled(part, value) for name, part in item.items()}
        case _:
            return item


@dataclass
class Channel:
    """The frames that a server sends."""

    connection: Connection
    inflater: Any = field(default_factory=lambda: zlib.decompressobj(-15))
    keeps_context: bool = True

    def frame(self) -> tuple[int, bytes]:
        """The first byte of the next frame, and its payload."""
        head = self._take(2)
        expect(not head[1] & 0x80, "a frame of the server is masked")
        size = head[1]
        if size >= 126:
            extended = self._take(2 if size == 126 else 8)
            least = size - 126
            size = int.from_bytes(extended)
            expect(size > (65_535 if least else 125), "a length is not of the fewest bytes")
        return head[0], self._take(size)

    def message(self) -> tuple[int, bytes]:
        """The opcode and the data of the next message or control frame."""
        first, data = self.frame()
        while first & 0x0F < 8 and not first & 0x80:
            more, part = self.frame()
            expect(more & 0x7F == 0, "a fragment of a message is no continuation")
            first, data = first | more & 0x80, data + part
        if first & RSV1:
            data = self._inflate(data)
        expect(not first & 0x30, "a reserved bit is set")
        return first & 0x0F, data

    def _inflate(self, data: bytes) -> bytes:
        if not self.keeps_context:
            self.inflater = zlib.decompressobj(-15)
        inflated: bytes = self.inflater.decompress(data + TAIL)
        return inflated

    def _take(self, size: int) -> bytes:
        taken = bytearray()
        self.connection.take(size, taken)
        return bytes(taken)


def payload_of(item: dict[str, Any]) -> bytes:
    prefix, repeated = bytes.fromhex(item.get("hex", "")), str(item.get("payload", "")).encode()
    if "payload" not in item:
        prefix, repeated = b"", prefix
    return prefix + repeated * int(item.get("times", 1))


def encoded(item: dict[str, Any]) -> bytes:
    """A frame of a case as its bytes, masked as those of clients are."""
    payload = payload_of(item)
    first = 0x80 if item.get("fin", True) else 0
    first |= int(item.get("rsv", 0)) << 4 | OPCODES.get(item["op"], 0) | int(item.get("opcode", 0))
    if item.get("deflate"):
        deflater = zlib.compressobj(wbits=-15)
        payload = deflater.compress(payload) + deflater.flush(zlib.Z_SYNC_FLUSH)
        payload = payload.removesuffix(TAIL)
        first |= RSV1
    if "first" in item:
        payload = payload[: item["first"]]
    if "after" in item:
        payload = payload[item["after"] :]
        first &= ~RSV1
    length = int(item.get("length", len(payload)))
    is_masked = item.get("masked", True)
    masked = 0x80 if is_masked else 0
    if length < 126:
        head = bytes([first, masked | length])
    elif length < 65_536:
        head = struct.pack(">BBH", first, masked | 126, length)
    else:
        head = struct.pack(">BBQ", first, masked | 127, length)
    if not is_masked:
        return head + payload
    return head + MASK + bytes(a ^ b for a, b in zip(payload, itertools.cycle(MASK), strict=False))


def judge_websocket_case(case: dict[str, Any], address: Address) -> str:
    """Sends a case. Returns what is wrong with what the server sends, or nothing."""
    try:
        with address.connect(RESPONSE_LIMIT_S) as opened:
            check(case, Connection(opened))
    except MismatchError as error:
        return str(error)
    except EOFError:
        return "the connection ended without a Close frame"
    except TimeoutError:
        return f"no frame within {RESPONSE_LIMIT_S:.0f} s"
    except (OSError, ValueError, zlib.error) as error:
        return f"{type(error).__name__}: {error}"
    return ""


def check(case: dict[str, Any], connection: Connection) -> None:
    """Sends a case and compares the frames of the server with the expected ones.

    Raises:
        MismatchError: They differ.
        EOFError: The connection ended before.
        OSError: The server sends nothing in time.
    """
    channel = _opened(case, connection)
    sent = b"".join(encoded(item) for item in case["send"])
    step = case.get("chop", len(sent)) or 1
    try:
        for start in range(0, len(sent), step):
            connection.socket.sendall(sent[start : start + step])
    except (BrokenPipeError, ConnectionResetError):
        # The server has closed in the middle, and has said why before.
        pass
    wanted = [(OPCODES[item["op"]], payload_of(item)) for item in case.get("answers", [])]
    while wanted:
        seen = channel.message()
        # A Pong comes from the server, and may be faster than a message of the application.
        is_pong = seen[0] == OPCODES["pong"]
        alike = [one for one in wanted if (one[0] == OPCODES["pong"]) == is_pong] or wanted
        expect(seen == alike[0], f"{_shown(*seen)} instead of {_shown(*alike[0])}")
        wanted.remove(alike[0])
    codes = case.get("close")
    if codes is None:
        codes = 1000
        connection.socket.sendall(encoded({"op": "close", "hex": "03e8"}))
    opcode, data = channel.message()
    expect(opcode == OPCODES["close"], f"{_shown(opcode, data)} instead of a close")
    code = int.from_bytes(data[:2]) if data else NO_STATUS
    allowed = codes if isinstance(codes, list) else [codes]
    expect(code in allowed, f"code {code} instead of {' or '.join(map(str, allowed))}")
    if "close" in case:
        # A client that is closed by the server answers with the same code; another one has sent it.
        connection.socket.sendall(encoded({"op": "close", "hex": f"{code:04x}"}))
    expect(connection.has_ended(), "the connection stays open after the closing handshake")


def _opened(case: dict[str, Any], connection: Connection) -> Channel:
    fields = [
        "Host: a",
        "Case: websocket",
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        f"Sec-WebSocket-Key: {KEY}",
    ]
    offer = case.get("offer", "")
    if offer:
        fields.append(f"Sec-WebSocket-Extensions: {offer}")
    head = "\r\n".join(["GET / HTTP/1.1", *fields, "", ""])
    connection.socket.sendall(head.encode())
    answer = connection.answer("HEAD")
    expect(answer.status == 101, f"status {answer.status} instead of 101")
    accept = answer.fields.get("sec-websocket-accept")
    expect(accept == ACCEPT, f"Sec-WebSocket-Accept: {accept!r}")
    extensions = answer.fields.get("sec-websocket-extensions", "")
    wanted = case.get("extension", "permessage-deflate" if offer else "")
    expect(extensions.startswith(wanted) if wanted else not extensions, f"extensions {extensions}")
    return Channel(connection, keeps_context="server_no_context_takeover" not in extensions)


def _shown(opcode: int, data: bytes) -> str:
    name = next((name for name, number in OPCODES.items() if number == opcode), f"opcode {opcode}")
    return f"{name} {data[:20]!r}{'...' if len(data) > 20 else ''} ({len(data)} bytes)"
