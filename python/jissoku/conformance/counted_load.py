"""Clients and a server at both sides of a proxy that count requests with unique names."""

import asyncio
import random
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from jissoku.model import Transport
from jissoku.system.address import HOST, Address

STATUS = re.compile(rb"HTTP/1\.[01] (\d{3})")
LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)

# Longer than the timeouts of any recipe: a request without an answer by then has failed.
ANSWER_LIMIT_S = 5.0


@dataclass(slots=True)
class MethodCount:
    """Requests of one method: `errors` by what came instead of a 200, `doubled` at the server."""

    requests: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    doubled: int = 0


Counts = dict[str, MethodCount]


class CountedClient:
    """One client connection, opened with the first request and again when it is lost."""

    def __init__(self, address: Address, number: int, counts: Counts) -> None:
        self._address = address
        self._number = number
        self._counts = counts
        self._sent = 0
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def request(self, method: str) -> None:
        count = self._counts.setdefault(method, MethodCount())
        count.requests += 1
        self._sent += 1
        target = f"/{method}/{self._number}/{self._sent}"
        try:
            async with asyncio.timeout(ANSWER_LIMIT_S):
                status, is_last = await self._exchange(method, target)
        except TimeoutError:
            count.errors["no response in time"] += 1
            self.close()
        except (OSError, asyncio.IncompleteReadError):
            count.errors["connection closed"] += 1
            self.close()
        else:
            if status != 200:
                count.errors[str(status)] += 1
            if is_last:
                self.close()

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None

    async def _exchange(self, method: str, target: str) -> tuple[int, bool]:
        if self._streams is None:
            self._streams = await _connect(self._address)
        reader, writer = self._streams
        body = "" if method == "GET" else "hello"
        length = f"Content-Length: {len(body)}\r\n" if body else ""
        writer.write(
            f"{method} {target} HTTP/1.1\r\nHost: localhost\r\n{length}\r\n{body}".encode()
        )
        head = await reader.readuntil(b"\r\n\r\n")
        status = STATUS.match(head)
        size = LENGTH.search(head)
        if status is None or size is None:
            return 0, True
        await reader.readexactly(int(size[1]))
        return int(status[1]), b"connection: close" in head.lower()


async def in_rounds(
    clients: list[CountedClient],
    *,
    requests: int,
    pause_s: Callable[[random.Random], float],
    seed: int,
) -> None:
    """All clients send one request each, then pause, then send again, until enough were sent.

    Every connection to the server is idle for about the pause of its round, so that it ends at the
    moment of the next request more often than by chance.
    """
    rng = random.Random(seed)
    methods = ("GET", "POST")

    async def one(client: CountedClient, method: str, delay_s: float) -> None:
        await asyncio.sleep(delay_s)
        await client.request(method)

    for index in range(-(-requests // len(clients))):
        await asyncio.gather(
            *(
                one(client, methods[(index + number) % 2], pause_s(rng))
                for number, client in enumerate(clients)
            )
        )


async def until(clients: list[CountedClient], done: asyncio.Event, seed: int) -> None:

    async def one(client: CountedClient, rng: random.Random) -> None:
        while not done.is_set():
            await client.request(rng.choice(("GET", "PUT", "POST")))

    await asyncio.gather(
        *(one(client, random.Random(seed + number)) for number, client in enumerate(clients))
    )


def add_doubled(counts: Counts, received: Mapping[str, int]) -> None:
    for target, times in received.items():
        if times > 1:
            counts[target.split("/")[1]].doubled += 1


async def _connect(address: Address) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    if address.socket:
        return await asyncio.open_unix_connection(address.socket)
    return await asyncio.open_connection(address.host, address.port)


ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

# Requests wait here while clients of all connections send at once.
BACKLOG = 512


class CountingUpstream:
    """A server behind a proxy that counts how often a request reaches it, and loses connections.

    It closes one that was idle for a time, or all of them at a restart, as servers do, and reads
    only what the clients above send.
    """

    def __init__(
        self, transport: Transport, *, idle_s: float | None = None, work_s: float = 0.0
    ) -> None:
        """A connection without a request is closed after `idle_s`; a request takes `work_s`."""
        self.received: Counter[str] = Counter()
        self.connections = 0
        self._idle_s = idle_s
        self._work_s = work_s
        self._transport = transport
        self._folder = tempfile.TemporaryDirectory(prefix="jissoku-")
        self._server: asyncio.Server | None = None
        self._idle: set[asyncio.StreamWriter] = set()
        self._open: set[asyncio.StreamWriter] = set()
        self._generation = 0
        self.address = Address()

    async def __aenter__(self) -> Self:
        if self._transport is Transport.UNIX:
            self.address = Address(socket=str(Path(self._folder.name) / "server"))
            self._server = await asyncio.start_unix_server(
                self._serve, self.address.socket, backlog=BACKLOG
            )
        else:
            self._server = await asyncio.start_server(self._serve, HOST, 0, backlog=BACKLOG)
            self.address = Address(port=self._server.sockets[0].getsockname()[1])
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None, "it was entered"
        self._server.close()
        for writer in list(self._open):
            writer.close()
        # Lets the connections' tasks end.
        await asyncio.sleep(0)
        self._folder.cleanup()

    def restart(self) -> None:
        """Closes idle connections now, and each of the others after its answer."""
        self._generation += 1
        for writer in list(self._idle):
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        generation = self._generation
        self._open.add(writer)
        try:
            while generation == self._generation and await self._answer(reader, writer):
                pass
        except (OSError, asyncio.IncompleteReadError):
            pass  # The proxy has ended it.
        finally:
            self._open.discard(writer)
            self._idle.discard(writer)
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        self._idle.add(writer)
        try:
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), self._idle_s)
        except TimeoutError:
            return False
        finally:
            self._idle.discard(writer)
        length = LENGTH.search(head)
        if length is not None:
            await reader.readexactly(int(length[1]))
        self.received[head.split(b" ", 2)[1].decode("latin-1")] += 1
        if self._work_s:
            await asyncio.sleep(self._work_s)
        writer.write(ANSWER)
        with suppress(OSError):
            await writer.drain()
        return True
