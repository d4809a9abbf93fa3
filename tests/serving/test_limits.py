"""Limits on the requests of a route."""

import json
import threading
from pathlib import Path

import pytest

from tests.serving.origin import Origin, held_until
from tests.serving.server_process import Start, connect
from tests.serving.test_edge import read_metrics
from tests.serving.test_gateway_log import LOCAL, lines_of
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


def test_a_reload_keeps_what_was_counted(tmp_path: Path, start: Start) -> None:
    file = tmp_path / "serve.toml"
    route = """
        [[route]]
        host = "{}"
        path = "/limited"
        fixed = "x"
        rate = {{ requests = 2, every = '1h' }}
    """
    server = "listen = '127.0.0.1:0'\nworkers = 2\n"
    file.write_text(server + route.format("h"))
    served = start("--config", str(file))
    port = int(served.wait_for(LOCAL)[1])
    assert [asked(port, "GET", "/limited")[0] for _ in range(3)] == [200, 200, 429]
    # The route is another one of the table, and the same route.
    file.write_text(server + route.format("other") + route.format("h"))
    served.reload()
    assert asked(port, "GET", "/limited")[0] == 429
    assert asked(port, "GET", "/limited", "other")[0] == 200


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


def status_with(port: int, path: str, fields: dict[str, str]) -> int:
    """The status of a response to a GET with these fields."""
    connection = connect(port)
    connection.request("GET", path, headers=fields)
    status = connection.getresponse().status
    connection.close()
    return status


def test_requests_are_counted_by_the_value_of_a_field(tmp_path: Path, start: Start) -> None:
    text = """
    [[route]]
    path = "/"
    fixed = "x"
    rate = { per = "field:X-Api-Key", requests = 1, every = "1h" }
    """
    port = serve(start, tmp_path, text)
    keys = ["a", "b", "a", None, "c", None]
    fields = [{"x-api-key": key} if key else {} for key in keys]
    # Without the field, it is the address.
    expected = [200, 200, 429, 200, 200, 429]
    assert [status_with(port, "/", some) for some in fields] == expected


def test_clients_of_a_trusted_proxy_are_counted_apart(tmp_path: Path, start: Start) -> None:
    text = """
    trusted-proxies = "127.0.0.1"
    forwarded-fields = "x-forwarded-for"
    [[route]]
    path = "/"
    fixed = "x"
    rate = { requests = 1, every = "1h" }
    """
    port = serve(start, tmp_path, text)
    addresses = [
        "192.0.2.1",
        "192.0.2.2",
        "192.0.2.1",
        "2001:db8::1",
        "2001:db8:0:1::1",
        "2001:db8::2:1",
    ]
    statuses = [status_with(port, "/", {"X-Forwarded-For": one}) for one in addresses]
    # Addresses of one network of IPv6 are one client.
    assert statuses == [200, 200, 429, 200, 200, 429]


def test_a_dry_run_counts_and_logs_and_refuses_nothing(tmp_path: Path, start: Start) -> None:
    rate = "rate = { per = 'route', requests = 1, every = '1h'"
    with Origin("a") as origin:
        (tmp_path / "serve.toml").write_text(f"""
        listen = "127.0.0.1:0"
        workers = 1
        access-log = "access.log"
        log-format = "json"
        metrics = "127.0.0.1:0"
        [upstream.app]
        servers = ["{origin.address}"]
        [[route]]
        path = "/forwarded"
        to = "app"
        {rate}, dry-run = true }}
        [[route]]
        path = "/fixed"
        fixed = "x"
        {rate}, dry-run = true }}
        [[route]]
        path = "/refused"
        fixed = "x"
        {rate} }}
        """)
        served = start("--config", str(tmp_path / "serve.toml"))
        port = int(served.wait_for(LOCAL)[1])
        metrics = int(served.wait_for(rf"metrics on {LOCAL}")[1])
        for path, second in [("/forwarded", 200), ("/fixed", 200), ("/refused", 429)]:
            assert [asked(port, "GET", path)[0] for _ in range(2)] == [200, second]
        _, samples = read_metrics(metrics)
        lines = [json.loads(line) for line in lines_of(served, tmp_path / "access.log")]
    for path, refused, dry_run in [("/forwarded", 0, 1), ("/fixed", 0, 1), ("/refused", 1, 0)]:
        labels = f'jissoku_route_over_limit_total{{route="{path}",limit="rate",action='
        assert samples[f'{labels}"refused"}}'] == refused
        assert samples[f'{labels}"dry-run"}}'] == dry_run
    within, beyond = (line["forwarded"][0] for line in lines[:2])
    assert "notes" not in within
    assert (beyond["notes"], beyond["server"]) == (["over-rate"], origin.address)
    assert "forwarded" not in lines[2]
    assert lines[3]["forwarded"][0]["notes"] == ["over-rate"]
    assert "forwarded" not in lines[4]
    assert lines[5]["forwarded"][0]["error"] == "http_request_denied"
