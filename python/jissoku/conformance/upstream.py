"""Scripted upstream servers, on TCP or Unix sockets, that keep every byte they receive.

Each connection follows its script, then takes from the case's answers, then answers 200. A thread
per connection suffices: a case has few.
"""

import itertools
import select
import socket as sockets
import struct
import tempfile
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from jissoku.conformance import case as cases, messages
from jissoku.model import Transport, UpstreamProtocol
from jissoku.system.address import HOST, Address

# Between two parts, so that they arrive as two.
GAP_S = 0.002


def send_pieces(
    connection: sockets.socket,
    data: bytes,
    cuts: Sequence[int] = (),
    *,
    gap_s: float = GAP_S,
    until_readable: bool = False,
) -> None:
    """Sends bytes, cut at the given places, with a pause between two pieces.

    A connection that the peer has closed is noticed at the next read. `until_readable`: a pause
    ends when the peer has sent something.
    """
    for start, end in itertools.pairwise((0, *cuts, len(data))):
        if start:
            select.select([connection] if until_readable else [], [], [], gap_s)
        with suppress(OSError):
            connection.sendall(data[start:end])


def send_in_parts(connection: sockets.socket, data: bytes, splitting: cases.SplitMode) -> None:
    cuts: tuple[int, ...] = ()
    # Longer texts are bodies; dividing them shows nothing and takes long.
    if len(data) <= 8192:
        # The split within the first line end (CR, LF) is the one that parsers most often mishandle.
        middle = data.find(b"\r") + 1
        if splitting is cases.SplitMode.BYTES:
            *_, cuts = cases.split_points(len(data), splitting)
        elif splitting is cases.SplitMode.SPLITS and 0 < middle < len(data):
            cuts = (middle,)
    send_pieces(connection, data, cuts, gap_s=GAP_S if splitting is cases.SplitMode.SPLITS else 0)


def follow_script(
    script: Iterable[cases.Step],
    *,
    send: Callable[[str], object],
    pause: Callable[[float], object],
    wait: Callable[[cases.Await], object],
    do: Callable[[cases.Do], bool],
) -> bool:
    """Whether no step closed the connection."""
    for step in script:
        if step.send is not None:
            send(step.send)
        elif step.wait_ms is not None:
            pause(step.wait_ms / 1000)
        elif step.wait is not None:
            wait(step.wait)
        elif step.do is not None and not do(step.do):
            return False
    return True


def reset(connection: sockets.socket) -> None:
    """Closes a connection with RST; a Unix socket has none unless something was not read."""
    connection.setsockopt(sockets.SOL_SOCKET, sockets.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


# The answer to a request for which a case has none.
DEFAULT_ANSWER = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

CONTINUE = "HTTP/1.1 100 Continue\r\n\r\n"

READ_BYTES = 65536

# How long a proxy may take to close connections that its upstream has ended between two cases.
CLOSE_LIMIT_S = 0.3

BACKLOG = 128


@dataclass(slots=True)
class UpstreamConnection:
    """One connection of the proxy to a server; `end` is how it ended, as by `fin` or `rst`."""

    number: int
    reader: messages.RequestReader = field(default_factory=messages.RequestReader)
    malformed: str = ""
    end: str = ""


class CaseRecord:
    """What the servers received during one case; its condition is notified of every change."""

    def __init__(
        self,
        case: cases.GatewayCase,
        splitting: cases.SplitMode,
        read_head: messages.HeadReader[messages.ReceivedRequest] = messages.http_head,
    ) -> None:
        self._read_head = read_head
        self.changed = threading.Condition()
        self.connections: list[UpstreamConnection] = []
        self.requests: list[messages.ReceivedRequest] = []
        self.is_over = threading.Event()
        self.splitting = splitting
        self.sockets: list[sockets.socket] = []
        self._answers = list(case.answers)
        self._scripts = list(case.script)

    def open(self, connection: sockets.socket) -> tuple[UpstreamConnection, tuple[cases.Step, ...]]:
        with self.changed:
            number = len(self.connections)
            seen = UpstreamConnection(number, reader=messages.RequestReader(self._read_head))
            self.connections.append(seen)
            self.sockets.append(connection)
            script = self._scripts.pop(0) if self._scripts else ()
            self.changed.notify_all()
        return seen, script

    def next_answer(self) -> str:
        with self.changed:
            return self._answers.pop(0) if self._answers else DEFAULT_ANSWER

    def wait_for(self, count: int, limit_s: float) -> bool:
        with self.changed:
            return self.changed.wait_for(lambda: len(self.requests) >= count, limit_s)

    def end_of(self, number: int, limit_s: float) -> cases.End:
        """Whether a connection is still open after waiting for its end."""
        with self.changed:
            is_closed = self.changed.wait_for(lambda: self.connections[number].end, limit_s)
            return cases.End.CLOSED if is_closed else cases.End.OPEN


class Upstream:
    def __init__(
        self,
        kinds: Sequence[cases.ServerKind],
        transport: Transport,
        protocol: UpstreamProtocol = UpstreamProtocol.HTTP,
    ) -> None:
        self._read_head = (
            messages.packet_head if protocol is UpstreamProtocol.UWSGI else messages.http_head
        )
        self._folder = (
            tempfile.TemporaryDirectory(prefix="jissoku-") if transport is Transport.UNIX else None
        )
        self._listeners: list[sockets.socket] = []
        self._fillers: list[sockets.socket] = []
        self._record: CaseRecord | None = None
        self._is_closed = False
        self.addresses = tuple(self._open(kind, index) for index, kind in enumerate(kinds))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.finish()
        self._is_closed = True
        for one in (*self._listeners, *self._fillers):
            # A blocked accept() returns only after this.
            with suppress(OSError):
                one.shutdown(sockets.SHUT_RDWR)
            one.close()
        if self._folder is not None:
            self._folder.cleanup()

    def begin(self, case: cases.GatewayCase, splitting: cases.SplitMode) -> CaseRecord:
        """Closes what the previous case left open, and follows this case's scripts."""
        self.finish()
        self._record = CaseRecord(case, splitting, self._read_head)
        return self._record

    def finish(self) -> None:
        """Ends all connections, the proxy's idle ones too, and waits until it has noticed."""
        record, self._record = self._record, None
        if record is None:
            return
        record.is_over.set()
        for one in record.sockets:
            with suppress(OSError):
                one.shutdown(sockets.SHUT_WR)
        with record.changed:
            record.changed.wait_for(
                lambda: all(one.end for one in record.connections), CLOSE_LIMIT_S
            )
        for one in record.sockets:
            with suppress(OSError):
                one.shutdown(sockets.SHUT_RDWR)

    def _open(self, kind: cases.ServerKind, index: int) -> Address:
        if self._folder is not None:
            listener = sockets.socket(sockets.AF_UNIX)
            address = Address(socket=str(Path(self._folder.name) / f"server{index}"))
            if kind is cases.ServerKind.REFUSED:
                listener.close()
                return address
            listener.bind(address.socket)
        else:
            listener = sockets.socket()
            listener.bind((HOST, 0))
            address = Address(port=listener.getsockname()[1])
        self._listeners.append(listener)
        # A bound port without a listener refuses connections, and no other process can bind it.
        if kind is cases.ServerKind.FULL:
            listener.listen(0)
            self._fill(address)
        elif kind is cases.ServerKind.SCRIPTED:
            listener.listen(BACKLOG)
            threading.Thread(target=self._accept, args=(listener,), daemon=True).start()
        return address

    def _fill(self, address: Address) -> None:
        """Connects until the queue is full: a further connection waits, or fails with EAGAIN."""
        for _ in range(4):
            family = sockets.AF_UNIX if address.socket else sockets.AF_INET
            one = sockets.socket(family)
            one.settimeout(0)
            self._fillers.append(one)
            with suppress(BlockingIOError):
                one.connect(address.socket or (address.host, address.port))

    def _accept(self, listener: sockets.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            record = self._record
            if record is None or self._is_closed:
                connection.close()
                continue
            conversation = _Conversation(connection, record)
            threading.Thread(target=conversation.run, daemon=True).start()


class _Conversation:
    def __init__(self, connection: sockets.socket, record: CaseRecord) -> None:
        self._connection = connection
        self._record = record
        self._seen, self._script = record.open(connection)
        self._served = 0

    def run(self) -> None:
        """Follows the script, answers one request after the other, and reads to the end."""
        self._connection.settimeout(8.0)  # No step of a script takes longer.
        if self._connection.family == sockets.AF_INET:
            self._connection.setsockopt(sockets.IPPROTO_TCP, sockets.TCP_NODELAY, 1)
        pause = self._record.is_over.wait
        try:
            if follow_script(
                self._script, send=self._send, pause=pause, wait=self._wait, do=self._do
            ):
                while self._wait(cases.Await.REQUEST):
                    self._send(self._record.next_answer())
            self._wait(cases.Await.END)
        except TimeoutError:
            self._note_end("kept waiting")
        except OSError as error:
            self._note_end("rst" if isinstance(error, ConnectionResetError) else "fin")
        finally:
            with suppress(OSError):
                self._connection.close()

    def _note_end(self, how: str) -> None:
        with self._record.changed:
            self._seen.end = self._seen.end or how
            self._record.changed.notify_all()

    def _send(self, text: str) -> None:
        send_in_parts(self._connection, text.encode("latin-1"), self._record.splitting)

    def _wait(self, what: cases.Await) -> bool:
        """Waits for one more head or complete request, or for the end; whether it arrived."""
        requests = self._seen.reader.messages
        while not self._seen.end:
            is_there = what is not cases.Await.END and len(requests) > self._served
            if is_there and (what is cases.Await.HEAD or requests[self._served].is_complete):
                # A script may wait for the head and then for the whole of the same request.
                self._served += what is cases.Await.REQUEST
                return True
            self._receive()
        return what is cases.Await.END

    def _do(self, what: cases.Do) -> bool:
        if what is cases.Do.TUNNEL:
            self._seen.reader.is_tunnel = True
        elif what is cases.Do.CONTINUE:
            if self._seen.reader.messages[-1].has("Expect"):
                self._send(CONTINUE)
        elif what is cases.Do.FIN:
            self._connection.shutdown(sockets.SHUT_WR)
        else:
            if what is cases.Do.RST:
                reset(self._connection)
            self._connection.close()
            self._note_end("fin")
            return False
        return True

    def _receive(self) -> None:
        data = self._connection.recv(READ_BYTES)
        if not data:
            self._note_end("fin")
        elif not self._seen.malformed:
            with self._record.changed:
                self._take(data)
                self._record.changed.notify_all()

    def _take(self, data: bytes) -> None:
        known = len(self._seen.reader.messages)
        try:
            self._seen.reader.feed(data)
        except messages.MalformedMessage as error:
            self._seen.malformed = str(error)
        for request in self._seen.reader.messages[known:]:
            request.connection = self._seen.number
            self._record.requests.append(request)
