"""Counts failures of a reverse proxy while its servers restart, or while requests are mutated."""

import asyncio
import random
import re
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum

from jissoku.conformance import counted_load
from jissoku.conformance.messages import MalformedMessage, RequestReader
from jissoku.conformance.stream_readers import difference, mutated_requests, stream_readers
from jissoku.measure.conformance import started_gateway
from jissoku.model import Transport
from jissoku.system.address import HOST, Address
from jissoku.system.interruption import Interruption
from jissoku.targets.prepare import PreparedTarget

CLIENTS = 64

# The server closes a connection after this idle time; requests arrive at about that time.
IDLE_S = 0.050
PAUSE_S = (0.045, 0.055)

# Time between two restarts, and duration of a request, so that some are in progress at each.
RESTART_EVERY_S = 0.1
WORK_S = 0.002

READ_BYTES = 65536

# A client closes after this time without an answer, because many mutations wait for a body.
QUIET_S = 0.1
EXCHANGE_LIMIT_S = 2.0

# The number in a request's target and in the field of its answer.
NUMBER = re.compile(rb"q(\d+)q")
ANSWERED = re.compile(rb"X-Target: [^\r\n]*?q(\d+)q")

EXAMPLES_MAX = 5


class GatewayCount(StrEnum):
    IDLE_RACE = "idle-race"
    RESTARTS = "restarts"
    MUTATIONS = "mutations"


def count_gateway(
    prepared: PreparedTarget, what: GatewayCount, transport: Transport, amount: int
) -> tuple[counted_load.Counts, int]:
    """The counts of N requests of the idle race, or restarts, and of connections to the server.

    The proxy is started before a counting server.

    Raises:
        Interrupted: On request.
    """
    with Interruption() as interruption:
        return asyncio.run(_count(prepared, what, transport, amount, interruption))


async def _count(
    prepared: PreparedTarget,
    what: GatewayCount,
    transport: Transport,
    amount: int,
    interruption: Interruption,
) -> tuple[counted_load.Counts, int]:
    is_race = what is GatewayCount.IDLE_RACE
    counts: counted_load.Counts = {}
    upstream = counted_load.CountingUpstream(
        transport, idle_s=IDLE_S if is_race else None, work_s=0.0 if is_race else WORK_S
    )
    async with upstream:
        addresses = (upstream.address,)
        with started_gateway(prepared, addresses, random.Random(0), interruption) as running:
            clients = [
                counted_load.CountedClient(running.address, n, counts) for n in range(CLIENTS)
            ]
            try:
                if is_race:
                    await counted_load.in_rounds(
                        clients, requests=amount, pause_s=lambda rng: rng.uniform(*PAUSE_S), seed=0
                    )
                else:
                    await _restart(amount, upstream, clients, interruption)
            finally:
                for client in clients:
                    client.close()
    counted_load.add_doubled(counts, upstream.received)
    return counts, upstream.connections


async def _restart(
    amount: int,
    upstream: counted_load.CountingUpstream,
    clients: list[counted_load.CountedClient],
    interruption: Interruption,
) -> None:
    done = asyncio.Event()
    load = asyncio.create_task(counted_load.until(clients, done, seed=0))
    for _ in range(amount):
        await asyncio.sleep(RESTART_EVERY_S)
        interruption.check()
        upstream.restart()
    done.set()
    await load


@dataclass(slots=True)
class MutationCounts:
    """The outcomes of the mutated requests.

    Attributes:
        forwarded: Requests that reached the server.
        refused_by: Connections with a rejection, by the name of the parser.
        differing: Connections that two parsers read differently.
        crossed: Clients that received the answer to another client's request.
        surplus: Mutated requests that reached the server as more requests than they contained.
        examples: The first differing request of some of these.
    """

    sent: int = 0
    forwarded: int = 0
    streams: int = 0
    refused_by: Counter[str] = field(default_factory=Counter)
    differing: int = 0
    crossed: int = 0
    surplus: int = 0
    parsers: tuple[str, ...] = ()
    examples: list[str] = field(default_factory=list)


class _Server:
    """Stores the bytes of every connection, and answers the requests that it can parse."""

    def __init__(self) -> None:
        self.streams: list[bytearray] = []
        self.requests: Counter[bytes] = Counter()
        self.forwarded = 0
        self._writers: list[asyncio.StreamWriter] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def finish(self) -> None:
        for writer in self._writers:
            writer.close()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None, "a connection is served by a task"
        self._tasks.append(task)
        self._writers.append(writer)
        stream, requests, answered = bytearray(), RequestReader(), 0
        self.streams.append(stream)
        with suppress(OSError, MalformedMessage):
            while data := await reader.read(READ_BYTES):
                stream += data
                requests.feed(data)
                for request in requests.messages[answered:]:
                    if request.is_complete:
                        answered += 1
                        self.forwarded += 1
                        number = NUMBER.search(request.target.encode("latin-1"))
                        self.requests[number[1] if number else b""] += 1
                        head = f"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX-Target: {request.target}"
                        writer.write(head.encode("latin-1") + b"\r\n\r\n")
        writer.close()


def count_mutations(prepared: PreparedTarget, amount: int, seed: int = 0) -> MutationCounts:
    """Sends mutated requests, each on a new connection, and parses the forwarded bytes."""
    with Interruption() as interruption:
        return asyncio.run(_count_mutations(prepared, amount, seed, interruption))


async def _count_mutations(
    prepared: PreparedTarget, amount: int, seed: int, interruption: Interruption
) -> MutationCounts:
    counts, kept = MutationCounts(sent=amount), _Server()
    server = await asyncio.start_server(kept.serve, HOST, 0, backlog=512)
    address = Address(port=server.sockets[0].getsockname()[1])
    with started_gateway(prepared, (address,), random.Random(seed), interruption) as running:
        waiting = list(enumerate(mutated_requests(amount, seed)))

        async def client() -> None:
            while waiting:
                interruption.check()
                number, data = waiting.pop()
                got = await _exchange(running.address, data)
                if any(int(found) != number for found in ANSWERED.findall(got)):
                    counts.crossed += 1

        await asyncio.gather(*(client() for _ in range(CLIENTS)))
    server.close()
    await kept.finish()
    counts.forwarded = kept.forwarded
    for number, data in enumerate(mutated_requests(amount, seed)):
        # All targets in it contain its number.
        if kept.requests[b"%05d" % number] > len(NUMBER.findall(data)):
            counts.surplus += 1
    _read_all(kept, counts)
    return counts


async def _exchange(address: Address, data: bytes) -> bytes:
    got = b""
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(EXCHANGE_LIMIT_S):
            reader, writer = await asyncio.open_connection(address.host, address.port)
            try:
                writer.write(data)
                while more := await asyncio.wait_for(reader.read(READ_BYTES), QUIET_S):
                    got += more
            finally:
                writer.close()
    return got


def _read_all(kept: _Server, counts: MutationCounts) -> None:
    readers = stream_readers()
    counts.parsers = tuple(readers)
    for stream in kept.streams:
        data = bytes(stream)
        if not data:
            continue
        counts.streams += 1
        readings = {name: read(data) for name, read in readers.items()}
        counts.refused_by.update(name for name, found in readings.items() if found.refused)
        if found := difference(readings):
            counts.differing += 1
            if len(counts.examples) < EXAMPLES_MAX:
                counts.examples.append(found)
