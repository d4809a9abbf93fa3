"""The cases of conformance/apps, sent over a socket, and what is wrong with the answers."""

import json
import socket
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
CASES = ROOT / "conformance" / "apps"

# Longer than anything here takes; it turns a hang into a failure.
PATIENCE_S = 10.0

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
        """A line without its end."""
        while b"\r\n" not in self.buffer:
            self.receive()
        line, _, self.buffer = self.buffer.partition(b"\r\n")
        return line

    def take(self, size: int, into: bytearray) -> None:
        """This many bytes, or all that arrive."""
        while size:
            if not self.buffer:
                self.receive()
            part, self.buffer = self.buffer[:size], self.buffer[size:]
            into += part
            size -= len(part)

    def answer(self, method: str) -> Answer:
        """The next response; interim ones are responses too."""
        version, status, reason = (self.take_line().decode("latin-1") + " ").split(" ", 2)
        assert version == "HTTP/1.1", f"the status line begins with {version!r}"
        answer = Answer(int(status), reason.rstrip(), {})
        while line := self.take_line().decode("latin-1"):
            name, _, value = line.partition(":")
            assert name.lower() not in answer.fields, f"{name} is there twice"
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
            assert "content-length" not in answer.fields
            while size := int(self.take_line(), 16):
                self.take(size, body)
                assert self.take_line() == b""
            while line := self.take_line().decode("latin-1"):
                name, _, value = line.partition(":")
                answer.trailers[name.lower()] = value.strip()
        elif "content-length" in answer.fields:
            self.take(int(answer.fields["content-length"]), body)
        else:
            while True:
                self.take(1, body)

    def has_ended(self) -> bool:
        """Whether nothing but the end of the connection follows."""
        try:
            while not self.buffer:
                self.receive()
        except EOFError:
            return True
        except TimeoutError:
            return False
        return False


def read_cases(name: str) -> list[dict[str, Any]]:
    """The cases of one file."""
    cases: list[dict[str, Any]] = tomllib.loads((CASES / name).read_text())["case"]
    return cases


def check(case: dict[str, Any], port: int) -> None:
    """Sends a case and compares what came back."""
    methods = [line.split(" ")[0] for line in case["send"].split("\r\n") if " HTTP/1." in line]
    methods = [method[-4:] if method.endswith("POST") else method for method in methods]
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as opened:
        connection = Connection(opened)
        opened.sendall(case["send"].encode("latin-1"))
        if "then" in case:
            assert connection.answer("").status == case["interim"]
            opened.sendall(case["then"].encode("latin-1"))
        # An interim response belongs to the request of the next one.
        final = iter(methods)
        answers: list[Answer] = []
        method = ""
        for expected in case["answers"]:
            if not answers or answers[-1].status >= 200:
                method = next(final)
            answers.append(compare(expected, connection.answer(method)))
        match case.get("ends", "open"):
            case "truncated":
                assert not answers[-1].is_whole, "the end looks like that of a complete response"
            case "closed":
                assert connection.has_ended(), "the connection stays open"
            case "open":
                assert answers[-1].is_whole
                opened.sendall(PROBE)
                assert connection.answer("GET").body == b"hello", "the connection has ended"
                assert connection.has_ended()
            case _:
                pass


def compare(expected: dict[str, Any], answer: Answer) -> Answer:
    """Compares one response with what a case says about it."""
    assert answer.status == expected.get("status", answer.status), answer
    assert answer.reason == expected.get("reason", answer.reason)
    assert answer.body.decode("latin-1") == expected.get("body", answer.body.decode("latin-1"))
    for name, value in expected.get("has", {}).items():
        assert answer.fields.get(name.lower()) == value, f"{name} in {answer.fields}"
    trailers = {name.lower(): value for name, value in expected.get("trailers", {}).items()}
    assert answer.trailers == trailers
    for name in expected.get("lacks", []):
        assert name.lower() not in answer.fields, f"{name} in {answer.fields}"
    if "json" in expected:
        seen = json.loads(answer.body)
        differing = {key: seen.get(key, "<absent>") for key in expected["json"]}
        assert differing == expected["json"]
    return answer
