"""Parses a server's responses, as strictly as RFC 9112 specifies them.

It shares no code with any server or with the load generator, and takes bytes as they come.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

# No case has a longer answer; longer ones are not held in memory.
HEAD_BYTES_MAX = 256 * 1024
BODY_BYTES_MAX = 64 * 1024 * 1024

STATUS_LINE = re.compile(rb"HTTP/(1\.[01]) ([1-9][0-9]{2}) [\t\x20-\x7e\x80-\xff]*")
FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\t\x20-\x7e\x80-\xff]*)")
CHUNK = re.compile(rb"([0-9A-Fa-f]{1,16})(?:[ \t]*;[\t\x20-\x7e\x80-\xff]*)?")

WITHOUT_BODY = {204, 304}
SWITCHED = 101


class MalformedResponse(Exception):  # noqa: N818 - describes what a server sent
    """The received bytes are not a response."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """One answer, interim or final."""

    version: str
    status: int
    fields: tuple[tuple[str, str], ...]
    body: bytes = b""

    @property
    def is_interim(self) -> bool:
        """Whether a final answer is still to come (RFC 9110 section 15.2)."""
        return self.status < 200

    def has(self, name: str) -> bool:
        return any(key.lower() == name.lower() for key, _ in self.fields)

    def value(self, name: str) -> str:
        """The values of a field, joined by commas; "" if there is none."""
        return ", ".join(value for key, value in self.fields if key.lower() == name.lower())

    @property
    def announces_end(self) -> bool:
        """Whether the response announces the end of the connection (RFC 9112 section 9.3)."""
        options = {option.strip().lower() for option in self.value("Connection").split(",")}
        return "close" in options or (self.version == "1.0" and "keep-alive" not in options)


class Reader:
    def __init__(self, methods: Sequence[str]) -> None:
        """`methods` are those of the requests in order; requests after them count as GET."""
        self.answers: list[Response] = []
        self._methods = methods
        self._bytes = b""
        # The head that was read, while its body is incomplete.
        self._head: Response | None = None

    @property
    def pending(self) -> Response | None:
        """The head of an answer whose body is incomplete."""
        return self._head

    @property
    def is_tunnel(self) -> bool:
        """Whether the protocol was switched, so that the bytes after it are not HTTP."""
        return bool(self.answers) and self.answers[-1].status == SWITCHED

    @property
    def finals(self) -> list[Response]:
        return [answer for answer in self.answers if not answer.is_interim]

    def feed(self, data: bytes) -> None:
        """Takes received bytes.

        Raises:
            Garbled: They are not a response.
        """
        self._bytes += data
        while self._step():
            pass

    def end(self) -> None:
        """The server has closed the connection.

        Raises:
            Garbled: It did so in the middle of an answer.
        """
        if self._head is not None and not _has_framing(self._head):
            self._finish(self._bytes)
            self._bytes = b""
        if self._head is not None or (self._bytes and not self.is_tunnel):
            raise MalformedResponse("the connection ends in the middle of an answer")

    def _step(self) -> bool:
        if self.is_tunnel:
            return False
        if self._head is None:
            end = self._bytes.find(b"\r\n\r\n")
            if end < 0:
                self._refuse_early()
                return False
            self._head = _read_head(self._bytes[:end])
            self._bytes = self._bytes[end + 4 :]
        return self._read_body(self._head)

    def _refuse_early(self) -> None:
        """Raises an error if the bytes cannot be the beginning of a response."""
        front = self._bytes[:5]
        if not b"HTTP/".startswith(front):
            raise MalformedResponse(f"begins with {self._bytes[:24]!r}")
        if len(self._bytes) > HEAD_BYTES_MAX:
            raise MalformedResponse("a head without end")

    def _read_body(self, head: Response) -> bool:
        count = len(self.finals)
        method = self._methods[count] if count < len(self._methods) else "GET"
        if head.is_interim or head.status in WITHOUT_BODY or method == "HEAD":
            self._finish(b"")
            return bool(self._bytes)
        if head.has("Transfer-Encoding"):
            return self._read_chunks()
        if head.has("Content-Length"):
            size = int(head.value("Content-Length"))
            if len(self._bytes) < size:
                return False
            self._finish(self._bytes[:size])
            self._bytes = self._bytes[size:]
            return bool(self._bytes)
        if len(self._bytes) > BODY_BYTES_MAX:
            raise MalformedResponse("a body without end")
        return False

    def _read_chunks(self) -> bool:
        """From the first chunk each time: bodies of answers to cases are short."""
        at, body = 0, b""
        while (end := self._bytes.find(b"\r\n", at)) >= 0:
            found = CHUNK.fullmatch(self._bytes[at:end])
            if found is None:
                raise MalformedResponse(f"a chunk begins with {self._bytes[at:end][:24]!r}")
            size, at = int(found[1], 16), end + 2
            if size == 0:
                return self._read_trailers(at, body)
            if len(self._bytes) < at + size + 2:
                break
            if self._bytes[at + size : at + size + 2] != b"\r\n":
                raise MalformedResponse("a chunk is longer than its size")
            body += self._bytes[at : at + size]
            at += size + 2
        return False

    def _read_trailers(self, at: int, body: bytes) -> bool:
        while (end := self._bytes.find(b"\r\n", at)) >= 0:
            line, at = self._bytes[at:end], end + 2
            if not line:
                self._bytes = self._bytes[at:]
                self._finish(body)
                return bool(self._bytes)
            _read_field(line)
        return False

    def _finish(self, body: bytes) -> None:
        head = self._head
        assert head is not None, "a body follows its head"
        self.answers.append(
            Response(version=head.version, status=head.status, fields=head.fields, body=body)
        )
        self._head = None


def _has_framing(head: Response) -> bool:
    return head.has("Transfer-Encoding") or head.has("Content-Length")


def _read_head(head: bytes) -> Response:
    line, *rest = head.split(b"\r\n")
    found = STATUS_LINE.fullmatch(line)
    if found is None:
        raise MalformedResponse(f"the status line reads {line[:60]!r}")
    fields = tuple(_read_field(field) for field in rest)
    answer = Response(version=found[1].decode(), status=int(found[2]), fields=fields)
    _check_framing(answer)
    return answer


def _read_field(line: bytes) -> tuple[str, str]:
    found = FIELD.fullmatch(line)
    if found is None:
        raise MalformedResponse(f"a header line reads {line[:60]!r}")
    return found[1].decode("latin-1"), found[2].decode("latin-1").rstrip(" \t")


def _check_framing(answer: Response) -> None:
    """RFC 9112 sections 6.1 and 6.2: what a sender must not send."""
    coding, length = answer.value("Transfer-Encoding"), answer.value("Content-Length")
    if answer.has("Transfer-Encoding") and answer.has("Content-Length"):
        raise MalformedResponse("an answer has both Content-Length and Transfer-Encoding")
    if (answer.is_interim or answer.status == 204) and _has_framing(answer):
        raise MalformedResponse(f"an answer of {answer.status} speaks of a body")
    if answer.has("Content-Length") and not re.fullmatch(r"[0-9]{1,18}", length):
        raise MalformedResponse(f"Content-Length reads {length!r}")
    if answer.has("Transfer-Encoding") and coding.lower() != "chunked":
        raise MalformedResponse(f"Transfer-Encoding reads {coding!r}")
