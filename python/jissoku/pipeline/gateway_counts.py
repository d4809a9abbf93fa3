"""Counts failures of a reverse proxy under load while its servers close connections or restart."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum

from jissoku.conformance.gateway.counted_load import (
    CountedClient,
    Counts,
    add_doubled,
    in_rounds,
    until,
)
from jissoku.conformance.gateway.counting_upstream import CountingUpstream
from jissoku.model import Transport, Workload
from jissoku.system.cores import available_cores
from jissoku.system.interruption import Interruption
from jissoku.targets.launch import Launcher
from jissoku.targets.prepare import PreparedTarget
from jissoku.targets.process import RunningTarget
from jissoku.targets.ready import wait_for_listener

CLIENTS = 64

# The server closes a connection after this idle time; requests arrive at about that time.
IDLE_S = 0.050
PAUSE_S = (0.045, 0.055)

# Time between two restarts, and duration of a request, so that some are in progress at each.
RESTART_EVERY_S = 0.1
WORK_S = 0.002


class GatewayCount(StrEnum):
    """The kind of event that is counted."""

    IDLE_RACE = "idle-race"
    RESTARTS = "restarts"
    MUTATIONS = "mutations"


@dataclass(frozen=True, slots=True, kw_only=True)
class CountConfig:
    """The proxy and the load.

    Attributes:
        amount: Requests of the idle race, or restarts.
    """

    prepared: PreparedTarget
    what: GatewayCount
    transport: Transport
    amount: int
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CountResult:
    """The counts, and the number of connections to the servers."""

    counts: Counts
    connections: int


def count_gateway(config: CountConfig) -> CountResult:
    """Starts the proxy before a counting server, and applies the load.

    Raises:
        TargetError: The proxy cannot be started.
        Interrupted: On request.
    """
    with Interruption() as interruption:
        return asyncio.run(_count(config, interruption))


async def _count(config: CountConfig, interruption: Interruption) -> CountResult:
    is_race = config.what is GatewayCount.IDLE_RACE
    counts: Counts = {}
    upstream = CountingUpstream(
        config.transport, idle_s=IDLE_S if is_race else None, work_s=0.0 if is_race else WORK_S
    )
    async with upstream, _started(config, upstream, interruption) as running:
        clients = [CountedClient(running.address, n, counts) for n in range(CLIENTS)]
        try:
            if is_race:
                await in_rounds(
                    clients,
                    requests=config.amount,
                    pause_s=lambda rng: rng.uniform(*PAUSE_S),
                    seed=config.seed,
                )
            else:
                await _restart(config, upstream, clients, interruption)
        finally:
            for client in clients:
                client.close()
    add_doubled(counts, upstream.received)
    return CountResult(counts=counts, connections=upstream.connections)


async def _restart(
    config: CountConfig,
    upstream: CountingUpstream,
    clients: list[CountedClient],
    interruption: Interruption,
) -> None:
    done = asyncio.Event()
    load = asyncio.create_task(until(clients, done, config.seed))
    for _ in range(config.amount):
        await asyncio.sleep(RESTART_EVERY_S)
        interruption.check()
        upstream.restart()
    done.set()
    await load


@asynccontextmanager
async def _started(
    config: CountConfig, upstream: CountingUpstream, interruption: Interruption
) -> AsyncIterator[RunningTarget]:
    launcher = Launcher(
        cores=available_cores(),
        rng=random.Random(config.seed),
        workers=1,
        give_up=lambda: interruption.asked,
        upstreams=(upstream.address,),
    )
    with launcher.start(config.prepared, Workload()) as running:
        wait_for_listener(running, give_up=lambda: interruption.asked)
        yield running
