"""Active health checks of servers behind a gateway."""

from http.server import BaseHTTPRequestHandler
from pathlib import Path

from tests.serving.origin import Origin
from tests.serving.server_process import Start
from tests.serving.test_routes import asked, serve

HEALTH = "health = { path = '/up', every = '20ms', time = '20s', rise = 1, fall = 1 }"


def test_a_server_that_fails_its_checks_gets_no_requests(tmp_path: Path, start: Start) -> None:
    is_up = False

    def answer(request: BaseHTTPRequestHandler) -> tuple[int, str]:
        if request.path == "/up":
            return (200, "up") if is_up else (503, "down")
        return 200, "b"

    with Origin("a") as one, Origin("b", answer) as other:
        text = f"""
        [upstream.app]
        servers = ["{one.address}", "{other.address}"]
        balance = "round-robin"
        {HEALTH}
        [[route]]
        path = "/**"
        to = "app"
        """
        port = serve(start, tmp_path, text)

        def names() -> set[str]:
            return {asked(port, "GET", "/")[1][0] for _ in range(8)}

        # A second check begins after the result of the first is known.
        while other.requests.count("/up") < 2:
            assert asked(port, "GET", "/")[0] == 200
        assert names() == {"a"}
        is_up = True
        while "b" not in names():
            assert other.thread.is_alive()
