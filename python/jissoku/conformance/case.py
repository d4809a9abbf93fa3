"""Protocol cases as data, of servers and of reverse proxies.

Of a server: bytes to send, and how it has to interpret them. Of a proxy: what a client sends and
what its upstream server answers.

The formats are described in `README.md` and `gateway/README.md` beside this file; the parser's
tests in Rust read the same files.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

import msgspec

from jissoku.errors import InputError
from jissoku.model.updated import updated
from jissoku.system import toml_file


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
    """What must hold of one answer; `README.md` describes the keys."""

    index: int = 0
    when: tuple[int, ...] = ()
    status: tuple[int, ...] = ()
    has: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    body: str | None = None
    like: int | None = None
    interim: int | None = None


class Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    method: str = ""
    target: str = ""
    body: str = ""
    fields: tuple[tuple[str, str], ...] | None = None
    persists: bool = True
    waits: bool = False


class Filling(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Text that replaces every `@` of a case: `text`, `count` times."""

    text: str
    count: int

    def fill(self, text: str) -> str:
        return text.replace("@", self.text * self.count)


class Case(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One case, whose keys `README.md` describes; `group` is the title of its file."""

    name: str
    clause: str
    send: str
    group: str = ""
    level: Level = Level.MUST
    then: str = ""
    fill: Filling | None = None
    requests: tuple[Request, ...] = ()
    ends: Ends = Ends.IDLE
    status: int | None = None
    statuses: tuple[int, ...] = ()
    reject: str = ""
    closes: bool = False
    also: frozenset[AlsoAllowed] = frozenset()
    answers: tuple[Rule, ...] = ()

    @property
    def data(self) -> bytes:
        return self.send.encode("latin-1")

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
        return all(request.persists for request in self.requests)


class _File(msgspec.Struct, forbid_unknown_fields=True):
    title: str
    case: list[Case]
    at: str | None = None


def read_all(folder: Path | None = None) -> tuple[Case, ...]:
    return _read_folder(folder or Path(__file__).parent / "cases", _read)


def _read(path: Path) -> Iterator[Case]:
    file = toml_file.read(path, _File)
    for row in file.case:
        filling = row.fill or (Filling(file.at, 1) if file.at is not None else None)
        send = filling.fill(row.send) if filling else row.send
        try:
            (send + row.then).encode("latin-1")
        except UnicodeEncodeError as error:
            raise InputError(
                f"{path.name}, case {row.name}: write bytes as U+0000 to U+00FF"
            ) from error
        yield updated(row, send=send, group=file.title)


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
    OPEN = "open"
    CLOSED = "closed"
    ANY = "any"


class Step(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One step of a script; exactly one of the keys is given."""

    send: str | None = None
    wait: Await | None = None
    wait_ms: int | None = None
    do: Do | None = None


class ExpectedMessage(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What is required of one message; `gateway/README.md` describes the keys."""

    version: str = "1.1"
    has: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    fields: tuple[tuple[str, str], ...] = ()
    body: str | None = None
    body_size: int | None = None
    raw_has: tuple[str, ...] = ()
    raw_lacks: tuple[str, ...] = ()


class ExpectedRequest(ExpectedMessage, frozen=True, forbid_unknown_fields=True, kw_only=True):
    method: str = ""
    target: str = ""
    order: tuple[tuple[str, str], ...] = ()
    connection: str = ""
    is_complete: bool | None = True


class ExpectedAnswer(ExpectedMessage, frozen=True, forbid_unknown_fields=True, kw_only=True):
    status: tuple[int, ...] = ()
    is_cut: bool = False
    interim: tuple[int, ...] | None = None


class Outcome(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One outcome that a case permits; None: nothing is required."""

    forwarded: tuple[ExpectedRequest, ...] | None = None
    got: tuple[ExpectedAnswer, ...] | None = None
    end: End = End.ANY
    upstream_end: End = End.ANY
    why: str = ""


class GatewayCase(Outcome, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One case, with the outcome that it requires; `gateway/README.md` describes the keys."""

    name: str
    clause: str
    group: str = ""
    level: Level = Level.MUST
    send: str = ""
    client: tuple[Step, ...] = ()
    answer: str = ""
    answers: tuple[str, ...] = ()
    script: tuple[tuple[Step, ...], ...] = ()
    servers: tuple[ServerKind, ...] = (ServerKind.SCRIPTED,)
    also: tuple[Outcome, ...] = ()
    fill: Filling | None = None
    repeat: int = 1

    @property
    def methods(self) -> list[str]:
        return METHOD.findall("".join(step.send or "" for step in self.client))


class _GatewayFile(msgspec.Struct, forbid_unknown_fields=True):
    title: str
    case: list[GatewayCase]


def read_gateway_cases(folder: Path | None = None) -> tuple[GatewayCase, ...]:
    return _read_folder(folder or Path(__file__).parent / "gateway" / "cases", _read_gateway)


def _read_gateway(path: Path) -> Iterator[GatewayCase]:
    file = toml_file.read(path, _GatewayFile)
    for row in file.case:
        if bool(row.send) is bool(row.client):
            raise InputError(f"{path.name}, case {row.name}: give `send` or `client`, not both")
        fill = row.fill.fill if row.fill else str
        answers = row.answers or ((row.answer,) if row.answer else ())
        yield updated(
            row,
            group=file.title,
            client=_filled(row.client or (Step(send=row.send),), fill),
            answers=tuple(map(fill, answers)),
            script=tuple(_filled(steps, fill) for steps in row.script),
        )


def _filled(steps: tuple[Step, ...], fill: Callable[[str], str]) -> tuple[Step, ...]:
    return tuple(one if one.send is None else Step(send=fill(one.send)) for one in steps)


C = TypeVar("C", Case, GatewayCase)


def _read_folder(folder: Path, read: Callable[[Path], Iterable[C]]) -> tuple[C, ...]:
    """InputError: a file is unreadable or invalid, a name is used twice, or there is no case."""
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


# Pieces of a case that is sent byte by byte, at most: a long one is sent in larger steps.
PIECES_MAX = 400


class SplitMode(StrEnum):
    WHOLE = "whole"
    SPLITS = "splits"
    BYTES = "bytes"


def split_points(size: int, sending: SplitMode, line_end: int = -1) -> Iterator[tuple[int, ...]]:
    """Yields the places to cut at, once for each time that a case is to be sent.

    A split between the first CR, at `line_end`, and its LF is most often mishandled by parsers.
    """
    yield ()
    if sending is SplitMode.SPLITS:
        places = {1, size // 4, line_end + 1, size // 2, size * 3 // 4, size - 2, size - 1}
        yield from ((place,) for place in sorted(places) if 0 < place < size)
    elif sending is SplitMode.BYTES:
        stride = size // PIECES_MAX + 1
        yield tuple(range(stride, size, stride))
