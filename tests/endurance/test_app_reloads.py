"""Two hundred reloads of an application under load lose nothing; the longest wait is printed."""

import itertools
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.endurance.conftest import loading, print_line
from tests.nginx import NGINX, running_nginx
from tests.serving.server_process import Served, spawn

pytestmark = pytest.mark.endurance

# Time of one reload, with the start of up to three workers, of which the first goes ahead.
RELOAD_S = 4.5

# Requests per second of each of 16 kinds of clients: a busy server, and a machine that is not full.
RATE = 25

WSGI = """
import time
time.sleep(1.5)
def app(environ, start_response):
    environ["wsgi.input"].read()
    start_response("200 OK", [])
    return [b"here"]
"""

ASGI = """
import time
time.sleep(1.5)
async def app(scope, receive, send):
    if scope["type"] != "http":
        raise RuntimeError
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"here"})
"""

APPS = {"wsgi": (WSGI, ""), "threads": (WSGI, "threads = 3\n"), "asgi": (ASGI, "")}

NGINX_HTTP = """
    keepalive_requests 1000000;
    upstream app {{ server unix:{folder}/app.sock; keepalive 16; keepalive_requests 1000000; }}
    server {{
        listen unix:{folder}/http.sock;
        location / {{
            proxy_pass http://app;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_set_header Host $host;
        }}
    }}
    server {{
        listen unix:{folder}/uwsgi.sock;
        location / {{
            uwsgi_pass unix:{folder}/app-uwsgi.sock;
            include /etc/nginx/uwsgi_params;
        }}
    }}
"""


@contextmanager
def nginx_before(folder: Path) -> Iterator[list[str]]:
    """Starts nginx in front of the application, and gives its two places; none without nginx."""
    if NGINX is None:
        yield []
        return
    places = [folder / "http.sock", folder / "uwsgi.sock"]
    with running_nginx(folder, NGINX_HTTP.format(folder=folder), *places):
        yield [f"unix:{place}:/" for place in places]


@contextmanager
def serving_app(app: str, folder: Path) -> Iterator[tuple[Served, str]]:
    """Starts a server of the application, and gives the URL of its port."""
    (folder / "there.py").write_text(APPS[app][0])
    configure(app, folder, 2)
    served = spawn("--config", str(folder / "serve.toml"))
    try:
        url = served.wait_for(r"^listening on (http://127\.0\.0\.1:\d+/)$")[1]
        served.wait_for("^listening on unix:.*app-uwsgi.sock$")
        yield served, url
    finally:
        served.end()


def configure(app: str, folder: Path, workers: int) -> None:
    listen = ["127.0.0.1:0", f"unix:{folder}/app.sock", f"unix:{folder}/app-uwsgi.sock,uwsgi"]
    (folder / "serve.toml").write_text(
        f'app = "there:app"\napp-dir = "."\nworkers = {workers}\n{APPS[app][1]}listen = {listen}\n'
    )


@pytest.mark.timeout(4000)
@pytest.mark.parametrize("app", APPS)
def test_nothing_is_lost_in_two_hundred_reloads(
    app: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    count = int(request.config.getoption("--reloads"))
    common = ["-c", "4", "-R", str(RATE), "-d", f"{count * RELOAD_S}s", "--idle", "block"]
    kinds = {
        f"{method}, {'keep-alive' if keeps else 'one request per connection'}": [
            *common,
            *(["-m", "POST", "-b", "x" * 1000] if method == "POST" else []),
            *([] if keeps else ["--no-keepalive"]),
        ]
        for method, keeps in itertools.product(["GET", "POST"], [True, False])
    }
    with (
        serving_app(app, tmp_path) as (served, url),
        nginx_before(tmp_path) as nginx,
        ExitStack() as stack,
    ):
        places = [url, f"unix:{tmp_path}/app.sock:/", *nginx]
        loads = {
            kind: stack.enter_context(loading(*words, *places)) for kind, words in kinds.items()
        }
        reloads = 0
        while reloads < count and all(load.process.poll() is None for load in loads.values()):
            configure(app, tmp_path, 1 + reloads % 3)
            served.reload()
            reloads += 1
        stalls: list[int] = []
        lost: list[str] = []
        for kind, load in loads.items():
            for place, seen in zip(places, load.report()["targets"], strict=True):
                stalls.append(seen["latency_ns"]["max"])
                lost += [f"{kind}, {place}: {seen['errors']}"] * any(seen["errors"].values())
                print_line(
                    request,
                    f"{app}, {kind}, {place.replace(str(tmp_path), '')}: {seen['requests']:,} "
                    f"requests, longest latency {stalls[-1] / 1e6:.1f} ms, {seen['errors']}",
                )
    print_line(request, f"{app}: {reloads} reloads, longest stall {max(stalls) / 1e6:.1f} ms")
    if NGINX is None:
        print_line(request, "SKIPPED: through nginx, which is not installed")
    assert lost == []
    assert reloads == count
