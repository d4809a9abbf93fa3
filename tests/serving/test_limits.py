"""Limits on the requests of a route."""

import threading
from pathlib import Path

import pytest

from tests.serving.origin import Origin, held_until
from tests.serving.server_process import Start, connect
from tests.serving.test_routes import asked, serve


@pytest.mark.parametrize("per", ["address", "route"])
def test_what_exceeds_the_rate_is_refused(tmp_path: Path, start: Start, per: str) -> None:
    rate = f"rate = {{ per = '{per}', requests = 2, every = '1h', burst = 2 }}"
    text = f"""
    [[route]]
    path = "/limited"
    fixed = "x"
    {rate}
    [[route]]
    path = "/"
    fixed = "y"
    """
    port = serve(start, tmp_path, text)
    assert [asked(port, "GET", "/limited")[0] for _ in range(3)] == [200, 200, 429]
    connection = connect(port)
    connection.request("GET", "/limited")
    response = connection.getresponse()
    assert response.read() == b"Too Many Requests\n"
    # One request in half an hour, less the time since the first.
    assert 0 < int(response.headers["Retry-After"]) <= 1800
    # The connection is kept, and other routes are not limited.
    connection.request("GET", "/")
    assert connection.getresponse().read() == b"y"
    connection.close()


@pytest.mark.parametrize(("per", "status"), [("address", 429), ("route", 503)])
def test_what_exceeds_the_concurrency_is_refused(
    tmp_path: Path, start: Start, per: str, status: int
) -> None:
    is_free = threading.Event()
    with Origin("a", held_until(is_free)) as origin:
        text = f"""
        [upstream.app]
        servers = ["{origin.address}"]
        [[route]]
        path = "/**"
        to = "app"
        concurrency = {{ per = "{per}", requests = 1 }}
        """
        port = serve(start, tmp_path, text)
        first = threading.Thread(target=asked, args=[port, "GET", "/"])
        first.start()
        while not origin.requests:
            first.join(0.001)
        assert asked(port, "GET", "/")[0] == status
        is_free.set()
        first.join()
        # It was given back before the response was complete at the client, or just after.
        while asked(port, "GET", "/")[0] != 200:
            assert origin.thread.is_alive()
