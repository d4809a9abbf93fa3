"""`jissoku.run` and `jissoku.serve_in_thread`, with Django and Flask."""

import asyncio
import http.client
import signal
import subprocess
import sys
import textwrap
import urllib.request
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

import jissoku
from tests.apps.conftest import port_of
from tests.serving.server_process import PATIENCE_S, Served, ask


def hello(environ: dict[str, Any], start_response: Callable[..., object]) -> Iterable[bytes]:
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"hello ", environ["wsgi.input"].read()]


def get(url: str, body: bytes | None = None) -> bytes:
    with urllib.request.urlopen(url, body, timeout=PATIENCE_S) as response:  # noqa: S310 - loopback
        read: bytes = response.read()
        return read


def test_an_application_is_served_in_a_thread() -> None:
    with jissoku.serve_in_thread(hello) as live:
        assert live.url == f"http://127.0.0.1:{live.port}"
        assert get(live.url) == b"hello "
        assert get(live.url, b"you") == b"hello you"
        with jissoku.serve_in_thread(hello) as other:
            assert get(other.url, b"x") == b"hello x"
        kept = http.client.HTTPConnection(live.host, live.port, timeout=PATIENCE_S)
        kept.request("GET", "/")
        assert kept.getresponse().read() == b"hello "
    # The idle connection did not delay the end, and nothing listens any more.
    kept.close()
    with pytest.raises(OSError, match="refused"):
        get(live.url)


def test_native_commands_start_without_what_serving_from_code_needs() -> None:
    shown = "import sys, jissoku; print(*{'dataclasses', 'jissoku.serving'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", shown], capture_output=True, check=True)
    assert done.stdout == b"\n"


def test_the_package_has_only_what_it_names() -> None:
    with pytest.raises(AttributeError, match="'jissoku' has no attribute 'missing'"):
        jissoku.missing  # type: ignore[attr-defined]  # noqa: B018 - the access is what is tested


async def hello_asgi(
    scope: dict[str, Any], receive: Callable[[], Any], send: Callable[[dict[str, Any]], Any]
) -> None:
    if scope["type"] == "lifespan":
        await receive()
        scope["state"]["word"] = b"hello "
        await send({"type": "lifespan.startup.complete"})
        await receive()
        ended.append(True)
        await send({"type": "lifespan.shutdown.complete"})
        return
    # A task of asyncio, and a timer.
    message = await asyncio.create_task(receive())
    await asyncio.sleep(0.001)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": scope["state"]["word"] + message["body"]})


ended: list[bool] = []


def test_asgi_is_served_in_a_thread() -> None:
    async def ask_two() -> list[bytes]:
        # This thread has an event loop of its own.
        urls = [live.url, other.url]
        return await asyncio.gather(*(asyncio.to_thread(get, url, b"you") for url in urls))

    with jissoku.serve_in_thread(hello_asgi) as live, jissoku.serve_in_thread(hello_asgi) as other:
        assert get(live.url) == b"hello "
        assert asyncio.run(ask_two()) == [b"hello you"] * 2
    assert ended == [True, True]


def test_what_cannot_be_served_in_a_thread_is_an_exception() -> None:
    with pytest.raises(TypeError, match="not callable: it is of type int"):
        jissoku.serve_in_thread(5).__enter__()  # type: ignore[arg-type]
    with jissoku.serve_in_thread(hello) as live:
        taken = jissoku.serve_in_thread(hello, listen=f"127.0.0.1:{live.port}")
        with pytest.raises(OSError, match="already in use"):
            taken.__enter__()

    async def without_a_database(_: object, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "lifespan.startup.failed", "message": "no database"})

    with pytest.raises(OSError, match="startup has failed: no database"):
        jissoku.serve_in_thread(without_a_database).__enter__()


def test_flask_is_served_in_a_thread() -> None:
    flask = pytest.importorskip("flask")
    app = flask.Flask("tested")
    app.add_url_rule("/double/<int:number>", "double", lambda number: {"double": 2 * number})
    with jissoku.serve_in_thread(app) as live:
        assert get(f"{live.url}/double/21") == b'{"double":42}\n'


DJANGO = """
import django
from django.conf import settings
settings.configure(
    ROOT_URLCONF=__name__, SECRET_KEY="x",
    STATIC_URL="/static/", STATICFILES_DIRS=[{static!r}],
    INSTALLED_APPS=[
        "django.contrib.contenttypes", "django.contrib.auth", "django.contrib.staticfiles",
    ],
    DATABASES={{"default": {{"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}}},
)
django.setup()

import urllib.request
from django.contrib.auth.models import User
from django.http import HttpResponse
from django.urls import path

def names(request):
    server = request.META["SERVER_SOFTWARE"]
    return HttpResponse(server + " " + ",".join(user.username for user in User.objects.all()))

urlpatterns = [path("names", names)]

{documented}

class LiveTest(LiveTestCase):
    def ask(self, path):
        with urllib.request.urlopen(self.live_server_url + path, timeout=60) as response:
            return response.read()

    def test_a_page_sees_the_database_of_the_test(self):
        User.objects.create_user("ann")
        self.assertRegex(self.ask("/names"), b"^jissoku.* ann$")

    def test_static_files_are_served(self):
        self.assertEqual(self.ask("/static/page.css"), b"a {{ color: red }}")

if __name__ == "__main__":
    import sys
    from django.test.runner import DiscoverRunner
    runner = DiscoverRunner(verbosity=0)
    sys.exit(runner.run_tests(["__main__"]))
"""

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "django_live.py"


@pytest.mark.slow
def test_django_is_served_in_a_thread(tmp_path: Path) -> None:
    pytest.importorskip("django")
    (tmp_path / "static").mkdir()
    (tmp_path / "static" / "page.css").write_text("a { color: red }")
    (tmp_path / "tested.py").write_text(
        DJANGO.format(static=str(tmp_path / "static"), documented=EXAMPLE.read_text())
    )
    command = [sys.executable, str(tmp_path / "tested.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr
    assert "Ran 2 tests" in done.stderr


def test_options_are_flags_with_underscores(tmp_path: Path) -> None:
    (tmp_path / "there.py").write_text(
        "def app(environ, start_response):\n"
        "    start_response('200 OK', [])\n"
        "    return [b'%d %d' % (environ['wsgi.multithread'], environ['wsgi.multiprocess'])]\n"
    )
    source = textwrap.dedent("""
        import jissoku
        listen = ["127.0.0.1:0", "unix:there.sock"]
        jissoku.run("there:app", listen=listen, threads=2, workers=2, factory=False, user=None)
    """)
    (tmp_path / "program.py").write_text(source)
    pipe = subprocess.PIPE
    command = [sys.executable, "program.py"]
    served = Served(subprocess.Popen(command, cwd=tmp_path, stdout=pipe, stderr=pipe, text=True))
    try:
        assert ask(port_of(served)) == (200, b"1 1")
        assert ask(tmp_path / "there.sock") == (200, b"1 1")
    finally:
        served.end()


PROGRAM = """
import os, sys
import jissoku

VERSION = {version!r}

def app(environ, start_response):
    start_response("200 OK", [])
    return [f"{{VERSION}} {{os.getpid()}}".encode()]

if __name__ == "__main__":
    jissoku.run(app, listen="127.0.0.1:0", **{options})
"""


def start(source: Path, version: str, options: str) -> Served:
    source.write_text(PROGRAM.format(version=version, options=options))
    process = subprocess.Popen(
        [sys.executable, str(source)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    return Served(process)


def test_an_object_is_served_by_its_process_and_reloaded(tmp_path: Path) -> None:
    source = tmp_path / "program.py"
    served = start(source, "one", "{}")
    try:
        port = port_of(served)
        assert ask(port)[1].decode().split() == ["one", str(served.process.pid)]
        source.write_text(PROGRAM.format(version="two", options="{}"))
        served.send_signal(signal.SIGHUP)
        served.successors.append(int(served.wait_for("^process ([0-9]+) serves")[1]))
        assert ask(port)[1].decode().split() == ["two", str(served.successors[-1])]
        served.send_signal(signal.SIGTERM)
        assert served.process.wait(PATIENCE_S) == 0
    finally:
        served.end()


def test_an_object_is_served_by_several_processes(tmp_path: Path) -> None:
    served = start(tmp_path / "program.py", "one", '{"workers": 2}')
    try:
        version, pid = ask(port_of(served))[1].decode().split()
        assert version == "one"
        assert pid != str(served.process.pid)
        served.send_signal(signal.SIGTERM)
        assert served.process.wait(PATIENCE_S) == 0
    finally:
        served.end()


def test_an_invalid_option_is_one_sentence(tmp_path: Path) -> None:
    source = textwrap.dedent("""
        import jissoku
        jissoku.run("nowhere:app", no_such_option=3)
    """)
    (tmp_path / "program.py").write_text(source)
    command = [sys.executable, str(tmp_path / "program.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "--no-such-option" in done.stderr
