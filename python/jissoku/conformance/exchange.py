"""One case over a socket: sends its bytes, and returns the responses and the end of the connection.

Nothing is evaluated here. The state of a connection is tested by one more request with
`Connection: close`, which only a server that still reads the connection answers.
"""

import itertools
import select
import socket as sockets
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from time import monotonic

from jissoku.conformance.case import Case, Ends
from jissoku.conformance.responses import MalformedResponse, Reader, Response

Connect = Callable[[float], sockets.socket]

PROBE = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
READ_BYTES = 65536

# Statuses that reject a message as unintelligible. Others, such as 404 or 405, answer a request
# that was understood.
REFUSALS = frozenset({400, 408, 411, 413, 414, 417, 431, 500, 502, 503, 505})


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangeLimits:
    """Limits in seconds.

    Attributes:
        connect_s: For a connection to be established.
        answer_s: For a required answer.
        close_s: For the end of a connection whose end was announced.
        quiet_s: Where a rejection is expected, the server is silent if nothing arrives for so long.
        gap_s: Between two pieces of a case that is sent in pieces.
    """

    connect_s: float = 5.0
    answer_s: float = 5.0
    close_s: float = 3.0
    quiet_s: float = 1.0
    gap_s: float = 0.002


LIMITS = ExchangeLimits()


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedExchange:
    """The observation of one exchange.

    Attributes:
        finals: The final answers in order; the last one may be to the probe.
        interims: Statuses of interim answers, each with the number of final ones before it.
        probed_at: Number of final answers before the probe; None: no probe was sent.
        is_ended: Whether the connection ended.
        is_silent: Whether the server neither answered the probe nor closed the connection.
        malformed: Why the received bytes are not a response; empty if they are.
    """

    finals: tuple[Response, ...] = ()
    interims: tuple[tuple[int, int], ...] = ()
    probed_at: int | None = None
    is_ended: bool = False
    is_silent: bool = False
    malformed: str = ""

    @property
    def is_kept_open(self) -> bool:
        """Whether the server answered the probe.

        A rejection at this point is a late one, because the probe is valid.
        """
        if self.probed_at is None or len(self.finals) <= self.probed_at:
            return False
        return self.finals[-1].status not in REFUSALS

    @property
    def answers(self) -> tuple[Response, ...]:
        """The final answers without the one to the probe."""
        return self.finals[:-1] if self.is_kept_open else self.finals


def run_case(
    case: Case, connect: Connect, cuts: Sequence[int] = (), limits: ExchangeLimits = LIMITS
) -> ObservedExchange:
    """Sends a case on a new connection, split at the given places, and observes the answers.

    Raises:
        OSError: No connection could be made.
    """
    with connect(limits.connect_s) as connection:
        methods = [request.method for request in case.requests]
        if not methods and case.send.startswith(b"HEAD "):
            # It is rejected, and so not among the requests, but its answer has no body either.
            methods = ["HEAD"]
        talk = _Exchange(connection, methods, limits)
        talk.send(case.send, cuts)
        if case.then:
            # A client that has the final response may still send the rest.
            talk.read_until(lambda: bool(talk.reader.answers), limits.answer_s)
            talk.send(case.then)
        if case.status is not None:
            _watch_refusal(case, talk)
        elif case.ends is Ends.IDLE:
            _watch_answers(case, talk)
        else:
            talk.read_until(lambda: talk.count >= case.whole_count, limits.answer_s)
            talk.finish(limits.answer_s)
        return talk.seen()


def _watch_answers(case: Case, talk: "_Exchange") -> None:
    talk.read_until(lambda: talk.count >= case.whole_count, talk.limits.answer_s)
    finals = talk.reader.finals
    if not case.persists or (finals and finals[-1].announces_end):
        talk.read_until(lambda: False, talk.limits.close_s)
    talk.probe(talk.limits.answer_s)


def _watch_refusal(case: Case, talk: "_Exchange") -> None:
    is_there = talk.read_until(lambda: talk.count > case.whole_count, talk.limits.quiet_s)
    if is_there and talk.reader.finals[-1].announces_end:
        talk.read_until(lambda: False, talk.limits.close_s)
    talk.probe(talk.limits.answer_s if is_there else talk.limits.quiet_s)


class _Exchange:
    """A connection on which a case is sent and answers are read."""

    def __init__(
        self, connection: sockets.socket, methods: Sequence[str], limits: ExchangeLimits
    ) -> None:
        self.reader = Reader(methods)
        self.limits = limits
        self._connection = connection
        self._is_ended = False
        self._garbled = ""
        self._probed_at: int | None = None
        self._is_silent = False
        if connection.family != sockets.AF_UNIX:
            connection.setsockopt(sockets.IPPROTO_TCP, sockets.TCP_NODELAY, 1)

    @property
    def count(self) -> int:
        """How many final answers have arrived."""
        return len(self.reader.finals)

    def send(self, data: bytes, cuts: Sequence[int] = ()) -> None:
        """Sends bytes in pieces. A connection closed meanwhile is noticed at the next read."""
        places = [0, *cuts, len(data)]
        self._connection.settimeout(self.limits.answer_s)
        for start, end in itertools.pairwise(places):
            if start:
                select.select([self._connection], [], [], self.limits.gap_s)
            with suppress(OSError):
                self._connection.sendall(data[start:end])

    def read_until(self, is_enough: Callable[[], bool], limit_s: float) -> bool:
        """Reads until it is enough, the connection ends, or time is up; whether it is enough."""
        deadline = monotonic() + limit_s
        while not (is_enough() or self._is_over()):
            rest = deadline - monotonic()
            if rest <= 0:
                break
            self._connection.settimeout(rest)
            try:
                self._receive(self._connection.recv(READ_BYTES))
            except TimeoutError:
                break
            except OSError:
                self._receive(b"")
        return is_enough()

    def probe(self, limit_s: float) -> None:
        """Sends the probe if the connection is still open, and reads to its end."""
        if self._is_over():
            return
        self._probed_at = self.count
        self.send(PROBE)
        if not self.read_until(self._is_over, limit_s):
            self._is_silent = self.count == self._probed_at
            self.finish(self.limits.quiet_s)

    def finish(self, limit_s: float) -> None:
        """Shuts down the sending side, and reads to the end."""
        with suppress(OSError):
            self._connection.shutdown(sockets.SHUT_WR)
        self.read_until(self._is_over, limit_s)

    def seen(self) -> ObservedExchange:
        count, interims = 0, []
        for answer in self.reader.answers:
            if answer.is_interim:
                interims.append((answer.status, count))
            else:
                count += 1
        return ObservedExchange(
            finals=tuple(self.reader.finals),
            interims=tuple(interims),
            probed_at=self._probed_at,
            is_ended=self._is_ended,
            is_silent=self._is_silent,
            malformed=self._garbled,
        )

    def _is_over(self) -> bool:
        return self._is_ended or bool(self._garbled)

    def _receive(self, data: bytes) -> None:
        try:
            if data:
                self.reader.feed(data)
            else:
                self._is_ended = True
                self.reader.end()
        except MalformedResponse as error:
            self._garbled = str(error)


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
