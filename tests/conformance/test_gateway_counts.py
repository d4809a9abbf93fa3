"""Counts of the outcomes of requests while a server closes connections."""

import asyncio
import json
import shutil
from pathlib import Path

import pytest

from jissoku.conformance.counted_load import (
    CountedClient,
    CountingUpstream,
    Counts,
    add_doubled,
    in_rounds,
)
from jissoku.model import Transport
from tests.conftest import Run

pytestmark = pytest.mark.timeout(240)


@pytest.mark.parametrize("transport", list(Transport))
def test_requests_are_counted_where_they_arrive(transport: Transport) -> None:
    async def load() -> tuple[Counts, CountingUpstream]:
        counts: Counts = {}
        async with CountingUpstream(transport) as upstream:
            clients = [CountedClient(upstream.address, number, counts) for number in range(4)]
            await in_rounds(clients, requests=12, pause_s=lambda _: 0.0, seed=0)
            for client in clients:
                client.close()
        return counts, upstream

    counts, upstream = asyncio.run(load())
    assert {method: count.requests for method, count in counts.items()} == {"GET": 6, "POST": 6}
    assert sum(count.errors.total() for count in counts.values()) == 0
    assert sorted(upstream.received.values()) == [1] * 12
    assert upstream.connections == 4


def test_a_restart_closes_idle_connections_and_the_client_counts_the_loss() -> None:
    async def lose() -> tuple[Counts, int]:
        counts: Counts = {}
        async with CountingUpstream(Transport.TCP) as upstream:
            client = CountedClient(upstream.address, 0, counts)
            await client.request("GET")
            upstream.restart()
            await client.request("GET")
            await client.request("GET")
            client.close()
        return counts, upstream.connections

    counts, connections = asyncio.run(lose())
    assert counts["GET"].errors == {"connection closed": 1}
    assert (counts["GET"].requests, connections) == (3, 2)


def test_what_arrived_twice_is_doubled() -> None:
    counts: Counts = {}
    asyncio.run(_request_without_server(counts))
    add_doubled(counts, {"/POST/0/1": 2, "/POST/0/2": 1})
    assert counts["POST"].doubled == 1
    assert counts["POST"].errors.total() == 1


async def _request_without_server(counts: Counts) -> None:
    async with CountingUpstream(Transport.UNIX) as upstream:
        address = upstream.address
    await CountedClient(address, 0, counts).request("POST")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("nginx", path="/usr/sbin:/usr/bin") is None, reason="no nginx")
@pytest.mark.parametrize("what", ["idle-race", "restarts"])
def test_nginx_repeats_a_get_and_never_a_post(run: Run, tmp_path: Path, what: str) -> None:
    amount = "640" if what == "idle-race" else "5"
    words = ["conformance", "--through", "nginx-gateway", "--count", what, "--amount", amount]
    done = run([*words, "--json"], tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    results = json.loads(done.stdout)["results"]
    assert [result["upstream"] for result in results] == ["tcp", "unix"]
    for result in results:
        assert result["methods"]["POST"]["doubled"] == 0
        assert result["methods"]["GET"]["requests"] > 100
