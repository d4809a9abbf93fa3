"""Held and mostly idle connections cost little, and do not slow down others."""

import resource
import statistics

import pytest

from tests.endurance.conftest import GET, Server, answers, loading, print_line, serving

pytestmark = pytest.mark.endurance

# Number of held connections if the limits of this machine allow it, and the minimum.
WANTED = 200_000
LEAST = 10_000

# Ports that one source address has for one destination.
PER_ADDRESS = 25_000

# Descriptors that both sides need in addition to the connections.
SPARE = 200

ROUNDS = 6


def room() -> int:
    return min(WANTED, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - SPARE)


def p99_us(server: Server) -> float:
    with loading("-c", "16", "-R", "2k", "--warmup", "500ms", "-d", "5s", server.url) as load:
        measurement = load.report()["targets"][0]
    assert not any(measurement["errors"].values()), measurement["errors"]
    p99_ns: float = measurement["latency_ns"]["p99"]
    return p99_ns / 1000


@pytest.mark.timeout(900)
def test_idle_connections_cost_little_and_do_not_disturb_others(
    request: pytest.FixtureRequest,
) -> None:
    count = room()
    if count < LEAST:
        pytest.skip(
            f"this machine allows {count} descriptors, and {LEAST} connections are to be held"
        )
    if count < WANTED:
        print_line(request, f"SKIPPED: {WANTED:,} connections, RLIMIT_NOFILE allows {count:,} here")
    # The first client is silent until the last has connected, which takes this client some seconds.
    patient = ("--head-time-max", "120s")
    with serving("--fixed", "Hello", "--workers", "1", *patient) as server:
        alone, crowded, sizes = [], [], []
        for _ in range(ROUNDS):
            alone.append(p99_us(server))
            before = server.rss_bytes()
            held = [server.connect(f"127.0.0.{1 + n // PER_ADDRESS}") for n in range(count)]
            assert answers(held, GET) == count
            assert answers(held, GET) == count
            sizes.append((server.rss_bytes() - before) / count)
            crowded.append(p99_us(server))
            for connection in held:
                connection.close()
    ratio = statistics.median(c / a for c, a in zip(crowded, alone, strict=True))
    print_line(request, f"{count:,} connections held, each answered twice, {ROUNDS} times over")
    print_line(request, f"resident memory per connection, first time: {sizes[0]:.0f} bytes")
    print_line(request, f"p99 of 2,000 requests/s, microseconds: alone {[round(a) for a in alone]}")
    print_line(
        request, f"with the others connected {[round(c) for c in crowded]}, ratio {ratio:.2f}"
    )
    assert sizes[0] <= 2048
