"""Servers of applications for the tests, ended when a test is."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.serving.server_process import Served, spawn

APPS = Path(__file__).parents[2] / "python" / "jissoku" / "targets" / "apps"


@pytest.fixture(scope="module", params=["inline", "threads"])
def cases_port(request: pytest.FixtureRequest) -> Iterator[int]:
    """The port of a server of the application of the cases, which a worker or its threads call."""
    threads = ["--threads", "2"] if request.param == "threads" else []
    served = serve("wsgi_cases:app", *threads)
    try:
        yield port_of(served)
    finally:
        served.end()


def serve(app: str, *arguments: str, directory: Path = APPS) -> Served:
    """Starts a server of an application."""
    return spawn(app, "--app-dir", str(directory), "--listen", "127.0.0.1:0", *arguments)


def port_of(served: Served) -> int:
    """Waits until it listens."""
    return int(served.wait_for(r"^listening on http://127\.0\.0\.1:([0-9]+)/$")[1])
