"""One case over a socket, or through a proxy between a scripted client and scripted servers.

Sends the bytes, and returns the responses and the end of the connection; nothing is evaluated here.
The state of a connection is tested by one more request: to a server with `Connection: close`, which
only a server that still reads the connection answers.
"""

import socket as sockets
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic, sleep

from jissoku.conformance.case import Await, Case, Do, End, Ends, GatewayCase, SplitMode
from jissoku.conformance.messages import MalformedMessage, ReceivedRequest, Response, ResponseReader
from jissoku.conformance.upstream import (
    CaseRecord,
    Upstream,
    UpstreamConnection,
    follow_script,
    reset,
    send_in_parts,
    send_pieces,
)

Connect = Callable[[float], sockets.socket]

READ_BYTES = 65536

PROBE = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"

# The answer to a proxy's probe is recognised by its target, and is no part of the case.
GATEWAY_PROBE_TARGET = "/jissoku-probe"
GATEWAY_PROBE = f"GET {GATEWAY_PROBE_TARGET} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()

# Statuses that reject a message as unintelligible. Others, such as 404 or 405, answer a request
# that was understood.
REFUSALS = frozenset({400, 408, 411, 413, 414, 417, 431, 500, 502, 503, 505})

# For a required answer; that of a proxy is longer than the time-outs of the recipes.
ANSWER_LIMIT_S = 5.0
GATEWAY_ANSWER_LIMIT_S = 4.0

# For a request that has to reach an upstream server.
FORWARD_LIMIT_S = 2.0

# For the end of a connection that has to end.
CLOSE_LIMIT_S = 3.0

# Silence of this length counts as nothing more to come.
QUIET_S = 1.0
GATEWAY_QUIET_S = 0.06


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What a client saw.

    The last of the final answers of a server may be to the probe. Interim statuses have the number
    of final answers before them. `malformed` is why the received bytes are not a response.
    """

    finals: tuple[Response, ...] = ()
    interims: tuple[tuple[int, int], ...] = ()
    malformed: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedExchange(Observation):
    """What a server did; the probe was sent after `probed_at` final answers, if at all.

    One that `is_silent` neither answered the probe nor closed the connection.
    """

    probed_at: int | None = None
    is_silent: bool = False

    @property
    def is_kept_open(self) -> bool:
        """Whether the server answered the probe, which is valid: a rejection now is a late one."""
        if self.probed_at is None or len(self.finals) <= self.probed_at:
            return False
        return self.finals[-1].status not in REFUSALS

    @property
    def answers(self) -> tuple[Response, ...]:
        """The final answers without the one to the probe."""
        return self.finals[:-1] if self.is_kept_open else self.finals


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayObservation(Observation):
    """What was seen on both sides of a proxy.

    `raw` is all that the client received; `end` is `fin` or `rst`, or empty while its connection is
    open. `upstream_end` is of the connection of the last request. None: not tested.
    """

    raw: bytes
    end: str
    is_cut: bool
    requests: tuple[ReceivedRequest, ...]
    connections: tuple[UpstreamConnection, ...]
    upstream_end: End
    is_kept_open: bool | None


def run_case(case: Case, connect: Connect, cuts: Sequence[int] = ()) -> ObservedExchange:
    """Sends a case on a new connection, split at the given places, and observes the answers."""
    with connect(ANSWER_LIMIT_S) as connection:
        methods = [request.method for request in case.requests]
        if not methods and case.send.startswith("HEAD "):
            # It is rejected, and so not among the requests, but its answer has no body either.
            methods = ["HEAD"]
        client = _Client(connection, methods)
        client.send(case.data, cuts)
        if case.then:
            # A client that has the final response may still send the rest.
            client.read_until(lambda: bool(client.reader.answers), ANSWER_LIMIT_S)
            client.send(case.then.encode("latin-1"))
        probed_at, is_silent = _watch(case, client)
        return ObservedExchange(
            finals=tuple(client.reader.finals),
            interims=client.interims(),
            probed_at=probed_at,
            is_silent=is_silent,
            malformed=client.malformed,
        )


def _watch(case: Case, client: "_Client") -> tuple[int | None, bool]:
    """Reads the answers, and tests the connection. Returns `probed_at` and `is_silent`."""
    limit_s = ANSWER_LIMIT_S
    if case.status is not None:
        is_there = client.read_answers(case.whole_count + 1, QUIET_S)
        is_last = is_there and client.reader.finals[-1].announces_end
        limit_s = ANSWER_LIMIT_S if is_there else QUIET_S
    else:
        client.read_answers(case.whole_count, ANSWER_LIMIT_S)
        if case.ends is not Ends.IDLE:
            client.shut_down(ANSWER_LIMIT_S)
            return None, False
        finals = client.reader.finals
        is_last = not case.persists or (bool(finals) and finals[-1].announces_end)
    if is_last:
        client.read_on(CLOSE_LIMIT_S)
    if client.is_over:
        return None, False
    before = client.count
    client.send(PROBE)
    if client.read_until(lambda: client.is_over, limit_s):
        return before, False
    is_silent = client.count == before
    client.shut_down(QUIET_S)
    return before, is_silent


class _Client:
    """A client's connection, and what came on it; `end` is as in `GatewayObservation`."""

    def __init__(self, connection: sockets.socket, methods: Sequence[str]) -> None:
        self.reader = ResponseReader(methods)
        self.raw = bytearray()
        self.end = ""
        self.malformed = ""
        self._connection = connection
        if connection.family != sockets.AF_UNIX:
            connection.setsockopt(sockets.IPPROTO_TCP, sockets.TCP_NODELAY, 1)

    @property
    def count(self) -> int:
        return len(self.reader.finals)

    @property
    def is_over(self) -> bool:
        return bool(self.end or self.malformed)

    def interims(self) -> tuple[tuple[int, int], ...]:
        found, finals = [], 0
        for answer in self.reader.answers:
            if answer.is_interim:
                found.append((answer.status, finals))
            else:
                finals += 1
        return tuple(found)

    def send(self, data: bytes, cuts: Sequence[int] = ()) -> None:
        self._connection.settimeout(ANSWER_LIMIT_S)
        send_pieces(self._connection, data, cuts, until_readable=True)

    def read_until(self, is_enough: Callable[[], bool], limit_s: float) -> bool:
        """Reads until it is enough, the connection ends, or time is up; whether it is enough."""
        deadline = monotonic() + limit_s
        while not (is_enough() or self.is_over):
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

    def read_answers(self, count: int, limit_s: float) -> bool:
        return self.read_until(lambda: self.count >= count, limit_s)

    def read_on(self, limit_s: float) -> None:
        self.read_until(lambda: False, limit_s)

    def shut_down(self, limit_s: float) -> None:
        with suppress(OSError):
            self._connection.shutdown(sockets.SHUT_WR)
        self.read_on(limit_s)

    def _take(self, data: bytes) -> None:
        if not data:
            self._finish("fin")
            return
        self.raw += data
        try:
            self.reader.feed(data)
        except MalformedMessage as error:
            self.malformed = str(error)

    def _finish(self, how: str) -> None:
        self.end = how
        try:
            self.reader.end()
        except MalformedMessage as error:
            self.malformed = str(error)


def run_gateway_case(
    case: GatewayCase, connect: Connect, upstream: Upstream, splitting: SplitMode = SplitMode.WHOLE
) -> GatewayObservation:
    record = upstream.begin(case, splitting)
    with connect(GATEWAY_ANSWER_LIMIT_S) as connection:
        client = _GatewayClient(connection, case, record)
        client.run()
        kept = client.probe() if case.end is End.OPEN else None
        upstream_end = End.ANY
        if record.requests and case.upstream_end is not End.ANY:
            limit_s = CLOSE_LIMIT_S if case.upstream_end is End.CLOSED else 0.0
            upstream_end = record.end_of(record.requests[-1].connection, limit_s)
        return client.observation(upstream_end, kept=kept)


class _GatewayClient(_Client):
    def __init__(self, connection: sockets.socket, case: GatewayCase, record: CaseRecord) -> None:
        super().__init__(connection, case.methods)
        self._case = case
        self._record = record
        self._is_cut = False
        self._answers_awaited = 0
        self._interims_awaited = 0
        self._forwarded_awaited = 0

    def run(self) -> None:
        """Follows the case, and waits for the answers and requests that are expected."""
        case = self._case

        def send(text: str) -> None:
            self._connection.settimeout(GATEWAY_ANSWER_LIMIT_S)
            send_in_parts(self._connection, text.encode("latin-1"), self._record.splitting)

        if not follow_script(case.client, send=send, pause=sleep, wait=self._wait, do=self._do):
            return
        got = case.got or ()
        self.read_answers(len(got), GATEWAY_ANSWER_LIMIT_S)
        if case.forwarded and not self.end:
            self._record.wait_for(len(case.forwarded), FORWARD_LIMIT_S)
        is_ending = case.end is End.CLOSED or any(one.is_cut for one in got)
        self.read_on(CLOSE_LIMIT_S if is_ending else GATEWAY_QUIET_S)

    def probe(self) -> bool:
        """Whether one more request on the connection is answered."""
        if self.is_over:
            return False
        count = self.count
        send_in_parts(self._connection, GATEWAY_PROBE, SplitMode.WHOLE)
        found = self.read_answers(count + 1, GATEWAY_ANSWER_LIMIT_S)
        if found:
            self.reader.messages.remove(self.reader.finals[-1])
        return found

    def observation(self, upstream_end: End, *, kept: bool | None) -> GatewayObservation:
        finals = self.reader.finals
        if self._is_cut and self.reader.pending is not None:
            finals.append(self.reader.pending)
        with self._record.changed:
            requests = [
                one for one in self._record.requests if GATEWAY_PROBE_TARGET not in one.target
            ]
            connections = tuple(self._record.connections)
        return GatewayObservation(
            finals=tuple(finals),
            interims=self.interims(),
            raw=bytes(self.raw),
            end=self.end,
            malformed=self.malformed,
            is_cut=self._is_cut,
            requests=tuple(requests),
            connections=connections,
            upstream_end=upstream_end,
            is_kept_open=kept,
        )

    def _wait(self, what: Await) -> None:
        reader, limit_s = self.reader, GATEWAY_ANSWER_LIMIT_S
        if what is Await.FORWARDED:
            self._forwarded_awaited += 1
            self._record.wait_for(self._forwarded_awaited, FORWARD_LIMIT_S)
        elif what is Await.ANSWER:
            self._answers_awaited += 1
            self.read_answers(self._answers_awaited, limit_s)
        elif what is Await.INTERIM:
            self._interims_awaited += 1
            self.read_until(lambda: len(self.interims()) >= self._interims_awaited, limit_s)
        elif what is Await.HEAD:
            self.read_until(lambda: reader.pending is not None or bool(reader.finals), limit_s)
        else:
            self.read_on(limit_s)

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
        self._record.wait_for(len(self._case.forwarded or ()), FORWARD_LIMIT_S)
        self.end = "closed by the client"
        return False

    def _finish(self, how: str) -> None:
        self._is_cut = self.reader.pending is not None and how == "rst"
        if self._is_cut:
            self.end = how
            return
        super()._finish(how)
        if self.malformed and self.reader.pending is not None:
            self.malformed, self._is_cut = "", True
