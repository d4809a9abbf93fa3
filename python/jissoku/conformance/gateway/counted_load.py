"""Clients that send requests with unique names through a proxy, and count the outcomes."""

import asyncio
import random
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from jissoku.system.address import Address

STATUS = re.compile(rb"HTTP/1\.[01] (\d{3})")
LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)

# Longer than the timeouts of any recipe: a request without an answer by then has failed.
ANSWER_LIMIT_S = 5.0


@dataclass(slots=True)
class MethodCount:
    """The outcomes of the requests of one method.

    Attributes:
        errors: Requests without a 200 at the client, by the status or error instead.
        doubled: Requests that reached a server more than once.
    """

    requests: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    doubled: int = 0

    @property
    def error_count(self) -> int:
        """Requests that failed at the client."""
        return self.errors.total()


Counts = dict[str, MethodCount]


class CountedClient:
    """One client connection, reopened when it is lost."""

    def __init__(self, address: Address, number: int, counts: Counts) -> None:
        """Connects with the first request."""
        self._address = address
        self._number = number
        self._counts = counts
        self._sent = 0
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def request(self, method: str) -> None:
        """Sends one request, and counts its outcome."""
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
        """Ends the connection."""
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
    """All clients send one request after the other until an event is set."""

    async def one(client: CountedClient, rng: random.Random) -> None:
        while not done.is_set():
            await client.request(rng.choice(("GET", "PUT", "POST")))

    await asyncio.gather(
        *(one(client, random.Random(seed + number)) for number, client in enumerate(clients))
    )


def add_doubled(counts: Counts, received: Mapping[str, int]) -> None:
    """Counts the requests that reached a server more than once."""
    for target, times in received.items():
        if times > 1:
            counts[target.split("/")[1]].doubled += 1


async def _connect(address: Address) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    if address.socket:
        return await asyncio.open_unix_connection(address.socket)
    return await asyncio.open_connection(address.host, address.port)
