"""Protocol cases as data: bytes to send, and how a server has to interpret them.

The format is described in `README.md` beside this file; the parser's tests in Rust read the same
files.
"""

from collections.abc import Callable, Iterable
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
