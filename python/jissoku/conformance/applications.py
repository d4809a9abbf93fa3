"""Cases of applications (`apps/`): bytes sent to a server, and what is wrong with it.

The application is ours, and the case chooses its behaviour; the server is what is tested.
"""

import json
import socket
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jissoku.errors import InputError
from jissoku.system.address import Address

# Longer than any response takes; it turns a hang into a failure.
RESPONSE_LIMIT_S = 30.0

BUILTIN_CASES = Path(__file__).parent / "apps"

PROBE = b"GET / HTTP/1.1\r\nHost: a\r\nCase: hello\r\nConnection: close\r\n\r\n"


@dataclass
class Answer:
    """One response as it came."""

    status: int
    reason: str
    fields: dict[str, str]
    trailers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    is_whole: bool = True


@dataclass
class Connection:
    """A connection from which answers are read one at a time."""

    socket: socket.socket
    buffer: bytes = b""
    is_ended: bool = field(default=False)

    def receive(self) -> None:
        """Reads once.

        Raises:
            EOFError: The server has closed the connection.
        """
        try:
            data = self.socket.recv(65536)
        except ConnectionResetError:
            data = b""
        if not data:
            self.is_ended = True
            raise EOFError
        self.buffer += data

    def take_line(self) -> bytes:
        """Reads a line, and removes its line end."""
        while b"\r\n" not in self.buffer:
            self.receive()
        line, _, self.buffer = self.buffer.partition(b"\r\n")
        return line

    def take(self, size: int, into: bytearray) -> None:
        """Reads this many bytes, or fewer if the connection ends."""
        while size:
            if not self.buffer:
                self.receive()
            part, self.buffer = self.buffer[:size], self.buffer[size:]
            into += part
            size -= len(part)

    def answer(self, method: str) -> Answer:
        """The next response; interim ones are responses too."""
        version, status, reason = (self.take_line().decode("latin-1") + " ").split(" ", 2)
        expect(version == "HTTP/1.1", f"the status line begins with {version!r}")
        answer = Answer(int(status), reason.rstrip(), {})
        while line := self.take_line().decode("latin-1"):
            name, _, value = line.partition(":")
            expect(name.lower() not in answer.fields, f"there are two fields {name}")
            answer.fields[name.lower()] = value.strip()
        has_body = method != "HEAD" and answer.status not in {100, 103, 204, 304}
        if has_body:
            body = bytearray()
            try:
                self._take_body(answer, body)
            except EOFError:
                answer.is_whole = not answer.fields.keys() & {"content-length", "transfer-encoding"}
            answer.body = bytes(body)
        return answer

    def _take_body(self, answer: Answer, body: bytearray) -> None:
        if answer.fields.get("transfer-encoding") == "chunked":
            expect("content-length" not in answer.fields, "Content-Length beside chunked")
            while size := int(self.take_line(), 16):
                self.take(size, body)
                expect(self.take_line() == b"", "no line end after a chunk")
            while line := self.take_line().decode("latin-1"):
                name, _, value = line.partition(":")
                answer.trailers[name.lower()] = value.strip()
        elif "content-length" in answer.fields:
            self.take(int(answer.fields["content-length"]), body)
        else:
            while True:
                self.take(1, body)

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
    """Raises an error unless the condition holds.

    Raises:
        MismatchError: It is false.
    """
    if not condition:
        raise MismatchError(reason)


def read_cases(path: Path) -> list[dict[str, Any]]:
    """The cases of one file.

    Raises:
        InputError: There is no such file, or it has no cases.
    """
    if not path.is_file():
        raise InputError(f"there is no {path}: jissoku is not completely installed")
    cases: list[dict[str, Any]] = tomllib.loads(path.read_text())["case"]
    return cases


def judge_case(case: dict[str, Any], address: Address, *, must_persist: bool = False) -> str:
    """Sends a case. Returns what is wrong with the answers, or nothing.

    Args:
        case: The case.
        address: Where the server listens.
        must_persist: Whether a connection that a case leaves open has to persist; otherwise the
            server may announce its end, as RFC 9112 section 9.6 has it.
    """
    try:
        check(case, address, must_persist=must_persist)
    except MismatchError as error:
        return str(error)
    except EOFError:
        return "the connection ended without a response"
    except TimeoutError:
        return f"no response within {RESPONSE_LIMIT_S:.0f} s"
    except (OSError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    return ""


def check(case: dict[str, Any], address: Address, *, must_persist: bool) -> None:
    """Sends a case and compares the response with the expected one.

    Raises:
        MismatchError: An answer is not the expected one.
        EOFError: The connection ended before an answer.
        OSError: The server cannot be reached, or gives no answer in time.
        ValueError: An answer is not HTTP/1.1.
    """
    methods = [line.split(" ")[0] for line in case["send"].split("\r\n") if " HTTP/1." in line]
    methods = [method[-4:] if method.endswith("POST") else method for method in methods]
    with address.connect(RESPONSE_LIMIT_S) as opened:
        connection = Connection(opened)
        opened.sendall(case["send"].encode("latin-1"))
        if "then" in case:
            status = connection.answer("").status
            expect(status == case["interim"], f"{status} before the rest was sent")
            opened.sendall(case["then"].encode("latin-1"))
        # An interim response belongs to the request of the next one.
        final = iter(methods)
        answers: list[Answer] = []
        method = ""
        for expected in case["answers"]:
            if not answers or answers[-1].status >= 200:
                method = next(final)
            answers.append(compare(expected, connection.answer(method)))
        ends = case.get("ends", "open")
        is_announced = answers[-1].fields.get("connection", "").lower() == "close"
        if ends == "open" and is_announced and not must_persist:
            ends = "closed"
        _check_end(ends, connection, answers[-1])


def _check_end(ends: str, connection: Connection, last: Answer) -> None:
    if ends == "truncated":
        expect(not last.is_whole, "the end looks like that of a complete response")
    elif ends == "closed":
        expect(connection.has_ended(), "the connection stays open")
    elif ends == "open":
        expect(last.is_whole, "the response is incomplete")
        connection.socket.sendall(PROBE)
        try:
            body = connection.answer("GET").body
        except (EOFError, OSError):
            raise MismatchError("the connection does not persist") from None
        expect(body == b"hello", "the next request of the connection is not answered")
        expect(connection.has_ended(), "the connection stays open after Connection: close")


def compare(expected: dict[str, Any], answer: Answer) -> Answer:
    """Compares one response with the expectations of a case.

    Raises:
        MismatchError: They differ.
    """
    body = answer.body.decode("latin-1")
    for name, seen in (("status", answer.status), ("reason", answer.reason), ("body", body)):
        wanted = expected.get(name, seen)
        expect(seen == wanted, f"{name} {seen!r} instead of {wanted!r}")
    for name, value in expected.get("has", {}).items():
        field_value = answer.fields.get(name.lower())
        expect(field_value == value, f"{name}: {field_value!r} instead of {value!r}")
    trailers = {name.lower(): value for name, value in expected.get("trailers", {}).items()}
    expect(answer.trailers == trailers, f"trailers {answer.trailers} instead of {trailers}")
    for name in expected.get("lacks", []):
        expect(name.lower() not in answer.fields, f"there is a field {name}")
    if "json" in expected:
        members = json.loads(answer.body)
        for key, value in expected["json"].items():
            member = members.get(key, "<absent>")
            expect(member == value, f"{key} is {member!r} instead of {value!r}")
    return answer
