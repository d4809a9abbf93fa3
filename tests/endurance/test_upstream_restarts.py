"""A server restarts gracefully 200 times behind a gateway, under kept GET, PUT and POST."""

import asyncio
import json
import random
import signal
from collections import Counter
from pathlib import Path

import pytest

from jissoku.conformance.counted_load import CountedClient, Counts, add_doubled, until
from jissoku.system.address import Address
from tests.endurance.conftest import print_line, serving
from tests.serving.server_process import PATIENCE_S, Served, spawn

pytestmark = pytest.mark.endurance

RESTARTS = 200
CLIENTS = 8
LISTENING = r"listening on (http://127\.0\.0\.1:[0-9]+)/"

# Between two restarts, in seconds: some requests of each client.
PAUSE_S = (0.05, 0.25)


async def load(port: int, server: Served, restart: str) -> Counts:
    """The outcomes of requests through a gateway while the server behind it restarts."""
    counts: Counts = {}
    done = asyncio.Event()
    address = Address(port=port)
    clients = [CountedClient(address, number, counts) for number in range(CLIENTS)]
    rng = random.Random(1)

    async def restart_often() -> None:
        for _ in range(RESTARTS):
            await asyncio.sleep(rng.uniform(*PAUSE_S))
            await asyncio.to_thread(server.reload if restart == "reload" else server.replace)
        done.set()

    try:
        async with asyncio.timeout(RESTARTS * PATIENCE_S):
            await asyncio.gather(until(clients, done, seed=1), restart_often())
    finally:
        for client in clients:
            client.close()
    return counts


def received(log: Path) -> Counter[str]:
    """How often each target has reached the server."""
    return Counter(json.loads(line)["target"] for line in log.read_text().splitlines())


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("restart", ["reload", "replace"])
def test_no_request_fails_and_none_is_sent_twice(
    request: pytest.FixtureRequest, tmp_path: Path, restart: str
) -> None:
    log = tmp_path / "access.log"
    server = spawn(
        *["--fixed", "x", "--workers", "1", "--listen", "127.0.0.1:0"],
        *["--access-log", str(log), "--log-format", "json"],
    )
    try:
        url = server.wait_for(LISTENING)[1]
        with serving("--to", url, "--workers", "1") as gateway:
            counts = asyncio.run(load(gateway.address[1], server, restart))
        server.send_signal(signal.SIGTERM)
        # Their end is that of all processes: the log is complete.
        for reader in server.readers:
            reader.join(PATIENCE_S)
    finally:
        server.end()
    reached = received(log)
    add_doubled(counts, reached)
    for method, count in sorted(counts.items()):
        print_line(
            request,
            f"{RESTARTS} x {restart}: {method} {count.requests:,}, errors {dict(count.errors)}, "
            f"twice {count.doubled}",
        )
    assert all(count.errors.total() == 0 for count in counts.values())
    assert all(count.doubled == 0 for count in counts.values())
    assert len(reached) == sum(count.requests for count in counts.values())
