"""Cases of applications (`apps/`): bytes or frames sent to a server, and what is wrong with it.

The application is ours, and the case chooses its behaviour; the server is what is tested. That of
WebSockets sends every message back as it is. Frames are those of RFC 6455 section 5.2, written and
read here, because a client library would not send what the protocol forbids.
"""

import base64
import itertools
import json
import socket
import struct
import tomllib
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jissoku.conformance.messages import MalformedMessage, Response, ResponseReader
from jissoku.errors import InputError
from jissoku.system.address import Address

# Longer than any response takes; it turns a hang into a failure.
RESPONSE_LIMIT_S = 30.0

BUILTIN_CASES = Path(__file__).parent / "apps"

PROBE = b"GET / HTTP/1.1\r\nHost: a\r\nCase: hello\r\nConnection: close\r\n\r\n"


class _NextResponse(ResponseReader):
    """Reads one response, and leaves what follows it in `rest`."""

    @property
    def rest(self) -> bytes:
        return bytes(self._bytes)

    def _framing(self, head: Response) -> int | str:
        left = super()._framing(head)
        self.is_tunnel = False  # Frames follow the response, and are not its bytes.
        return left

    def _step(self) -> bool:
        return not self.answers and super()._step()


@dataclass
class Connection:
    """A client's connection, and the bytes received that are not of a response taken."""

    socket: socket.socket
    buffer: bytes = b""
    is_ended: bool = field(default=False)

    def receive(self) -> None:
        """Reads once; EOFError if the server has closed the connection."""
        try:
            data = self.socket.recv(65536)
        except ConnectionResetError:
            data = b""
        if not data:
            self.is_ended = True
            raise EOFError
        self.buffer += data

    def take(self, size: int) -> bytes:
        while len(self.buffer) < size:
            self.receive()
        taken, self.buffer = self.buffer[:size], self.buffer[size:]
        return taken

    def answer(self, method: str) -> Response:
        """The next response, incomplete if the connection ends; interim ones are responses too."""
        reader = _NextResponse([method])
        try:
            reader.feed(self.buffer)
            while not reader.answers:
                self.buffer = b""
                self.receive()
                reader.feed(self.buffer)
        except MalformedMessage as error:
            raise MismatchError(str(error)) from error
        except EOFError:
            if not reader.messages:
                raise
            with suppress(MalformedMessage):
                reader.end()
        self.buffer = reader.rest
        (answer,) = reader.messages
        expect(answer.version == "1.1", f"the version is {answer.version}")
        for name, count in Counter(name.lower() for name, _ in answer.fields).items():
            expect(count == 1, f"there are {count} fields {name}")
        return answer

    def has_ended(self) -> bool:
        """Whether the connection ends without further bytes."""
        try:
            while not self.buffer:
                self.receive()
        except EOFError:
            return True
        except TimeoutError:
            return False
        return False


class MismatchError(Exception):
    """An answer is not what the case requires; the message says how."""


def expect(condition: object, reason: str) -> None:
    if not condition:
        raise MismatchError(reason)


def read_cases(path: Path) -> list[dict[str, Any]]:
    """The cases of one file; one with `each` is replaced by a case for each of its values."""
    if not path.is_file():
        raise InputError(f"there is no {path}: jissoku is not completely installed")
    return [one for case in tomllib.loads(path.read_text())["case"] for one in expand(case)]


def check_case(case: dict[str, Any], address: Address, *, must_persist: bool = False) -> str:
    """Sends a case. Returns what is wrong with the answers, or nothing.

    Unless it `must_persist`, a server may announce the end of a connection that a case leaves open,
    as RFC 9112 section 9.6 has it.
    """
    # Cases of WebSockets send a list of frames.
    is_text = isinstance(case["send"], str)
    try:
        with address.connect(RESPONSE_LIMIT_S) as opened:
            if is_text:
                _check(case, Connection(opened), must_persist=must_persist)
            else:
                _check_frames(case, Connection(opened))
    except MismatchError as error:
        return str(error)
    except EOFError:
        return f"the connection ended without a {'response' if is_text else 'Close frame'}"
    except TimeoutError:
        return f"no {'response' if is_text else 'frame'} within {RESPONSE_LIMIT_S:.0f} s"
    except (OSError, ValueError, zlib.error) as error:
        return f"{type(error).__name__}: {error}"
    return ""


def _check(case: dict[str, Any], connection: Connection, *, must_persist: bool) -> None:
    methods = [line.split(" ")[0] for line in case["send"].split("\r\n") if " HTTP/1." in line]
    methods = [method[-4:] if method.endswith("POST") else method for method in methods]
    connection.socket.sendall(case["send"].encode("latin-1"))
    if "then" in case:
        status = connection.answer("").status
        expect(status == case["interim"], f"{status} before the rest was sent")
        connection.socket.sendall(case["then"].encode("latin-1"))
    # An interim response belongs to the request of the next one.
    final = iter(methods)
    answers: list[Response] = []
    method = ""
    for expected in case["answers"]:
        if not answers or not answers[-1].is_interim:
            method = next(final)
        answers.append(compare(expected, connection.answer(method)))
    ends = case.get("ends", "open")
    if ends == "open" and answers[-1].announces_end and not must_persist:
        ends = "closed"
    _check_end(ends, connection, answers[-1])


def _check_end(ends: str, connection: Connection, last: Response) -> None:
    if ends == "truncated":
        expect(not last.is_complete, "the end looks like that of a complete response")
    elif ends == "closed":
        expect(connection.has_ended(), "the connection stays open")
    elif ends == "open":
        expect(last.is_complete, "the response is incomplete")
        connection.socket.sendall(PROBE)
        try:
            body = connection.answer("GET").body
        except (EOFError, OSError):
            raise MismatchError("the connection does not persist") from None
        expect(body == b"hello", "the next request of the connection is not answered")
        expect(connection.has_ended(), "the connection stays open after Connection: close")


def compare(expected: dict[str, Any], answer: Response) -> Response:
    """Compares one response with the expectations of a case; MismatchError if they differ."""
    body = answer.body.decode("latin-1")
    for name, seen in (("status", answer.status), ("reason", answer.reason), ("body", body)):
        wanted = expected.get(name, seen)
        expect(seen == wanted, f"{name} {seen!r} instead of {wanted!r}")
    for name, value in expected.get("has", {}).items():
        field_value = answer.value(name)
        expect(field_value == value, f"{name}: {field_value!r} instead of {value!r}")
    trailers = {name.lower(): value for name, value in answer.trailers}
    wanted = {name.lower(): value for name, value in expected.get("trailers", {}).items()}
    expect(trailers == wanted, f"trailers {trailers} instead of {wanted}")
    for name in expected.get("lacks", []):
        expect(not answer.has(name), f"there is a field {name}")
    if "json" in expected:
        members = json.loads(answer.body)
        for key, value in expected["json"].items():
            member = members.get(key, "<absent>")
            expect(member == value, f"{key} is {member!r} instead of {value!r}")
    return answer


OPCODES = {"continuation": 0, "text": 1, "binary": 2, "close": 8, "ping": 9, "pong": 10}
KEY = base64.b64encode(b"0123456789abcdef").decode()
# The digest of KEY and the GUID of RFC 6455 section 1.3.
ACCEPT = "BACScCJPNqyz+UBoqMH89VmURoA="
MASK = bytes.fromhex("a55a3cc3")

# Bit of a frame's first byte that says that the message is compressed (RFC 7692 section 6).
RSV1 = 0x40

# What a compressed message ends with, and which is left out (RFC 7692 section 7.2.1).
TAIL = b"\x00\x00\xff\xff"


def expand(case: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if "each" not in case:
        yield case
        return
    for value in case["each"]:
        made = {name: _filled(item, value) for name, item in case.items() if name != "each"}
        made["name"] = f"{case['name']}_{str(value).replace(' ', '_')}"
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
    connection: Connection
    inflater: Any = field(default_factory=lambda: zlib.decompressobj(-15))
    keeps_context: bool = True

    def frame(self) -> tuple[int, bytes]:
        """The first byte of the next frame, and its payload."""
        head = self.connection.take(2)
        expect(not head[1] & 0x80, "a frame of the server is masked")
        size = head[1]
        if size >= 126:
            extended = self.connection.take(2 if size == 126 else 8)
            least = size - 126
            size = int.from_bytes(extended)
            expect(size > (65_535 if least else 125), "a length is not of the fewest bytes")
        return head[0], self.connection.take(size)

    def message(self) -> tuple[int, bytes]:
        """The opcode and the data of the next message or control frame."""
        first, data = self.frame()
        while first & 0x0F < 8 and not first & 0x80:
            more, part = self.frame()
            expect(more & 0x7F == 0, "a fragment of a message is no continuation")
            first, data = first | more & 0x80, data + part
        if first & RSV1:
            if not self.keeps_context:
                self.inflater = zlib.decompressobj(-15)
            data = self.inflater.decompress(data + TAIL)
        expect(not first & 0x30, "a reserved bit is set")
        return first & 0x0F, data


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


def _check_frames(case: dict[str, Any], connection: Connection) -> None:
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
    code = int.from_bytes(data[:2]) if data else 1005  # No status (RFC 6455 section 7.1.5).
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
    accept = answer.value("Sec-WebSocket-Accept")
    expect(accept == ACCEPT, f"Sec-WebSocket-Accept: {accept!r}")
    extensions = answer.value("Sec-WebSocket-Extensions")
    wanted = case.get("extension", "permessage-deflate" if offer else "")
    expect(extensions.startswith(wanted) if wanted else not extensions, f"extensions {extensions}")
    return Channel(connection, keeps_context="server_no_context_takeover" not in extensions)


def _shown(opcode: int, data: bytes) -> str:
    name = next((name for name, number in OPCODES.items() if number == opcode), f"opcode {opcode}")
    return f"{name} {data[:20]!r}{'...' if len(data) > 20 else ''} ({len(data)} bytes)"
