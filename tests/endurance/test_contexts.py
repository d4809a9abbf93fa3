"""Contexts of requests of eight clients at once, for minutes with each framework."""

import threading
import time
from pathlib import Path

import pytest

from tests.apps.test_asgi_tasks import APPS, CLIENTS, VISIT, serving, visit_often
from tests.endurance.conftest import print_line

pytestmark = pytest.mark.endurance

DURATION_S = 60.0
VISITS = 100


@pytest.mark.parametrize("name", APPS)
def test_contexts_of_requests_do_not_meet(
    name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if name not in {"plain", "function"}:
        pytest.importorskip(name)
    wrong: list[str] = []
    visited: list[int] = []
    end_s = time.monotonic() + DURATION_S

    def visit_until_the_end(port: int, first: int) -> None:
        while time.monotonic() < end_s and not wrong:
            visit_often(port, first, VISITS, wrong)
            visited.append(VISITS)

    with serving(VISIT + APPS[name], tmp_path) as (_, port):
        clients = [
            threading.Thread(target=visit_until_the_end, args=(port, 1000 * index))
            for index in range(CLIENTS)
        ]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
    print_line(request, f"{name}: {sum(visited)} requests, each with a context of its own")
    assert not wrong
