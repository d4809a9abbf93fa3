"""A server behind a proxy that counts how often a request reaches it, and loses its connections.

It closes a connection that was idle for a time, or all of them at a restart, as servers do, and
reads only what the clients of `counted_load.py` send.
"""

import asyncio
import re
import tempfile
from collections import Counter
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from jissoku.model import Transport
from jissoku.system.address import HOST, Address

LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

# Requests wait here while clients of all connections send at once.
BACKLOG = 512


class CountingUpstream:
    """A server in this thread's event loop; an asynchronous context manager.

    Attributes:
        received: How often each target was read to its end.
        connections: How many connections there were.
    """

    def __init__(
        self, transport: Transport, *, idle_s: float | None = None, work_s: float = 0.0
    ) -> None:
        """Opens nothing yet.

        Args:
            transport: Where it listens.
            idle_s: A connection is closed after this many seconds without a request; None: never.
            work_s: How long a request takes.
        """
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
        """Listens."""
        if self._transport is Transport.UNIX:
            self.address = Address(socket=str(Path(self._folder.name) / "server"))
            self._server = await asyncio.start_unix_server(
                self._serve, self.address.socket, backlog=BACKLOG
            )
        else:
            self._server = await asyncio.start_server(self._serve, HOST, 0, backlog=BACKLOG)
            self.address = Address(port=self._server.sockets[0].getsockname()[1])
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Closes everything."""
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
