"""Static files next to an application."""

import http.client
import socket
import subprocess
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.apps.conftest import port_of, serve
from tests.serving.server_process import COMMAND, Served

WSGI = """
def app(environ, start_response):
    start_response("200 OK", [("X-App", "yes")])
    return [environ["PATH_INFO"].encode("latin-1"), environ["wsgi.input"].read()]
"""

ASGI = """
async def app(scope, receive, send):
    if scope["type"] != "http":
        raise NotImplementedError
    body = (await receive())["body"] if scope["method"] == "POST" else b""
    start = {"type": "http.response.start", "status": 200, "headers": [(b"x-app", b"yes")]}
    await send(start)
    await send({"type": "http.response.body", "body": scope["path"].encode() + body})
"""

KINDS = [(WSGI, []), (WSGI, ["--threads", "2"]), (ASGI, [])]


@pytest.fixture(scope="module", params=KINDS, ids=["wsgi", "threads", "asgi"])
def port(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    source, arguments = request.param
    folder = tmp_path_factory.mktemp("static")
    (folder / "there.py").write_text(source)
    (folder / "secret").write_text("secret")
    for name in ("public", "deep", "public/sub"):
        (folder / name).mkdir()
    (folder / "public" / "a.txt").write_text("0123456789")
    (folder / "public" / "sub" / "index.html").write_text("index")
    (folder / "public" / "deep").mkdir()
    (folder / "public" / "deep" / "b.txt").write_text("not this one")
    (folder / "deep" / "b.txt").write_text("deep")
    (folder / "public" / "link").symlink_to(folder / "secret")
    mounts = [f"/static={folder}/public", f"/static/deep={folder}/deep"]
    mounts = [word for mount in mounts for word in ("--static", mount)]
    served = serve("there:app", *arguments, *mounts, directory=folder)
    try:
        yield port_of(served)
    finally:
        served.end()


def ask(
    port: int, path: str, method: str = "GET", body: str | None = None, **headers: str
) -> tuple[int, http.client.HTTPMessage, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=25)
    try:
        connection.request(method, path, body, {k.replace("_", "-"): v for k, v in headers.items()})
        response = connection.getresponse()
        return response.status, response.headers, response.read()
    finally:
        connection.close()


def test_files_are_served_as_by_the_server_of_files(port: int) -> None:
    status, fields, body = ask(port, "/static/a.txt?x=y")
    assert (status, body, fields["Content-Type"]) == (
        200,
        b"0123456789",
        "text/plain; charset=utf-8",
    )
    assert "X-App" not in fields
    assert ask(port, "/static/a.txt", If_None_Match=fields["ETag"])[0] == 304
    status, _, body = ask(port, "/static/a.txt", Range="bytes=2-3")
    assert (status, body) == (206, b"23")
    status, fields, body = ask(port, "/static/a.txt", "HEAD")
    assert (status, fields["Content-Length"], body) == (200, "10", b"")


def test_a_redirection_stays_below_the_prefix(port: int) -> None:
    status, fields, _ = ask(port, "/static/sub?x=y")
    location = urllib.parse.urljoin("/static/sub?x=y", fields["Location"])
    assert (status, location) == (301, "/static/sub/?x=y")
    assert ask(port, "/static/sub/")[2] == b"index"


def test_the_longest_prefix_applies(port: int) -> None:
    assert ask(port, "/static/deep/b.txt")[2] == b"deep"


def test_a_file_that_is_not_there_is_not_the_applications(port: int) -> None:
    status, fields, _ = ask(port, "/static/nothing")
    assert (status, fields["X-App"]) == (404, None)
    status, fields, _ = ask(port, "/static/a.txt", "POST", "a body")
    assert (status, fields["X-App"], fields["Allow"]) == (405, None, "GET, HEAD, OPTIONS")


@pytest.mark.parametrize("path", ["/", "/static", "/staticfiles/a.txt", "/x/static/a.txt"])
def test_other_paths_are_the_applications(port: int, path: str) -> None:
    assert ask(port, path)[2] == path.encode()
    assert ask(port, path, "POST", "body")[2] == path.encode() + b"body"


def test_no_path_leaves_the_directory(port: int) -> None:
    paths = ["/static/../secret", "/static/%2e%2e/secret", "/static/..%2fsecret", "/static/link"]
    paths += ["/static//../../secret", "/static/sub/../../secret", "/static/a.txt%00"]
    for path in paths:
        status, _, body = ask(port, path)
        assert (status, b"secret" in body) == (404, False), path


def test_both_answer_on_one_connection(port: int) -> None:
    requests = b"".join(
        b"GET %s HTTP/1.1\r\nHost: a\r\n\r\n" % path
        for path in (b"/one", b"/static/a.txt", b"/two", b"/static/no", b"/three")
    )
    with socket.create_connection(("127.0.0.1", port), timeout=25) as connection:
        connection.sendall(requests.replace(b"/three HTTP/1.1", b"/three HTTP/1.0"))
        seen = connection.makefile("rb").read()
    places = [seen.index(body) for body in (b"/one", b"0123456789", b"/two", b" 404 ", b"/three")]
    assert places == sorted(places)


def test_a_configuration_names_directories_beside_it(tmp_path: Path) -> None:
    (tmp_path / "there.py").write_text(WSGI)
    (tmp_path / "public").mkdir()
    (tmp_path / "public" / "a.txt").write_text("a file")
    config = tmp_path / "serve.toml"
    config.write_text(
        'app = "there:app"\napp-dir = "."\nlisten = "127.0.0.1:0"\nstatic = ["/static=public"]\n'
    )
    command = [*COMMAND, "--config", str(config)]
    pipe = subprocess.PIPE
    served = Served(subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True))
    try:
        assert ask(port_of(served), "/static/a.txt")[2] == b"a file"
    finally:
        served.end()


def test_routes_name_directories_themselves(tmp_path: Path) -> None:
    config = tmp_path / "serve.toml"
    config.write_text('static = ["/a=."]\n[[route]]\npath = "/**"\nfixed = "x"\n')
    command = [*COMMAND, "--config", str(config)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=25, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--static cannot be used with [[route]]" in done.stderr
