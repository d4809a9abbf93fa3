"""A table of routes: which route serves each request, and which tables are rejected."""

import base64
import http.server
import json
import re
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.serving.origin import Origin, held_until
from tests.serving.server_process import COMMAND, PATIENCE_S, Start, ask, connect

APP = """
def app(environ, start_response):
    start_response("200 OK", [("Content-Length", "3")])
    return [b"app"]
"""


def serve(start: Start, folder: Path, text: str) -> int:
    """Starts a server with this configuration; its port."""
    file = folder / "serve.toml"
    file.write_text("listen = '127.0.0.1:0'\nworkers = 1\n" + text)
    served = start("--config", str(file), "--app-dir", str(folder))
    return int(served.wait_for(r"http://127\.0\.0\.1:([0-9]+)/")[1])


def asked(port: int, method: str, path: str, host: str = "h") -> tuple[int, str]:
    """Status and body of one response."""
    connection = connect(port)
    connection.request(method, path, headers={"Host": host})
    response = connection.getresponse()
    text = response.read().decode()
    connection.close()
    return response.status, text


@pytest.mark.parametrize("has_app", [False, True])
def test_each_route_has_its_content(tmp_path: Path, start: Start, *, has_app: bool) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "a.txt").write_text("a file")
    (tmp_path / "web.py").write_text(APP)
    app = "[[route]]\npath = '/app/**'\napp = 'web:app'\n" if has_app else ""
    with Origin("one") as one, Origin("two") as two:
        text = f"""
        [upstream.one]
        servers = ["{one.address}"]
        [upstream.two]
        servers = ["{two.address}"]
        {app}
        [[route]]
        path = "/two/{{id}}"
        methods = ["GET"]
        to = "two"
        [[route]]
        path = "/**"
        host = "files.example"
        folder = "site"
        [[route]]
        path = "/**"
        host = "one.example"
        to = "one"
        [[route]]
        path = "/fixed"
        fixed = "always this"
        """
        port = serve(start, tmp_path, text)
        assert asked(port, "GET", "/two/7?q") == (200, "two /two/7?q")
        assert asked(port, "POST", "/two/7") == (405, "Method Not Allowed\n")
        assert asked(port, "GET", "/a.txt", "files.example") == (200, "a file")
        assert asked(port, "GET", "/x", "one.example:80") == (200, "one /x")
        assert asked(port, "POST", "/x", "ONE.example") == (200, "one /x")
        assert asked(port, "GET", "/fixed") == (200, "always this")
        assert asked(port, "GET", "/nowhere") == (404, "Not Found\n")
        assert asked(port, "GET", "/two/..%2f7") == (400, "Bad Request\n")
        assert asked(port, "GET", "http://one.example/y", "h") == (200, "one /y")
        if has_app:
            assert asked(port, "GET", "/app/x") == (200, "app")


@pytest.mark.parametrize(
    ("encoded", "path", "expected"),
    [
        ("safe", "/@scope%2fname?a%2Fb", (200, "one /@scope%2fname?a%2Fb")),
        ("safe", "/api/queues/%2F/q", (200, "one /api/queues/%2F/q")),
        ("safe", "/x%2Ehtml", (200, "one /x%2Ehtml")),
        ("safe", "/a/../b", (200, "one /a/../b")),
        ("safe", "/a%00b", (400, "Bad Request\n")),
        ("safe", "/a/..%2fadmin", (400, "Bad Request\n")),
        ("pass", "/a/..%2fadmin", (200, "one /a/..%2fadmin")),
        ("refuse", "/@scope%2fname", (400, "Bad Request\n")),
        ("decode", "/@scope%2fname/%20?a%2Fb", (200, "one /@scope/name/%20?a%2Fb")),
        ("decode", "/a/..%2fadmin", (400, "Bad Request\n")),
    ],
)
def test_a_route_says_what_becomes_of_encoded_paths(
    tmp_path: Path, start: Start, encoded: str, path: str, expected: tuple[int, str]
) -> None:
    with Origin("one") as one:
        text = f"""
            [upstream.one]
            servers = ["{one.address}"]
            [[route]]
            path = "/admin/**"
            fixed = "admin"
            [[route]]
            path = "/**"
            to = "one"
            encoded = "{encoded}"
        """
        assert asked(serve(start, tmp_path, text), "GET", path) == expected


@pytest.mark.parametrize(
    ("more", "host", "has_via"),
    [
        ("", "h", True),
        ("host = 'client'\nvia = true", "h", True),
        ("host = 'upstream'", None, True),
        ("host = 'app.example:81'\nvia = false", "app.example:81", False),
    ],
)
def test_an_upstream_says_which_host_and_via_its_servers_get(
    tmp_path: Path, start: Start, more: str, host: str | None, *, has_via: bool
) -> None:
    def answer(request: http.server.BaseHTTPRequestHandler) -> tuple[int, str]:
        names = ["Host", "X-Forwarded-Host", "Via"]
        return 200, json.dumps([request.headers.get(name) for name in names])

    with Origin("one", answer) as one:
        upstream = f"[upstream.one]\nservers = ['{one.address}']\n{more}\n"
        port = serve(start, tmp_path, upstream + "[[route]]\npath = '/**'\nto = 'one'\n")
        status, answered = asked(port, "GET", "/")
        assert status == 200
        got_host, forwarded_host, via = json.loads(answered)
        assert (got_host, forwarded_host) == (host or one.address, "h")
        assert re.fullmatch(r"1\.1 jissoku-[0-9a-f]{10}", via) if has_via else via is None


def test_a_request_is_gathered_from_several_servers(tmp_path: Path, start: Start) -> None:
    with Origin("one") as one, Origin("two") as two:
        text = f"""
        [upstream.one]
        servers = ["{one.address}"]
        [upstream.two]
        servers = ["{two.address}"]
        [[route]]
        path = "/home/{{id}}"
        gather = {{ a = "one:/a/{{id}}", b = "two:/b?c=d" }}
        deadline = "1h"
        shape = "object"
        """
        status, answer = asked(serve(start, tmp_path, text), "GET", "/home/7")
    found = json.loads(answer)
    assert (status, found["complete"]) == (200, True)
    bodies = {key: base64.b64decode(part["body_base64"]) for key, part in found["parts"].items()}
    assert bodies == {"a": b"one /a/7", "b": b"two /b?c=d"}


@pytest.mark.parametrize(
    ("key", "received"),
    [
        (
            "",
            "accept accept-language authorization cookie host traceparent via x-request-id",
        ),
        ("fields = ['Cookie', 'x-user', 'Accept']", "accept cookie host via x-user"),
        ("fields = []", "host via"),
    ],
)
def test_parts_receive_the_fields_that_their_route_lists(
    tmp_path: Path, start: Start, key: str, received: str
) -> None:
    def answer(request: http.server.BaseHTTPRequestHandler) -> tuple[int, str]:
        names = sorted({name.lower() for name in request.headers})
        return 200, json.dumps([name for name in names if not name.startswith("x-forwarded")])

    with Origin("one", answer) as one:
        text = f"""
        [upstream.one]
        servers = ["{one.address}"]
        [[route]]
        path = "/home"
        gather = {{ a = "one:/a" }}
        {key}
        """
        connection = connect(serve(start, tmp_path, text))
        listed = ["Accept-Language", "Authorization", "Cookie", "traceparent", "X-Request-Id"]
        others = ["Range", "If-None-Match", "X-User", "Referer"]
        fields = dict.fromkeys([*listed, *others], "x") | {
            "Host": "h",
            "Accept": "application/json",
        }
        connection.request("GET", "/home", headers=fields)
        [part] = json.loads(connection.getresponse().read())["parts"]
        connection.close()
    assert json.loads(base64.b64decode(part["body_base64"])) == received.split()


@pytest.mark.parametrize(
    ("keys", "of_route"), [("response-time-max = '50ms'", ""), ("", "head-time = '50ms'")]
)
def test_the_time_for_a_response_is_that_of_the_server_or_of_the_route(
    tmp_path: Path, start: Start, keys: str, of_route: str
) -> None:
    is_over = threading.Event()
    with Origin("one", held_until(is_over)) as one:
        upstream = f"[upstream.one]\nservers = ['{one.address}']\n"
        route = f"[[route]]\npath = '/**'\nto = 'one'\n{of_route}\n"
        port = serve(start, tmp_path, f"{keys}\n{upstream}{route}")
        assert asked(port, "GET", "/") == (504, "Gateway Timeout\n")
        is_over.set()


def test_the_command_names_the_route_that_serves(tmp_path: Path, start: Start) -> None:
    routes = ["/a", "/a/{b}", "/a/b/**", "/**"]
    text = "".join(f"[[route]]\npath = '{path}'\nfixed = '{path}'\n" for path in routes)
    port = serve(start, tmp_path, text)
    for path in ["/a", "/a/", "/a/b", "/a/b/c", "/%61", "/A", "/a//b", "/a/../b", "/", "/a%2fb"]:
        explained = subprocess.run(
            [sys.executable, "-m", "jissoku", "check", tmp_path / "serve.toml", path],
            capture_output=True,
            text=True,
            check=False,
        )
        status, body = asked(port, "GET", path)
        said = explained.stdout.splitlines()[0]
        if status == 200:
            assert f", {body}: a fixed response" in said
        else:
            assert said.startswith(f"{status}:")


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("[[route]]\npath = '/a'\nfixed = 'x'\ncolour = 1", 4, 'no key "colour"'),
        ("[[route]]\npath = '/**'\nfixed = 'x'\n[[route]]\npath = '/a'\nfixed = 'y'", 4, "line 1"),
        ("[[route]]\npath = '/**'\nfixed = 'x'\n[[route]]\npath = '/**'\nfixed = 'y'", 4, "line 1"),
        ("fixed = 'x'\n[[route]]\npath = '/**'\nfixed = 'y'", 1, "both say what is served"),
        ("[[route]]\npath = '/a'\nto = 'none'", 3, 'no upstream "none"'),
        ("[[route]]\npath = '/a'\nfolder = 'not-there'", 1, "not-there"),
        (
            "[upstream.a]\nservers = ['no-such-host.invalid:80']\n[[route]]\npath = '/'\nto = 'a'",
            1,
            "cannot be resolved",
        ),
        ("[upstream.a]\nservers = ['127.0.0.1:80']", 1, "no [[route]]"),
        (
            "[[route]]\npath = '/a'\napp = 'a:b'\n[[route]]\npath = '/b'\napp = 'c:d'",
            4,
            "a:b is one",
        ),
    ],
)
def test_a_bad_table_is_refused_with_its_line(
    tmp_path: Path, text: str, line: int, why: str
) -> None:
    file = tmp_path / "serve.toml"
    file.write_text(text + "\n")
    command = [*COMMAND, "--config", str(file), "--listen", "127.0.0.1:0"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 2
    [sentence] = run.stderr.splitlines()
    assert f"serve.toml, line {line}: " in sentence
    assert why in sentence


def test_flags_override_the_routes(tmp_path: Path, start: Start) -> None:
    file = tmp_path / "serve.toml"
    file.write_text("[[route]]\npath = '/'\nfixed = 'of the file'\n")
    served = start("--config", str(file), "--fixed", "of the flag", "--listen", "127.0.0.1:0")
    port = int(served.wait_for(r"http://127\.0\.0\.1:([0-9]+)/")[1])
    assert ask(port) == (200, b"of the flag")


def test_the_example_of_the_documentation_is_served(start: Start) -> None:
    example = Path(__file__).parents[2] / "docs" / "gateway.toml"
    served = start("--config", str(example), "--listen", "127.0.0.1:0")
    port = int(served.wait_for(r"http://127\.0\.0\.1:([0-9]+)/")[1])
    assert asked(port, "GET", "/health") == (200, "up")
    assert asked(port, "GET", "/gateway.toml", "docs.example.org") == (200, example.read_text())
    arguments = ["check", str(example), "/home/7"]
    run = subprocess.run(
        [sys.executable, "-m", "jissoku", *arguments], capture_output=True, text=True, check=True
    )
    assert "gathers 2 parts" in run.stdout
    assert "customer = 7" in run.stdout


def test_a_server_gets_another_path(tmp_path: Path, start: Start) -> None:
    (tmp_path / "site" / "sub").mkdir(parents=True)
    (tmp_path / "site" / "index.html").write_text("start")
    (tmp_path / "site" / "sub" / "index.html").write_text("below")

    def answer(request: http.server.BaseHTTPRequestHandler) -> tuple[int, str]:
        fields = request.headers
        return 200, f"{request.path} {fields['X-Forwarded-Prefix']} {fields['X-Forwarded-Port']}"

    with Origin("one", answer) as one:
        text = f"""
        [upstream.one]
        servers = ["{one.address}"]
        [[route]]
        path = "/api/**"
        to = "one"
        strip-prefix = "/api"
        add-prefix = "/v2"
        [[route]]
        path = "/static/**"
        folder = "site"
        strip-prefix = "/static"
        [[route]]
        path = "/**"
        to = "one"
        """
        port = serve(start, tmp_path, text)
        assert asked(port, "GET", "/api/a%20b?c=/d") == (200, "/v2/a%20b?c=/d /api None")
        assert asked(port, "GET", "/%61pi?c=/d") == (200, "/v2?c=/d /%61pi None")
        assert asked(port, "GET", "/other") == (200, "/other None None")
        assert asked(port, "GET", "/api/..%2fx") == (400, "Bad Request\n")
        assert asked(port, "GET", "/static/") == (200, "start")
        assert asked(port, "GET", "/static/sub/?x") == (200, "below")
        for path, location in [("/static?x", "./static/?x"), ("/static/sub", "./sub/")]:
            connection = connect(port)
            connection.request("GET", path)
            response = connection.getresponse()
            assert (response.status, response.getheader("Location")) == (301, location)
            connection.close()
        fields = ("X-Forwarded-Prefix: /evil", "X-Forwarded-Port: 1", "Transfer-Encoding: chunked")
        raw = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
        with raw, raw.makefile("rwb") as lines:
            lines.write(b"POST /api/x HTTP/1.1\r\nHost: h\r\nConnection: close\r\n")
            lines.write("".join(field + "\r\n" for field in fields).encode() + b"\r\n0\r\n\r\n")
            lines.flush()
            assert lines.read().endswith(b"\r\n\r\n/v2/x /api None")


def test_routes_to_one_folder_have_fields_of_their_own(tmp_path: Path, start: Start) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "a.js").write_text("code")
    (tmp_path / "site" / "a.txt").write_text("text")
    text = """
    response-field = ["X-Frame-Options: DENY", "X-All: everywhere"]
    [[route]]
    path = "/open/**"
    folder = "site"
    strip-prefix = "/open"
    response-field = ["*.js=Access-Control-Allow-Origin: *", "x-frame-options: SAMEORIGIN"]
    [[route]]
    path = "/**"
    folder = "site"
    """
    port = serve(start, tmp_path, text)

    def fields(path: str) -> tuple[int, str | None, str | None, str | None]:
        connection = connect(port)
        connection.request("GET", path)
        response = connection.getresponse()
        response.read()
        connection.close()
        names = ("Access-Control-Allow-Origin", "X-Frame-Options", "X-All")
        origin, frame, everywhere = map(response.getheader, names)
        return response.status, origin, frame, everywhere

    assert fields("/open/a.js") == (200, "*", "SAMEORIGIN", "everywhere")
    assert fields("/open/a.txt") == (200, None, "SAMEORIGIN", "everywhere")
    assert fields("/open/gone.js") == (404, "*", "SAMEORIGIN", "everywhere")
    assert fields("/a.js") == (200, None, "DENY", "everywhere")


def test_a_path_in_the_url_is_put_before_those_of_requests(start: Start) -> None:
    with Origin("one") as one:
        flags = ["--listen", "127.0.0.1:0", "--workers", "1"]
        served = start(*flags, "--to", f"http://{one.address}/base/", "--strip-prefix", "/a")
        port = int(served.wait_for(r"http://127\.0\.0\.1:([0-9]+)/")[1])
        assert asked(port, "GET", "/a/x?y") == (200, "one /base/x?y")
        assert asked(port, "POST", "/a") == (200, "one /base")
        assert asked(port, "GET", "/x") == (404, "Not Found\n")
        assert asked(port, "GET", "/a/../x") == (400, "Bad Request\n")


def raw(port: int, request: str) -> tuple[str, list[str], str]:
    """Status line, sorted header lines and the rest of a response to these bytes."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
    with connection, connection.makefile("rwb") as lines:
        lines.write(request.encode("latin-1"))
        lines.flush()
        head, _, rest = lines.read().decode("latin-1").partition("\r\n\r\n")
    first, *fields = head.split("\r\n")
    return first, sorted(fields), rest


FIELDS = """
[upstream.one]
servers = ["{0}"]
[[route]]
path = "/t/{{tenant}}/**"
to = "one"
request-field = [
    "X-Client: {{client}}", "X-Asked: {{scheme}}://{{host}}{{target}}", "X-Tenant: {{tenant}}",
    "-X-Secret", "+X-List: 2", "X-None: {{query}}",
]
response-field = ["-X-Internal", "X-Path: {{path}}", "+X-Kept: 2", "Server: here"]
[[route]]
path = "/gone"
to = "gone"
response-field = ["X-Path: {{path}}", "Content-Type: a/b", "Retry-After: 9"]
[upstream.gone]
servers = ["127.0.0.1:1"]
"""


def test_fields_are_set_added_and_removed(tmp_path: Path, start: Start) -> None:
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            wanted = ("x-client", "x-asked", "x-tenant", "x-secret", "x-list", "x-none")
            seen = [
                f"{name}={value}" for name, value in self.headers.items() if name.lower() in wanted
            ]
            body = ";".join(seen).encode()
            trailers = b"X-Internal: 2\r\nX-Path: t\r\nX-End: 3\r\n"
            self.send_response(200)
            for name, value in [("X-Internal", "1"), ("X-Kept", "1"), ("x-path", "0")]:
                self.send_header(name, value)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.wfile.write(b"%x\r\n%s\r\n0\r\n%s\r\n" % (len(body), body, trailers))

        do_POST = do_GET  # noqa: N815 -- the name that http.server calls

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=[0.01], daemon=True).start()
    try:
        port = serve(start, tmp_path, FIELDS.format(f"127.0.0.1:{server.server_address[1]}"))
        fields = "Host: h:8\r\nX-Client: evil\r\nX-Secret: 1\r\nx-list: 1\r\nX-Tenant: evil\r\n"
        end = "Connection: close, TE, X-Client\r\nTE: trailers\r\n"
        for request in [
            f"GET /t/a%0ab/x HTTP/1.1\r\n{fields}{end}\r\n",
            f"POST /t/a%20b/x HTTP/1.1\r\n{fields}{end}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        ]:
            first, got, body = raw(port, request)
            if "%0a" in request:
                assert first == "HTTP/1.1 400 Bad Request"
                continue
            assert first == "HTTP/1.1 200 OK"
            sent = {line.lower() for line in got}
            assert {"x-path: /t/a%20b/x", "x-kept: 1", "x-kept: 2", "server: here"} <= sent
            assert len([line for line in sent if line.startswith(("x-", "server"))]) == 4
            seen = (
                "x-list=1;X-Client=127.0.0.1;X-Asked=http://h:8/t/a%20b/x;X-Tenant=a%20b;X-List=2"
            )
            assert body == f"{len(seen):x}\r\n{seen}\r\n0\r\nX-End: 3\r\n\r\n"
        # A response of the gateway has the fields, too.
        first, got, _ = raw(port, "GET /gone HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
        assert first == "HTTP/1.1 502 Bad Gateway"
        assert "X-Path: /gone" in got
        assert [line for line in got if line.startswith(("Content-Type", "Retry"))] == [
            "Content-Type: text/plain"
        ]
    finally:
        server.shutdown()
        server.server_close()


def test_responses_that_are_made_here_have_fields_by_rules(tmp_path: Path, start: Start) -> None:
    large = "x" * 100_000
    with Origin("a", lambda _: (200, "{}")) as origin:
        port = serve(
            start,
            tmp_path,
            f"""
            [upstream.app]
            servers = ["{origin.address}"]
            [[route]]
            path = "/text/{{name}}"
            fixed = "a text"
            response-field = ["X-Name: {{name}}", "+X-Name: 2", "Content-Type: a/b"]
            [[route]]
            path = "/large"
            fixed = "{large}"
            response-field = ["-Content-Type", "X-Method: {{method}}"]
            [[route]]
            path = "/plain"
            fixed = "a text"
            [[route]]
            path = "/home/{{id}}"
            gather = {{ one = "app:/{{id}}" }}
            response-field = ["Cache-Control: no-store", "X-Id: {{id}}", "-gather-complete"]
            """,
        )

        def got(target: str, method: str = "GET", *lines: str) -> tuple[str, list[str], str]:
            head = "\r\n".join([f"{method} {target} HTTP/1.1", "Host: h", *lines])
            line, fields, body = raw(port, f"{head}\r\nConnection: close\r\n\r\n")
            dropped = ("Date", "Connection", "Server")
            own = [field for field in fields if not field.startswith(dropped)]
            return line.split()[1], own, body

        length = "Content-Length: 6"
        fields = [length, "Content-Type: a/b"]
        assert got("/text/x") == ("200", [*fields, "X-Name: 2", "X-Name: x"], "a text")
        assert got("/text/x", "HEAD") == ("200", [*fields, "X-Name: 2", "X-Name: x"], "")
        assert got("/text/a%20b")[1] == [*fields, "X-Name: 2", "X-Name: a%20b"]
        assert got("/text/a%0d%0ab")[0] == "400"
        long = ["Content-Length: 100000", "X-Method: POST"]
        assert got("/large", "POST") == ("200", long, large)
        assert got("/plain") == ("200", [length, "Content-Type: text/plain"], "a text")
        status, [rule, size, *rest], body = got("/home/7")
        assert (status, rule) == ("200", "Cache-Control: no-store")
        assert size == f"Content-Length: {len(body)}"
        assert rest == ["Content-Type: application/json", "X-Id: 7"]
        assert '"one"' in body
        status, fields, _ = got("/home/7", "GET", "Accept: application/x-ndjson")
        kind = ["Content-Type: application/x-ndjson", "Transfer-Encoding: chunked"]
        assert (status, fields) == ("200", [rule, *kind, "X-Id: 7"])
        # Not for a request that is not accepted.
        assert "X-Id: 7" not in got("/home/7", "POST")[1]


def test_rules_for_fields_are_flags_for_one_server(start: Start) -> None:
    def answer(request: http.server.BaseHTTPRequestHandler) -> tuple[int, str]:
        return 200, f"{request.headers['X-Client']} {request.headers['X-Secret']}"

    with Origin("one", answer) as one:
        flags = ["--listen", "127.0.0.1:0", "--workers", "1", "--to", f"http://{one.address}"]
        rules = ["--request-field", "X-Client: {client}", "--request-field", "-X-Secret"]
        served = start(
            *flags, *rules, "--response-field", "-Server", "--response-field", "A: {path}"
        )
        port = int(served.wait_for(r"http://127\.0\.0\.1:([0-9]+)/")[1])
        request = "GET /x?y HTTP/1.1\r\nHost: h\r\nX-Secret: 1\r\nConnection: close\r\n\r\n"
        first, fields, body = raw(port, request)
        assert (first, body) == ("HTTP/1.1 200 OK", "127.0.0.1 None")
        assert "A: /x" in fields
        assert not [line for line in fields if line.lower().startswith("server")]


@pytest.mark.parametrize("target", ["/a/%2e%2e/b", "/%01", "/a;b//c?d={host}", "/x#y"])
def test_rules_for_fields_change_no_path(start: Start, target: str) -> None:
    def answer(request: http.server.BaseHTTPRequestHandler) -> tuple[int, str]:
        return 200, f"{request.path} {request.headers.get('X-Host')}"

    results = []
    with Origin("one", answer) as one:
        for rules in ([], ["--request-field", "X-Host: {host}"]):
            flags = ["--listen", "127.0.0.1:0", "--workers", "1", "--to", f"http://{one.address}"]
            served = start(*flags, *rules)
            port = int(served.wait_for(r"http://127\.0\.0\.1:([0-9]+)/")[1])
            request = f"GET {target} HTTP/1.1\r\nHost: h:8\r\nConnection: close\r\n\r\n"
            status, _, body = raw(port, request)
            results.append((status, body.replace(" h:8", " None")))
    assert results[0] == results[1]


def test_requests_are_redirected(tmp_path: Path, start: Start) -> None:
    text = """
    trusted-proxies = "127.0.0.1"
    [[route]]
    path = "/old/{id}"
    redirect = "/new/{id}"
    redirect-status = 301
    response-field = ["Cache-Control: max-age=60"]
    [[route]]
    path = "/same/**"
    redirect = "{path}/"
    [[route]]
    scheme = "https"
    path = "/**"
    fixed = "secure"
    [[route]]
    path = "/**"
    redirect = "https://{hostname}{target}"
    """
    port = serve(start, tmp_path, text)

    def redirected(target: str, host: str = "h:80", field: str = "A: b") -> tuple[str, list[str]]:
        head = f"GET {target} HTTP/1.1\r\nHost: {host}\r\n{field}\r\nConnection: close\r\n\r\n"
        first, fields, _ = raw(port, head)
        wanted = ("Location", "Cache-Control")
        return first.split(" ")[1], [line for line in fields if line.startswith(wanted)]

    permanent = ["Cache-Control: max-age=60", "Location: /new/a%20b"]
    assert redirected("/old/a%20b?x") == ("301", permanent)
    assert redirected("/a?b=c") == ("308", ["Location: https://h/a?b=c"])
    assert redirected("/a", field="X-Forwarded-Proto: https") == ("200", [])
    assert redirected("/old/\\evil.example") == ("400", [])
    assert redirected("/a", "user@evil.example") == ("400", [])
    assert redirected("//evil.example/x") == ("308", ["Location: https://h//evil.example/x"])


def test_all_requests_are_redirected_by_a_flag(start: Start) -> None:
    flags = ["--listen", "127.0.0.1:0", "--workers", "1", "--response-field", "A: {path}"]
    served = start(*flags, "--redirect", "301=https://www.example.org{target}")
    port = int(served.wait_for(r"http://127\.0\.0\.1:([0-9]+)/")[1])
    first, fields, _ = raw(port, "GET /a?b=c HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
    assert first == "HTTP/1.1 301 Moved Permanently"
    assert {"A: /a", "Location: https://www.example.org/a?b=c"} <= set(fields)
