"""Gateways behind each other, and a gateway that forwards to itself."""

import http.server
from pathlib import Path

import pytest

from tests.serving.origin import Origin
from tests.serving.server_process import Served, Start, ask
from tests.serving.test_gateway_log import LOCAL
from tests.serving.test_routes import asked

APP = "def app(environ, start_response):\n    start_response('200 OK', [])\n    return [b'app']\n"


def via_of(request: http.server.BaseHTTPRequestHandler) -> tuple[int, str]:
    """Answers with the names in Via."""
    fields = ", ".join(request.headers.get_all("Via") or [])
    return 200, " ".join(hop.split()[1] for hop in fields.split(",") if hop)


def gateway_to(start: Start, address: str) -> tuple[Served, int]:
    """A gateway in front of an address."""
    served = start("--to", f"http://{address}", "--workers", "2", "--listen", "127.0.0.1:0")
    return served, int(served.wait_for(LOCAL)[1])


def test_gateways_can_be_behind_each_other(tmp_path: Path, start: Start) -> None:
    with Origin("app", via_of) as origin:
        _, inner = gateway_to(start, origin.address)
        _, edge = gateway_to(start, f"127.0.0.1:{inner}")
        status, text = asked(edge, "GET", "/")
        assert status == 200
        first, second = text.split()
        assert first != second
        (tmp_path / "routes.toml").write_text(f"""
            listen = "127.0.0.1:0"
            [upstream.app]
            servers = ["127.0.0.1:{inner}"]
            [[route]]
            path = "/"
            gather = {{ a = "app:/a" }}
            shape = "object"
        """)
        gathering = start("--config", str(tmp_path / "routes.toml"))
        assert asked(int(gathering.wait_for(LOCAL)[1]), "GET", "/")[0] == 200


@pytest.mark.parametrize("more", [[], ["--via-name", "edge"]])
def test_a_gateway_to_itself_notices_that(tmp_path: Path, start: Start, more: list[str]) -> None:
    where = tmp_path / "socket"
    served = start("--to", f"unix:{where}", "--listen", f"unix:{where}", *more)
    served.wait_for("^listening on")
    assert ask(where)[0] == 502


def test_the_name_stays_over_a_reload_and_a_new_program(start: Start) -> None:
    with Origin("app", via_of) as origin:
        served, port = gateway_to(start, origin.address)
        named = asked(port, "GET", "/")
        assert named[0] == 200
        served.reload()
        assert asked(port, "GET", "/") == named
        served.replace()
        assert asked(port, "GET", "/") == named


def test_worker_processes_have_one_name(tmp_path: Path, start: Start) -> None:
    (tmp_path / "web.py").write_text(APP)
    with Origin("app", via_of) as origin:
        (tmp_path / "routes.toml").write_text(f"""
            listen = "127.0.0.1:0"
            workers = 2
            [upstream.app]
            servers = ["{origin.address}"]
            [[route]]
            path = "/app"
            app = "web:app"
            [[route]]
            path = "/**"
            to = "app"
        """)
        served = start("--config", str(tmp_path / "routes.toml"), "--app-dir", str(tmp_path))
        port = int(served.wait_for(LOCAL)[1])
        names = {asked(port, "GET", "/")[1] for _ in range(40)}
        assert len(names) == 1
