"""Of four servers one is slow for one request in a hundred: second copies keep its clients fast."""

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.endurance.conftest import JISSOKU, loading, print_line, serving

pytestmark = pytest.mark.endurance

RATE = 1000
REQUESTS = 40_000

# p99.9 is at most this multiple of p95, with at most this share of further requests.
TAIL_MAX = 2.0
SHARE_MAX = 0.05

# Service times: the usual ones, and those of the slow server.
USUAL = "lognormal:5ms:0.25"
SLOW = "bimodal:0.99:5ms:100ms"


@dataclass
class Delayed:
    """A server with known service times.

    Attributes:
        requests: That it has received, once it has ended.
    """

    address: str
    process: subprocess.Popen[str]
    requests: int = field(default=0)


@contextmanager
def delayed(delay: str, seed: int) -> Iterator[Delayed]:
    """Starts a server, and ends it."""
    command = [*JISSOKU, "oracle", "--listen", "127.0.0.1:0", "--seed", str(seed)]
    with subprocess.Popen(
        [*command, "--delay", delay], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.match(r"listening on http://(.+)/", line)
        assert found is not None, line
        server = Delayed(found[1], process)
        try:
            yield server
        finally:
            process.terminate()
            out, _ = process.communicate(timeout=30)
            server.requests = json.loads(out)["requests"]


@dataclass(frozen=True, slots=True)
class Measured:
    """Latencies at the client in milliseconds, and further requests as a share of the client's."""

    p50_ms: float
    p95_ms: float
    p999_ms: float
    further: float


def measure(folder: Path, hedge: str) -> Measured:
    """Loads four servers through a gateway, whose route has these further lines."""
    with ExitStack() as stack:
        delays = [SLOW, USUAL, USUAL, USUAL]
        servers = [stack.enter_context(delayed(one, seed)) for seed, one in enumerate(delays)]
        addresses = ", ".join(f'"{server.address}"' for server in servers)
        config = folder / "serve.toml"
        config.write_text(
            f"workers = 1\n[upstream.app]\nservers = [{addresses}]\nbalance = 'round-robin'\n"
            f"[[route]]\npath = '/**'\nto = 'app'\n{hedge}\n"
        )
        server = stack.enter_context(serving("--config", str(config)))
        rate = ["-R", str(RATE), "--arrival", "poisson", "-c", "200"]
        with loading(*rate, "-n", str(REQUESTS), server.url) as load:
            measurement = load.report()["targets"][0]
    assert not any(measurement["errors"].values()), measurement["errors"]
    assert measurement["requests"] == REQUESTS
    ms = {one["name"]: one["value_ns"] / 1e6 for one in measurement["percentiles"]}
    further = sum(server.requests for server in servers) / REQUESTS - 1
    return Measured(ms["p50"], ms["p95"], ms["p99.9"], further)


@pytest.mark.timeout(600)
def test_one_slow_server_is_not_noticed(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    without = measure(tmp_path, "")
    hedged = measure(tmp_path, "hedge = { after = 'p95', budget = 0.05 }")
    for name, one in [("without copies", without), ("with copies", hedged)]:
        latencies = f"p50 {one.p50_ms:.1f}, p95 {one.p95_ms:.1f}, p99.9 {one.p999_ms:.1f} ms"
        ratio = one.p999_ms / one.p95_ms
        print_line(request, f"{name}: {latencies}; {ratio:.2f} x p95; {one.further:+.2%} requests")
    # The slow server is noticed without them.
    assert without.p999_ms > TAIL_MAX * without.p95_ms
    assert hedged.p999_ms <= TAIL_MAX * hedged.p95_ms
    assert hedged.further <= SHARE_MAX
