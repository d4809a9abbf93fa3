"""Cases of a reverse proxy as data: what a client sends, what its upstream server answers.

The format is described in `README.md` beside this file.
"""

import re
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path

import msgspec

from jissoku.conformance.case import Fill, Level, read_folder
from jissoku.errors import InputError
from jissoku.system import toml_file

BUILTIN_GATEWAY_CASES = Path(__file__).parent / "cases"

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


class _Row(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
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


class _File(msgspec.Struct, forbid_unknown_fields=True):
    title: str
    case: list[_Row]


def read_gateway_cases(folder: Path = BUILTIN_GATEWAY_CASES) -> tuple[GatewayCase, ...]:
    """Reads every file of a folder, in the order of their names.

    Raises:
        InputError: A file cannot be read, has an unknown key, or a name is used twice.
    """
    return read_folder(folder, _read)


def _read(path: Path) -> Iterator[GatewayCase]:
    file = toml_file.read(path, _File)
    for row in file.case:
        if bool(row.send) is bool(row.client):
            raise InputError(f"{path.name}, case {row.name}: give `send` or `client`, not both")
        yield _case(row, file.title)


def _case(row: _Row, group: str) -> GatewayCase:
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
