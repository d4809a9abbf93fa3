"""One case over a socket, or through a proxy between a scripted client and scripted servers.

Sends the bytes, and returns the responses and the end of the connection; nothing is evaluated here.
The state of a connection is tested by one more request: to a server with `Connection: close`, which
only a server that still reads the connection answers.
"""

import itertools
import select
import socket as sockets
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic, sleep

from jissoku.conformance.case import Await, Case, Do, End, Ends, GatewayCase, SplitMode, Step
from jissoku.conformance.messages import MalformedResponse, Reader, ReceivedRequest, Response
from jissoku.conformance.upstream import (
    CaseRecord,
    Upstream,
    UpstreamConnection,
    reset,
    send_in_parts,
)

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


# The answer to a probe is recognised by its target, and is no part of the case.
PROBE_TARGET = "/jissoku-probe"
GATEWAY_PROBE = f"GET {PROBE_TARGET} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayLimits:
    """Limits in seconds.

    Attributes:
        answer_s: For an answer that has to come; longer than the time-outs of the recipes.
        forward_s: For a request that has to reach an upstream server.
        close_s: For the end of a connection that has to end.
        quiet_s: Silence of this length counts as nothing more to come.
    """

    answer_s: float = 4.0
    forward_s: float = 2.0
    close_s: float = 3.0
    quiet_s: float = 0.06


GATEWAY_LIMITS = GatewayLimits()


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayObservation:
    """What was seen on both sides of the proxy.

    Attributes:
        finals: Final answers; a cut one is last, and `is_cut` is True.
        interims: Statuses of interim answers, each with the number of final ones before it.
        raw: All bytes that the client received.
        end: The client's connection: `fin`, `rst`, or empty while it is open.
        malformed: Why the bytes that the client received are not a response.
        requests: What reached the servers.
        connections: The connections to the servers.
        upstream_end: The connection of the last request.
        is_kept_open: Whether the client's connection took another request; None: not tested.
    """

    finals: tuple[Response, ...]
    interims: tuple[tuple[int, int], ...]
    raw: bytes
    end: str
    malformed: str
    is_cut: bool
    requests: tuple[ReceivedRequest, ...]
    connections: tuple[UpstreamConnection, ...]
    upstream_end: End
    is_kept_open: bool | None


def run_gateway_case(
    case: GatewayCase,
    connect: Connect,
    upstream: Upstream,
    splitting: SplitMode = SplitMode.WHOLE,
    limits: GatewayLimits = GATEWAY_LIMITS,
) -> GatewayObservation:
    """Runs a case on a new client connection.

    Raises:
        OSError: The proxy took no connection.
    """
    record = upstream.begin(case, splitting)
    with connect(limits.answer_s) as connection:
        client = _Client(connection, case, record, limits)
        if client.follow(case.client):
            client.await_outcome()
        kept = client.probe() if case.outcome.end is End.OPEN else None
        upstream_end = _upstream_end(case, record, limits)
        return client.observation(kept, upstream_end)


def _upstream_end(case: GatewayCase, record: CaseRecord, limits: GatewayLimits) -> End:
    if not record.requests or case.outcome.upstream_end is End.ANY:
        return End.ANY
    number = record.requests[-1].connection
    if case.outcome.upstream_end is End.CLOSED:
        record.wait_for_end(number, limits.close_s)
    return record.end_of(number)


class _Client:
    """The client's connection, and what came on it."""

    def __init__(
        self,
        connection: sockets.socket,
        case: GatewayCase,
        record: CaseRecord,
        limits: GatewayLimits,
    ) -> None:
        self._connection = connection
        self._case = case
        self._record = record
        self._limits = limits
        self._reader = Reader(case.methods)
        self._raw = bytearray()
        self._end = ""
        self._malformed = ""
        self._is_cut = False
        self._answers_awaited = 0
        self._interims_awaited = 0
        self._forwarded_awaited = 0
        if connection.family != sockets.AF_UNIX:
            connection.setsockopt(sockets.IPPROTO_TCP, sockets.TCP_NODELAY, 1)

    def follow(self, steps: tuple[Step, ...]) -> bool:
        """Executes the steps of a script; False if they close the connection."""
        for step in steps:
            if step.send is not None:
                self._connection.settimeout(self._limits.answer_s)
                send_in_parts(self._connection, step.send.encode("latin-1"), self._record.splitting)
            elif step.wait_ms is not None:
                sleep(step.wait_ms / 1000)
            elif step.wait is not None:
                self._wait(step.wait)
            elif step.do is not None and not self._do(step.do):
                return False
        return True

    def await_outcome(self) -> None:
        """Waits for the answers and requests that are expected, and shortly for unexpected ones."""
        outcome = self._case.outcome
        got = len(outcome.got or ())
        self._read_until(lambda: len(self._reader.finals) >= got, self._limits.answer_s)
        if outcome.forwarded and not self._end:
            self._record.wait_for(len(outcome.forwarded), self._limits.forward_s)
        if outcome.end is End.CLOSED or any(one.is_cut for one in outcome.got or ()):
            self._read_until(lambda: False, self._limits.close_s)
        else:
            self._read_until(lambda: False, self._limits.quiet_s)

    def probe(self) -> bool:
        """Whether one more request on the connection is answered."""
        if self._end or self._malformed:
            return False
        count = len(self._reader.finals)
        send_in_parts(self._connection, GATEWAY_PROBE, SplitMode.WHOLE)
        found = self._read_until(lambda: len(self._reader.finals) > count, self._limits.answer_s)
        if found:
            self._reader.answers.remove(self._reader.finals[-1])
        return found

    def observation(self, kept: bool | None, upstream_end: End) -> GatewayObservation:  # noqa: FBT001 - a value, not a mode
        """Everything that was observed."""
        count, interims = 0, []
        for answer in self._reader.answers:
            if answer.is_interim:
                interims.append((answer.status, count))
            else:
                count += 1
        finals = list(self._reader.finals)
        if self._is_cut and self._reader.pending is not None:
            finals.append(self._reader.pending)
        with self._record.changed:
            requests = [one for one in self._record.requests if PROBE_TARGET not in one.target]
            connections = tuple(self._record.connections)
        return GatewayObservation(
            finals=tuple(finals),
            interims=tuple(interims),
            raw=bytes(self._raw),
            end=self._end,
            malformed=self._malformed,
            is_cut=self._is_cut,
            requests=tuple(requests),
            connections=connections,
            upstream_end=upstream_end,
            is_kept_open=kept,
        )

    def _wait(self, what: Await) -> None:
        reader, limit_s = self._reader, self._limits.answer_s
        if what is Await.FORWARDED:
            self._forwarded_awaited += 1
            self._record.wait_for(self._forwarded_awaited, self._limits.forward_s)
        elif what is Await.ANSWER:
            self._answers_awaited += 1
            self._read_until(lambda: len(reader.finals) >= self._answers_awaited, limit_s)
        elif what is Await.INTERIM:
            self._interims_awaited += 1
            self._read_until(lambda: _interim_count(reader) >= self._interims_awaited, limit_s)
        elif what is Await.HEAD:
            self._read_until(lambda: reader.pending is not None or bool(reader.finals), limit_s)
        else:
            self._read_until(lambda: False, limit_s)

    def _do(self, what: Do) -> bool:
        if what is Do.FIN:
            with suppress(OSError):
                self._connection.shutdown(sockets.SHUT_WR)
            return True
        if what is Do.RST:
            reset(self._connection)
        else:
            self._connection.close()
        # The proxy's reaction is visible at the servers only.
        outcome = self._case.outcome
        self._record.wait_for(len(outcome.forwarded or ()), self._limits.forward_s)
        self._end = "closed by the client"
        return False

    def _read_until(self, is_enough: Callable[[], bool], limit_s: float) -> bool:
        deadline = monotonic() + limit_s
        while not (is_enough() or self._end or self._malformed):
            rest = deadline - monotonic()
            if rest <= 0:
                break
            self._connection.settimeout(rest)
            try:
                self._take(self._connection.recv(READ_BYTES))
            except TimeoutError:
                break
            except OSError:
                self._finish("rst")
        return is_enough()

    def _take(self, data: bytes) -> None:
        if not data:
            self._finish("fin")
            return
        self._raw += data
        try:
            self._reader.feed(data)
        except MalformedResponse as error:
            self._malformed = str(error)

    def _finish(self, how: str) -> None:
        self._end = how
        pending = self._reader.pending
        if pending is not None and how == "rst":
            self._is_cut = True
            return
        try:
            self._reader.end()
        except MalformedResponse as error:
            self._is_cut = self._reader.pending is not None
            self._malformed = "" if self._is_cut else str(error)


def _interim_count(reader: Reader) -> int:
    return sum(answer.is_interim for answer in reader.answers)
