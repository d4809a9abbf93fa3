"""An hour of half load with some bad requests and broken connections: nothing grows."""

import random
import time

import pytest

from tests.endurance.conftest import GET, Server, loading, print_line, serving

pytestmark = pytest.mark.endurance

RATE = 20_000
MALFORMED = (
    b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    b"GET  / HTTP/1.1\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
)

# Samples that are needed to distinguish growth from the start.
SETTLED_S = 30


def disturb(server: Server, rng: random.Random) -> None:
    """Sends one malformed request, and closes one connection in the middle of a request."""
    with server.connect() as connection:
        connection.sendall(rng.choice(MALFORMED))
        assert connection.recv(4096).startswith(b"HTTP/1.1 400 ")
    with server.connect() as connection:
        connection.sendall(GET[: rng.randrange(1, len(GET))])


@pytest.mark.timeout(8000)
def test_nothing_grows(request: pytest.FixtureRequest) -> None:
    minutes = request.config.getoption("--minutes")
    seconds = int(60 * minutes)
    rng = random.Random(1)
    disturbances = 0
    with (
        serving("--contract", "--workers", "1") as server,
        loading("-c", "64", "-R", str(RATE), "-d", f"{seconds}s", server.url) as load,
    ):
        begun = time.monotonic()
        settled: tuple[int, int] | None = None
        while (elapsed := time.monotonic() - begun) < seconds - 2:
            # One in a hundred of each kind, or as many as this client can make.
            for _ in range(min(100, int(elapsed * RATE / 100) - disturbances)):
                disturb(server, rng)
                disturbances += 1
            if settled is None and elapsed > min(SETTLED_S, seconds / 4):
                settled = (server.rss_bytes(), server.descriptors())
            time.sleep(0.01)
        ended = (server.rss_bytes(), server.descriptors())
        measurement = load.report()["targets"][0]
    assert settled is not None
    growth = ended[0] / settled[0] - 1
    print_line(
        request,
        f"{minutes:g} min: {measurement['requests']:,} requests, {2 * disturbances:,} disturbances",
    )
    print_line(
        request, f"resident memory {settled[0]:,} to {ended[0]:,} bytes: {100 * growth:+.2f} %"
    )
    print_line(request, f"descriptors {settled[1]} to {ended[1]}; errors {measurement['errors']}")
    assert growth < 0.01
    assert ended[1] <= settled[1] + 2
    assert not any(measurement["errors"].values()), measurement["errors"]
