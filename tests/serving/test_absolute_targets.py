"""Targets in absolute form: their host is that of the request, for every reader."""

import http.server
import json
from pathlib import Path

import pytest

from tests.serving.origin import Origin
from tests.serving.server_process import Start, connect
from tests.serving.test_gateway_log import LOCAL, lines_of
from tests.serving.test_routes import serve

APP = """
import json

def wsgi(environ, start_response):
    body = json.dumps([environ["HTTP_HOST"], environ["PATH_INFO"]]).encode()
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]

async def asgi(scope, receive, send):
    if scope["type"] != "http":
        raise NotImplementedError
    hosts = [value.decode() for name, value in scope["headers"] if name == b"host"]
    body = json.dumps([*hosts, scope["path"]]).encode()
    head = {"type": "http.response.start", "status": 200, "headers": []}
    await send(head)
    await send({"type": "http.response.body", "body": body})
"""


def asked(port: int, target: str) -> tuple[int, str]:
    """Status and body of the response to a request with this target, and another Host."""
    connection = connect(port)
    connection.putrequest("GET", target, skip_host=True)
    connection.putheader("Host", "admin.example")
    connection.endheaders()
    response = connection.getresponse()
    text = response.read().decode()
    connection.close()
    return response.status, text


def host_of(request: http.server.BaseHTTPRequestHandler) -> tuple[int, str]:
    """Answers with what a server sees of the host."""
    names = ("Host", "X-Forwarded-Host")
    return 200, json.dumps([request.path, *(request.headers.get_all(name) for name in names)])


@pytest.mark.parametrize("way", ["to", "gather"])
def test_each_way_to_a_server_has_the_host_of_the_target(
    tmp_path: Path, start: Start, way: str
) -> None:
    content = {
        "to": "to = 'one'",
        "gather": "gather = { a = 'one:/way' }",
    }[way]
    seen: list[str] = []

    def answer(request: http.server.BaseHTTPRequestHandler) -> tuple[int, str]:
        status, text = host_of(request)
        seen.append(text)
        return status, text

    with Origin("one", answer) as one:
        text = f"""
        [upstream.one]
        servers = ["{one.address}"]
        [[route]]
        host = "public.example"
        path = "/way"
        {content}
        """
        port = serve(start, tmp_path, text)
        assert asked(port, "http://public.example/way")[0] == 200
        assert asked(port, "http://other.example/way")[0] == 404
    assert [json.loads(one) for one in seen] == [["/way", ["public.example"], ["public.example"]]]


@pytest.mark.parametrize("interface", ["wsgi", "asgi"])
@pytest.mark.parametrize("has_route", [False, True])
def test_an_application_sees_the_host_of_the_target(
    tmp_path: Path, start: Start, interface: str, *, has_route: bool
) -> None:
    (tmp_path / "web.py").write_text(APP)
    app = f"'web:{interface}'"
    route = f"[[route]]\nhost = 'public.example'\npath = '/**'\napp = {app}\n"
    port = serve(start, tmp_path, route if has_route else f"app = {app}\n")
    # A head that is received again may be read from what was kept of the last one.
    for host in ("public.example", "public.example:80", "public.example"):
        for query in ("/p", "/p?q", "?q"):
            _, text = asked(port, f"http://{host}{query}")
            assert json.loads(text) == [host, "/" if query == "?q" else "/p"]


def test_the_log_has_the_target_as_it_was_sent(tmp_path: Path, start: Start) -> None:
    with Origin("one") as one:
        log = tmp_path / "access.log"
        served = start(
            "--to", f"http://{one.address}", "--listen", "127.0.0.1:0", "--access-log", str(log)
        )
        port = int(served.wait_for(LOCAL)[1])
        assert asked(port, "http://a.example/p") == (200, "one /p")
        [line] = lines_of(served, log)
    assert '"GET http://a.example/p HTTP/1.1"' in line
