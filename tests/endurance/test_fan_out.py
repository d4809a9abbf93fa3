"""Of 32 parts one hangs: the response comes at the deadline, with all the others in it."""

import json
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path

import pytest

from tests.endurance.conftest import print_line, serving

pytestmark = pytest.mark.endurance

PARTS = 32
REQUESTS = 300
DEADLINE_MS = 100

# At the 99th percentile.
LATENESS_MS_MAX = 2.0


@contextmanager
def hanging() -> Iterator[str]:
    """A server that never responds: nothing accepts what its kernel does."""
    with socket.create_server(("127.0.0.1", 0), backlog=4096) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


@pytest.mark.timeout(600)
def test_the_response_comes_at_the_deadline(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    late = []
    with serving("--fixed", "x", "--workers", "1") as origin, hanging() as hung:
        parts = [f'part{index} = "good:/{index}"' for index in range(PARTS - 1)]
        config = tmp_path / "serve.toml"
        config.write_text(
            f"workers = 1\n[upstream.good]\nservers = ['{origin.address[0]}:{origin.address[1]}']\n"
            f"[upstream.hung]\nservers = ['{hung}']\nfailures = 255\n"
            f"[[route]]\npath = '/'\ngather = {{ {', '.join(parts)}, hung = 'hung:/' }}\n"
            f"deadline = '{DEADLINE_MS}ms'\n"
        )
        with serving("--config", str(config)) as gateway:
            connection = HTTPConnection(*gateway.address, timeout=30)
            connection.connect()
            for _ in range(REQUESTS):
                begin_ns = time.monotonic_ns()
                connection.request("GET", "/")
                content = json.loads(connection.getresponse().read())
                late.append((time.monotonic_ns() - begin_ns) / 1e6 - DEADLINE_MS)
                errors = [part["error"] for part in content["parts"] if "error" in part]
                assert errors == ["http_response_timeout"]
                assert len(content["parts"]) == PARTS
            connection.close()
    late.sort()
    p50, p99 = late[len(late) // 2], late[len(late) * 99 // 100]
    print_line(
        request,
        f"{REQUESTS} responses after the deadline by: p50 {p50:.2f}, p99 {p99:.2f}, "
        f"at most {late[-1]:.2f} ms",
    )
    assert late[0] >= 0
    assert p99 <= LATENESS_MS_MAX
