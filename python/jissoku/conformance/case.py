"""Protocol cases as data, of servers and of reverse proxies.

Of a server: bytes to send, and how it has to interpret them. Of a proxy: what a client sends and
what its upstream server answers.

The formats are described in `README.md` and `gateway/README.md` beside this file; the parser's
tests in Rust read the same files.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec

from jissoku.errors import InputError
from jissoku.system import toml_file


class Named(Protocol):
    """A case of any kind."""

    @property
    def name(self) -> str:
        """Unique in its folder."""


C = TypeVar("C", bound=Named)


class Fill(msgspec.Struct, forbid_unknown_fields=True):
    """Text that replaces every `@` of a case: `text`, `count` times."""

    text: str
    count: int

    @property
    def filling(self) -> str:
        """What `@` is replaced with."""
        return self.text * self.count


def read_folder(folder: Path, read: Callable[[Path], Iterable[C]]) -> tuple[C, ...]:
    """Reads every file of a folder, in the order of their names.

    Args:
        folder: The files in it whose names end in .toml are read.
        read: Reads the cases of one file.

    Raises:
        InputError: A file cannot be read or is invalid, a name is used twice, or there is no case.
    """
    try:
        paths = sorted(path for path in folder.iterdir() if path.suffix == ".toml")
    except OSError as error:
        raise InputError(f"{folder}: cases cannot be read: {error.strerror}") from error
    cases = tuple(case for path in paths for case in read(path))
    names = [case.name for case in cases]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"two cases are called {name}: rename one of them")
    if not cases:
        raise InputError(f"{folder} holds no cases: give a folder with .toml files in it")
    return cases


BUILTIN_CASES = Path(__file__).parent / "cases"


class Level(StrEnum):
    MUST = "must"
    SHOULD = "should"
    CHOICE = "choice"  # the standard leaves the choice to the server, and jissoku made this one


class Ends(StrEnum):
    """What a server waits for after the last byte of a case."""

    IDLE = "idle"
    HEAD = "head"
    BODY = "body"


class AlsoAllowed(StrEnum):
    """Other behaviour that the standard allows."""

    ANSWERED = "answered"
    LAST = "last"  # answered, and the connection ended
    TWICE = "twice"  # two answers where jissoku gives one rejection
    REFUSED = "refused"
    SILENT = "silent"
    GARBLED = "garbled"  # an answer without a head, as in HTTP/0.9


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What must hold of one answer.

    Attributes:
        index: Which final answer, from 0.
        when: The rule applies to these statuses only; to every status when empty.
        status: The answer has one of these; any when empty.
        has: Names of fields that must be there.
        lacks: Names of fields that must not be there.
        body: The body, to the byte.
        like: Index of another answer that has the same Content-Length and Content-Type.
        interim: The status of an interim answer that must have come before it; 0: none may.
    """

    index: int = 0
    when: tuple[int, ...] = ()
    status: tuple[int, ...] = ()
    has: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    body: str | None = None
    like: int | None = None
    interim: int | None = None


class Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A request that a server has to understand."""

    method: str = ""
    target: str = ""
    body: str = ""
    fields: tuple[tuple[str, str], ...] | None = None
    persists: bool = True
    waits: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One case, ready to be sent.

    Attributes:
        group: The title of its file.
        send: The bytes that are sent at once; `then` follows after the first answer.
        requests: The requests that the server has to understand, in order.
        ends: What is waited for afterwards; with a `status`, where the refusal falls.
        status: Jissoku's, when the message has to be rejected; None when it has to be answered.
        statuses: Those that the standard names; empty where any rejection passes.
        closes: Whether the standard requires the connection to end after the rejection.
    """

    name: str
    group: str
    clause: str
    level: Level
    send: bytes
    then: bytes
    requests: tuple[Request, ...]
    ends: Ends
    status: int | None
    statuses: tuple[int, ...]
    closes: bool
    also: frozenset[AlsoAllowed]
    answers: tuple[Rule, ...]

    @property
    def whole_count(self) -> int:
        """How many requests are to be answered.

        That is every one that is complete, up to the first that ends the connection: what a client
        sends after it must not be processed (RFC 9112 section 9.6).
        """
        complete = len(self.requests) - (self.ends is Ends.BODY)
        last = (i for i, request in enumerate(self.requests) if not request.persists)
        return min(complete, next(last, complete) + 1)

    @property
    def persists(self) -> bool:
        """Whether the client can take another answer after the last request."""
        return all(request.persists for request in self.requests)


class _Row(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    name: str
    clause: str
    send: str
    level: Level = Level.MUST
    then: str = ""
    fill: Fill | None = None
    requests: tuple[Request, ...] = ()
    ends: Ends = Ends.IDLE
    status: int | None = None
    statuses: tuple[int, ...] = ()
    reject: str = ""
    closes: bool = False
    also: frozenset[AlsoAllowed] = frozenset()
    answers: tuple[Rule, ...] = ()


class _File(msgspec.Struct, forbid_unknown_fields=True):
    title: str
    case: list[_Row]
    at: str | None = None


def read_all(folder: Path = BUILTIN_CASES) -> tuple[Case, ...]:
    """Reads every file of a folder, in the order of their names.

    Raises:
        InputError: A file cannot be read, has an unknown key, or a name is used twice.
    """
    return read_folder(folder, _read)


def _read(path: Path) -> list[Case]:
    file = toml_file.read(path, _File)
    return [_case(row, file, path) for row in file.case]


def _case(row: _Row, file: _File, path: Path) -> Case:
    filling = row.fill.filling if row.fill else file.at
    send = row.send if filling is None else row.send.replace("@", filling)
    try:
        return Case(
            name=row.name,
            group=file.title,
            clause=row.clause,
            level=row.level,
            send=send.encode("latin-1"),
            then=row.then.encode("latin-1"),
            requests=row.requests,
            ends=row.ends,
            status=row.status,
            statuses=row.statuses,
            closes=row.closes,
            also=row.also,
            answers=row.answers,
        )
    except UnicodeEncodeError as error:
        raise InputError(
            f"{path.name}, case {row.name}: write bytes as U+0000 to U+00FF"
        ) from error


BUILTIN_GATEWAY_CASES = Path(__file__).parent / "gateway" / "cases"

METHOD = re.compile(r"(?:^|\n)([A-Z]+) \S+ HTTP/1\.[01]\r\n")


class Do(StrEnum):
    """An action on a connection; the last two are the upstream's."""

    FIN = "fin"  # ends the own direction, and reads on
    RST = "rst"
    CLOSE = "close"
    TUNNEL = "tunnel"  # the bytes after it are not HTTP
    CONTINUE = "continue"  # sends 100 (Continue) if the request expects it


class Await(StrEnum):
    """What a step waits for. Client: the first four; upstream: the last three."""

    ANSWER = "answer"
    INTERIM = "interim"
    FORWARDED = "forwarded"
    END = "end"
    HEAD = "head"
    REQUEST = "request"


class ServerKind(StrEnum):
    SCRIPTED = "scripted"
    REFUSED = "refused"  # does not listen
    FULL = "full"  # listens, accepts nothing, and its queue is full


class End(StrEnum):
    """The state of a connection after a case."""

    OPEN = "open"
    CLOSED = "closed"
    ANY = "any"


class Step(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One step of a script; exactly one of the keys is given."""

    send: str | None = None
    wait: Await | None = None
    wait_ms: int | None = None
    do: Do | None = None


class ExpectedRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What is required of one forwarded request; nothing is required of what is absent.

    Attributes:
        fields: Pairs of name and value that are there.
        order: Values of one field in their order, joined by `, `: pairs of name and value.
        raw_has: Byte sequences of it, or of what follows it on its connection.
        connection: `same` as the request before it, or `fresh`.
        is_complete: Whether its body ended; None: either.
    """

    method: str = ""
    target: str = ""
    version: str = "1.1"
    has: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    fields: tuple[tuple[str, str], ...] = ()
    order: tuple[tuple[str, str], ...] = ()
    body: str | None = None
    body_size: int | None = None
    raw_has: tuple[str, ...] = ()
    raw_lacks: tuple[str, ...] = ()
    connection: str = ""
    is_complete: bool | None = True


class ExpectedAnswer(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What is required of one final answer at the client.

    Attributes:
        is_cut: It ends visibly before its end (RFC 9112 section 8).
        interim: Statuses of the interim answers before it; None: any.
    """

    status: tuple[int, ...] = ()
    version: str = "1.1"
    has: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    fields: tuple[tuple[str, str], ...] = ()
    body: str | None = None
    body_size: int | None = None
    raw_has: tuple[str, ...] = ()
    raw_lacks: tuple[str, ...] = ()
    is_cut: bool = False
    interim: tuple[int, ...] | None = None


class Outcome(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One outcome that a case permits.

    Attributes:
        forwarded: Requests that reach the upstream servers, in order; None: nothing is required.
        got: Final answers at the client, in order; None: nothing is required.
        end: The client's connection afterwards.
        upstream_end: The connection of the last forwarded request afterwards.
        why: Shown where the standard allows this outcome besides the required one.
    """

    forwarded: tuple[ExpectedRequest, ...] | None = None
    got: tuple[ExpectedAnswer, ...] | None = None
    end: End = End.ANY
    upstream_end: End = End.ANY
    why: str = ""


class GatewayCase(msgspec.Struct, frozen=True, kw_only=True):
    """One case, ready to be run.

    Attributes:
        group: The title of its file.
        why: What goes wrong for users where it is violated.
        client: The steps of the client.
        answers: What the upstream sends for each request, in the order of their arrival.
        script: Steps of the upstream for each connection, in the order in which they are accepted;
            connections without steps take from `answers`, then send a plain 200.
        servers: The kinds of servers behind the proxy.
        outcome: The required outcome.
        also: Other outcomes that the standard allows.
        repeat: How often it is run, on a new client connection each time.
    """

    name: str
    group: str
    clause: str
    level: Level
    why: str
    client: tuple[Step, ...]
    answers: tuple[str, ...]
    script: tuple[tuple[Step, ...], ...]
    servers: tuple[ServerKind, ...]
    outcome: Outcome
    also: tuple[Outcome, ...]
    repeat: int

    @property
    def methods(self) -> list[str]:
        """The methods of the requests, which decide whether an answer has a body."""
        return METHOD.findall("".join(step.send or "" for step in self.client))


class _GatewayRow(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    name: str
    clause: str
    why: str = ""
    level: Level = Level.MUST
    send: str = ""
    client: tuple[Step, ...] = ()
    answer: str = ""
    answers: tuple[str, ...] = ()
    script: tuple[tuple[Step, ...], ...] = ()
    servers: tuple[ServerKind, ...] = (ServerKind.SCRIPTED,)
    forwarded: tuple[ExpectedRequest, ...] | None = None
    got: tuple[ExpectedAnswer, ...] | None = None
    end: End = End.ANY
    upstream_end: End = End.ANY
    also: tuple[Outcome, ...] = ()
    fill: Fill | None = None
    repeat: int = 1


class _GatewayFile(msgspec.Struct, forbid_unknown_fields=True):
    title: str
    case: list[_GatewayRow]


def read_gateway_cases(folder: Path = BUILTIN_GATEWAY_CASES) -> tuple[GatewayCase, ...]:
    """Reads every file of a folder, in the order of their names.

    Raises:
        InputError: A file cannot be read, has an unknown key, or a name is used twice.
    """
    return read_folder(folder, _read_gateway)


def _read_gateway(path: Path) -> Iterator[GatewayCase]:
    file = toml_file.read(path, _GatewayFile)
    for row in file.case:
        if bool(row.send) is bool(row.client):
            raise InputError(f"{path.name}, case {row.name}: give `send` or `client`, not both")
        yield _gateway_case(row, file.title)


def _gateway_case(row: _GatewayRow, group: str) -> GatewayCase:
    def filled(text: str) -> str:
        return text.replace("@", row.fill.filling) if row.fill else text

    def step(given: Step) -> Step:
        return given if given.send is None else Step(send=filled(given.send))

    return GatewayCase(
        name=row.name,
        group=group,
        clause=row.clause,
        level=row.level,
        why=row.why,
        client=tuple(map(step, row.client)) or (Step(send=filled(row.send)),),
        answers=tuple(map(filled, row.answers or ((row.answer,) if row.answer else ()))),
        script=tuple(tuple(map(step, steps)) for steps in row.script),
        servers=row.servers,
        outcome=Outcome(
            forwarded=row.forwarded, got=row.got, end=row.end, upstream_end=row.upstream_end
        ),
        also=row.also,
        repeat=row.repeat,
    )


# Pieces of a case that is sent byte by byte, at most: a long one is sent in larger steps.
PIECES_MAX = 400


class SplitMode(StrEnum):
    """How a case is sent."""

    WHOLE = "whole"
    SPLITS = "splits"
    BYTES = "bytes"


def split_points(size: int, sending: SplitMode, line_end: int = -1) -> Iterator[tuple[int, ...]]:
    """Yields the places to cut at, once for each time that a case is to be sent.

    `line_end` is the offset of the first CR: a split between it and its LF is the one that parsers
    most often mishandle.
    """
    yield ()
    if sending is SplitMode.SPLITS:
        places = {1, size // 4, line_end + 1, size // 2, size * 3 // 4, size - 2, size - 1}
        yield from ((place,) for place in sorted(places) if 0 < place < size)
    elif sending is SplitMode.BYTES:
        stride = size // PIECES_MAX + 1
        yield tuple(range(stride, size, stride))
