"""Two hundred reloads of a gateway cut no request, stream or tunnel; longest waits are printed."""

import asyncio
import random
import re
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from itertools import count as count_from
from pathlib import Path

import pytest

from jissoku.conformance.counted_load import CountedClient, Counts, add_doubled, until
from jissoku.system.address import Address
from tests.endurance.conftest import print_line
from tests.serving.server_process import PATIENCE_S, Served, spawn

pytestmark = pytest.mark.endurance

REQUESTING, STREAMING, TUNNELLING = 8, 6, 6
ORIGINS = 4

# Pauses in seconds: between two requests, events or messages, and between two reloads.
PACE_S = 0.01
BETWEEN_S = (0.05, 0.3)

# Every other stream and tunnel ends after this many events or messages, and the next begins; the
# others last until the end of the test.
SIZE = 100

HEAD = re.compile(rb"([A-Z]+) (\S+) HTTP/1\.1\r\n")
LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
SWITCH = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
ASK_STREAM = b"GET /events/%d HTTP/1.1\r\nHost: a\r\n\r\n"
ASK_TUNNEL = b"GET /tunnel HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass
class Origins:
    """Servers behind the gateway: responses, events and echoes."""

    done: asyncio.Event
    received: Counter[str] = field(default_factory=Counter)
    used: Counter[int] = field(default_factory=Counter)
    places: list[str] = field(default_factory=list)

    async def open(self, folder: Path, stack: AsyncExitStack) -> None:
        """Listens on ports and Unix sockets."""
        for number in range(ORIGINS):
            serve = self._serving(number)
            if number % 2:
                path = folder / f"{number}.sock"
                server = await asyncio.start_unix_server(serve, path)
                self.places.append(f"unix:{path}")
            else:
                server = await asyncio.start_server(serve, "127.0.0.1", 0)
                self.places.append(f"127.0.0.1:{server.sockets[0].getsockname()[1]}")
            stack.callback(server.close)

    def _serving(self, number: int) -> Callable[..., Coroutine[None, None, None]]:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                while await self._respond(number, reader, writer):
                    pass
            except (asyncio.IncompleteReadError, ConnectionError):
                # The gateway does not need it any more; what its clients miss is their result.
                pass
            finally:
                writer.close()

        return serve

    async def _respond(
        self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        head = await reader.readuntil(b"\r\n\r\n")
        size, line = LENGTH.search(head), HEAD.match(head)
        assert line is not None, head
        await reader.readexactly(int(size[1]) if size else 0)
        self.used[number] += 1
        target = line[2].decode()
        if target.startswith("/events/"):
            await self._send_events(int(target.rpartition("/")[2]), writer)
        elif target == "/tunnel":
            writer.write(SWITCH)
            while message := await reader.read(65536):
                writer.write(message)
            return False
        else:
            self.received[target] += 1
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        await writer.drain()
        return True

    async def _send_events(self, size: int, writer: asyncio.StreamWriter) -> None:
        """`size` events; with 0, until the test is over."""
        writer.write(STREAM)
        for number in range(size) if size else count_from():
            if not size and self.done.is_set():
                break
            event = f"data: {number} {asyncio.get_running_loop().time()}\n\n".encode()
            writer.write(b"%x\r\n%s\r\n" % (len(event), event))
            await asyncio.sleep(PACE_S)
        writer.write(b"0\r\n\r\n")


@dataclass
class Seen:
    """What the clients of one kind have seen.

    Attributes:
        longest_s: The longest time that a response, an event or an echo took.
    """

    whole: int = 0
    parts: int = 0
    longest_s: float = 0.0
    lost: list[str] = field(default_factory=list)

    def add(self, took_s: float) -> None:
        """A part has come."""
        self.parts += 1
        self.longest_s = max(self.longest_s, took_s)


class TimedClient(CountedClient):
    """Sends requests with pauses, and measures how long each takes."""

    def __init__(self, address: Address, number: int, counts: Counts, seen: Seen) -> None:
        """Connects with the first request."""
        super().__init__(address, number, counts)
        self.seen = seen

    async def request(self, method: str) -> None:
        """Sends one request, and counts its outcome."""
        now = asyncio.get_running_loop().time
        begun_s = now()
        await super().request(method)
        self.seen.add(now() - begun_s)
        await asyncio.sleep(PACE_S)


async def read_chunk(reader: asyncio.StreamReader) -> bytes:
    size = int(await reader.readuntil(b"\r\n"), 16)
    return (await reader.readexactly(size + 2))[:-2]


async def use_stream(size: int, seen: Seen, streams: Streams) -> None:
    """Reads a stream to its end, which has to come after all events."""
    reader, writer = streams
    now = asyncio.get_running_loop().time
    writer.write(ASK_STREAM % size)
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 "), head
    received, expected = b"", 0
    while chunk := await read_chunk(reader):
        received += chunk
        *events, received = received.split(b"\n\n")
        for event in events:
            _, number, sent_s = event.split()
            assert int(number) == expected, (event, expected)
            expected += 1
            seen.add(now() - float(sent_s))
    assert not received, received
    assert expected == size or not size, (expected, size)


async def use_tunnel(size: int, done: asyncio.Event, seen: Seen, streams: Streams) -> None:
    """Sends messages, each of which has to come back; with a size of 0, until the test is over."""
    reader, writer = streams
    now = asyncio.get_running_loop().time
    writer.write(ASK_TUNNEL)
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 101 "), head
    for number in range(size) if size else count_from():
        if not size and done.is_set():
            break
        message, begun_s = b"message %d\n" % number, now()
        writer.write(message)
        assert await reader.readexactly(len(message)) == message
        seen.add(now() - begun_s)
        await asyncio.sleep(PACE_S)


async def repeat(
    port: int,
    is_over: Callable[[], bool],
    seen: Seen,
    use: Callable[[Streams], Coroutine[None, None, None]],
) -> None:
    """Uses one connection after the other."""
    while not is_over():
        streams = await asyncio.open_connection("127.0.0.1", port)
        try:
            await use(streams)
        except (AssertionError, asyncio.IncompleteReadError, OSError, ValueError) as error:
            seen.lost.append(repr(error))
            return
        finally:
            streams[1].close()
        seen.whole += 1


@dataclass
class Site:
    """The configuration, which every reload changes."""

    file: Path
    places: list[str]
    rng: random.Random

    def write(self, workers: int) -> None:
        servers = self.rng.sample(self.places, self.rng.randint(1, len(self.places)))
        self.file.write_text(
            f"listen = '127.0.0.1:0'\nworkers = {workers}\ndrain-timeout = '24h'\n"
            f"[upstream.app]\nservers = {servers}\n[[route]]\npath = '/**'\nto = 'app'\n"
        )

    async def reload_often(self, served: Served, amount: int) -> None:
        for number in range(amount):
            await asyncio.sleep(self.rng.uniform(*BETWEEN_S))
            self.write(1 + number % 3)
            await asyncio.to_thread(served.reload)


@dataclass
class Campaign:
    """Everything that was seen."""

    counts: Counts = field(default_factory=dict)
    requests: Seen = field(default_factory=Seen)
    events: Seen = field(default_factory=Seen)
    tunnels: Seen = field(default_factory=Seen)
    received: Counter[str] = field(default_factory=Counter)
    used: Counter[int] = field(default_factory=Counter)

    async def run(self, folder: Path, amount: int) -> None:
        """Reloads the gateway while clients of all kinds use it."""
        done = asyncio.Event()
        origins = Origins(done, self.received, self.used)
        async with AsyncExitStack() as stack:
            await origins.open(folder, stack)
            site = Site(folder / "serve.toml", origins.places, random.Random(1))
            site.write(2)
            served = await asyncio.to_thread(spawn, "--config", str(site.file))
            stack.callback(served.end)
            found = await asyncio.to_thread(served.wait_for, r"http://127\.0\.0\.1:([0-9]+)/")
            async with asyncio.timeout(amount * PATIENCE_S), asyncio.TaskGroup() as tasks:
                for client in self._clients(int(found[1]), done):
                    tasks.create_task(client)
                await site.reload_often(served, amount)
                done.set()

    def _clients(self, port: int, done: asyncio.Event) -> list[Coroutine[None, None, None]]:
        address = Address(port=port)
        requesting = [
            TimedClient(address, number, self.counts, self.requests) for number in range(REQUESTING)
        ]
        streaming = [
            repeat(port, done.is_set, self.events, partial(use_stream, size, self.events))
            for size in sizes(STREAMING)
        ]
        tunnelling = [
            repeat(port, done.is_set, self.tunnels, partial(use_tunnel, size, done, self.tunnels))
            for size in sizes(TUNNELLING)
        ]
        return [send(requesting, done), *streaming, *tunnelling]


def sizes(amount: int) -> list[int]:
    return [SIZE * (number % 2) for number in range(amount)]


async def send(clients: list[TimedClient], done: asyncio.Event) -> None:
    try:
        await until(list(clients), done, seed=1)
    finally:
        for client in clients:
            client.close()


@pytest.mark.timeout(4000)
def test_no_request_fails_and_no_stream_is_cut(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    amount = int(request.config.getoption("--reloads"))
    campaign = Campaign()
    asyncio.run(campaign.run(tmp_path, amount))
    counts = campaign.counts
    add_doubled(counts, campaign.received)
    for method, one in sorted(counts.items()):
        print_line(
            request,
            f"{method}: {one.requests:,} requests, errors {dict(one.errors)}, twice {one.doubled}",
        )
    print_line(request, f"requests: longest {campaign.requests.longest_s * 1e3:.1f} ms")
    kinds = {"event streams": campaign.events, "tunnels": campaign.tunnels}
    for kind, seen in kinds.items():
        print_line(
            request,
            f"{kind}: {seen.whole:,} whole, {seen.parts:,} messages, longest "
            f"{seen.longest_s * 1e3:.1f} ms, cut {len(seen.lost)}",
        )
    print_line(request, f"{amount} reloads")
    assert {method: dict(one.errors) for method, one in counts.items() if one.errors} == {}
    assert sum(one.doubled for one in counts.values()) == 0
    assert len(campaign.received) == sum(one.requests for one in counts.values())
    assert [seen.lost for seen in kinds.values()] == [[], []]
    assert all(seen.whole >= STREAMING for seen in kinds.values())
    assert set(campaign.used) == set(range(ORIGINS))
