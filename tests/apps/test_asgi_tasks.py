"""Tasks and contexts of requests as asyncio has them, also with libraries that change the loop."""

import http.client
import json
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.apps.conftest import port_of, serve
from tests.serving.server_process import PATIENCE_S, Served, ask

CLIENTS = 8

# Each application responds with what `visit` returns for the number in the path: it sets a variable
# of the context, which has to be that of no other request, and changes tasks meanwhile.
VISIT = """
import asyncio, contextvars
variable = contextvars.ContextVar("variable", default="unset")
tasks = set()

async def visit(number):
    task = asyncio.current_task()
    assert task not in tasks
    tasks.add(task)
    before = variable.get()
    variable.set(number)
    for _ in range(int(number) % 4):
        await asyncio.sleep(0)
        assert variable.get() == number
    assert await asyncio.create_task(child()) == number
    assert await asyncio.to_thread(variable.get) == number
    assert variable.get() == number and asyncio.current_task() is task
    tasks.discard(task)
    return f"{before} {number}"

async def child():
    seen = variable.get()
    variable.set("set by a child")
    return seen
"""

PLAIN = """
async def respond(scope, receive, send):
    body = (await visit(scope["path"].removeprefix("/"))).encode()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})
"""

APPS = {
    "plain": f"""{PLAIN}
async def app(scope, receive, send):
    assert scope["type"] == "http"
    await respond(scope, receive, send)
""",
    # What it sets belongs to the request, although it is no coroutine function.
    "function": f"""{PLAIN}
other = contextvars.ContextVar("other", default="unset")

class Middleware:
    def __call__(self, scope, receive, send):
        assert scope["type"] == "http"
        assert other.get() == "unset"
        other.set(scope["path"])
        return respond(scope, receive, send)
app = Middleware()
""",
    "starlette": """
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.responses import PlainTextResponse
from starlette.routing import Route

async def page(request):
    return PlainTextResponse(await visit(request.path_params["number"]))

async def dispatch(request, call_next):
    return await call_next(request)

app = Starlette(routes=[Route("/{number}", page)],
                middleware=[Middleware(BaseHTTPMiddleware, dispatch=dispatch)])
""",
    "fastapi": """
from fastapi import Depends, FastAPI
from fastapi.responses import PlainTextResponse
app = FastAPI()

async def visited(number: str):
    yield await visit(number)

@app.get("/{number}", response_class=PlainTextResponse)
async def page(number: str, text: str = Depends(visited)):
    return text
""",
    "quart": """
from quart import Quart
app = Quart(__name__)

@app.get("/<number>")
async def page(number):
    return await visit(number)
""",
    "litestar": """
from litestar import Litestar, MediaType, get

@get("/{number:str}", media_type=MediaType.TEXT)
async def page(number: str) -> str:
    return await visit(number)

app = Litestar([page])
""",
    "falcon": """
import falcon, falcon.asgi

class Page:
    async def on_get(self, request, response, number):
        response.text = await visit(number)

app = falcon.asgi.App()
app.add_route("/{number}", Page())
""",
}


@contextmanager
def serving(source: str, directory: Path, *options: str) -> Iterator[tuple[Served, int]]:
    """A server of the application `app` of a source, and its port."""
    (directory / "there.py").write_text(source)
    served = serve("there:app", "--asgi", *options, directory=directory)
    try:
        yield served, port_of(served)
    finally:
        served.end()


def visit_often(port: int, first: int, count: int, wrong: list[str]) -> None:
    """Sends requests with numbers of their own over one connection, in a random order."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    numbers = list(range(first, first + count))
    random.Random(first).shuffle(numbers)
    for number in numbers:
        connection.request("GET", f"/{number}")
        body = connection.getresponse().read().decode()
        if body != f"unset {number}":
            wrong.append(f"{number}: {body}")
    connection.close()


@pytest.mark.slow
@pytest.mark.parametrize("name", APPS)
def test_contexts_of_requests_do_not_meet(name: str, tmp_path: Path) -> None:
    if name not in {"plain", "function"}:
        pytest.importorskip(name)
    wrong: list[str] = []
    with serving(VISIT + APPS[name], tmp_path) as (_, port):
        clients = [
            threading.Thread(target=visit_often, args=(port, 1000 * index, 50, wrong))
            for index in range(CLIENTS)
        ]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
    assert not wrong


FACTORY = """
import asyncio
made = []

class Task(asyncio.Task):
    pass

def factory(loop, coroutine, **options):
    task = Task(coroutine, loop=loop, **options)
    made.append(task)
    return task

async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        await receive()
        asyncio.get_running_loop().set_task_factory(factory)
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await send({"type": "lifespan.shutdown.complete"})
        return
    task = asyncio.current_task()
    await asyncio.sleep(0)
    if scope["path"] == "/raise":
        raise ValueError("raised by a request")
    if scope["path"] == "/off":
        asyncio.get_running_loop().set_task_factory(None)
    body = f"{type(task).__name__} {task in made}".encode()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})
"""


def test_a_task_factory_makes_the_tasks_of_requests(tmp_path: Path) -> None:
    with serving(FACTORY, tmp_path) as (served, port):
        assert ask(port) == (200, b"Task True")
        assert ask(port, "/raise")[0] == 500
        served.wait_for("^ValueError: raised by a request$")
        assert ask(port, "/off") == (200, b"Task True")
        assert ask(port) == (200, b"Task False")


WITH_NEST = """
import asyncio, nest_asyncio
nest_asyncio.apply()

async def inner(value):
    await asyncio.sleep(0.001)
    return value

async def app(scope, receive, send):
    assert scope["type"] == "http"
    if scope["path"] == "/late":
        await asyncio.sleep(0)
    loop = asyncio.get_event_loop()
    body = loop.run_until_complete(inner(b"in")) + asyncio.run(inner(b"side"))
    message = await receive()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body + message["body"]})
"""


@pytest.mark.parametrize("path", ["/", "/late"])
def test_a_loop_runs_inside_of_itself_with_nest_asyncio(path: str, tmp_path: Path) -> None:
    pytest.importorskip("nest_asyncio")
    with serving(WITH_NEST, tmp_path) as (_, port):
        for _ in range(3):
            assert ask(port, path) == (200, b"inside")


NESTED = """
import asyncio

async def inner(value):
    await asyncio.sleep(0.001)
    return value

def run_inside(loop, coroutine):
    # What nest_asyncio does: iterations of the loop within a task.
    task = asyncio.ensure_future(coroutine)
    current = asyncio.current_task()
    while not task.done():
        asyncio.tasks._leave_task(loop, current)
        try:
            loop._run_once()
        finally:
            asyncio.tasks._enter_task(loop, current)
    return task.result()

async def app(scope, receive, send):
    assert scope["type"] == "http"
    if scope["path"] == "/late":
        await asyncio.sleep(0)
    body = run_inside(asyncio.get_running_loop(), inner(b"inside"))
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})
"""


@pytest.mark.parametrize("path", ["/", "/late"])
def test_iterations_of_the_loop_may_be_nested(path: str, tmp_path: Path) -> None:
    with serving(NESTED, tmp_path) as (_, port):
        for _ in range(3):
            assert ask(port, path) == (200, b"inside")


# The policy of another loop, as uvloop.install() sets it.
POLICY = """
import asyncio, sys

class Policy(asyncio.DefaultEventLoopPolicy):
    def get_child_watcher(self):
        raise NotImplementedError

asyncio.set_event_loop_policy(Policy())
"""

PROCESS = """
import asyncio, sys

async def app(scope, receive, send):
    assert scope["type"] == "http"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", "print('child')", stdout=asyncio.subprocess.PIPE)
    body, _ = await process.communicate()
    assert process.returncode == 0
    shell = await asyncio.create_subprocess_shell("exit 3")
    body += str(await shell.wait()).encode()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})
"""


@pytest.mark.parametrize("policy", ["", POLICY, "import uvloop; uvloop.install()"])
def test_processes_can_be_started(policy: str, tmp_path: Path) -> None:
    if "uvloop" in policy:
        pytest.importorskip("uvloop")
    with serving(policy + PROCESS, tmp_path) as (_, port):
        assert ask(port) == (200, b"child\n3")
        assert ask(port) == (200, b"child\n3")


GROWTH = """
import asyncio, gc, json

def count():
    gc.collect()
    return sum(isinstance(it, asyncio.Future) for it in gc.get_objects())

async def poll(receive):
    # As a framework asks whether the client is still there.
    task = asyncio.ensure_future(receive())
    await asyncio.sleep(0)
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        return
    raise AssertionError("there was a message")

async def app(scope, receive, send):
    kind = scope["type"]
    assert kind in {"http", "websocket"}
    await receive()
    before = count()
    for _ in range(1000):
        await poll(receive)
        coroutine = receive()
        coroutine.send(None)
        coroutine.close()
        dropped = receive()
        dropped.send(None)
        del dropped
    body = str(count() - before)
    if kind == "websocket":
        await send({"type": "websocket.accept", "headers": [(b"x-growth", body.encode())]})
        await send({"type": "websocket.close"})
        return
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body.encode()})
"""


def test_asking_often_for_a_message_takes_no_memory(tmp_path: Path) -> None:
    with serving(GROWTH, tmp_path) as (_, port):
        assert int(ask(port)[1]) < 10
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
        connection.request("GET", "/", headers={
            "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
        })  # fmt: skip
        response = connection.getresponse()
        assert response.status == 101
        assert int(response.headers["X-Growth"]) < 10
        connection.close()


LEAVING = """
import asyncio, json
from starlette.applications import Starlette
from starlette.responses import JSONResponse, StreamingResponse
from starlette.routing import Route
alive = set()
ended = []

async def events(number):
    alive.add(number)
    try:
        yield b"data: first\\n\\n"
        await asyncio.Event().wait()
    finally:
        alive.discard(number)
        ended.append(number)

async def stream(request):
    return StreamingResponse(events(request.path_params["number"]))

async def count(request):
    return JSONResponse([len(alive), len(ended)])

app = Starlette(routes=[Route("/alive", count), Route("/{number}", stream)])
"""


@pytest.mark.slow
def test_generators_end_when_their_clients_leave(tmp_path: Path) -> None:
    pytest.importorskip("starlette")
    with serving(LEAVING, tmp_path) as (_, port):
        for number in range(CLIENTS):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
            connection.request("GET", f"/{number}")
            response = connection.getresponse()
            assert response.read(13) == b"data: first\n\n"
            response.close()
            connection.close()
        while (counts := json.loads(ask(port, "/alive")[1])) != [0, CLIENTS]:
            assert counts[0] + counts[1] == CLIENTS


SENDING = """
import itertools
notes = []

async def app(scope, receive, send):
    assert scope["type"] == "http"
    if scope["path"] == "/notes":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": " ".join(notes).encode()})
        return
    await receive()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    while (await receive())["type"] != "http.disconnect":
        pass
    try:
        # It never waits for anything else.
        for _ in itertools.repeat(None) if scope["path"] == "/endless" else range(1000):
            await send({"type": "http.response.body", "body": b"x", "more_body": True})
    except OSError as error:
        notes.append(type(error).__name__)
        raise
    notes.append("sent")
"""


@pytest.mark.parametrize(("path", "options", "note"), [
    ("/", (), "sent"),
    ("/", ("--asgi-spec-version", "2.3"), "sent"),
    ("/", ("--asgi-spec-version", "2.4"), "ClientDisconnected"),
    # It would go on for ever.
    ("/endless", (), "ClientDisconnected"),
])  # fmt: skip
def test_the_version_says_whether_sending_after_a_disconnect_is_an_error(
    path: str, options: tuple[str, ...], note: str, tmp_path: Path
) -> None:
    with serving(SENDING, tmp_path, *options) as (served, port):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
        connection.request("GET", path)
        connection.close()
        while not (noted := ask(port, "/notes")[1].decode()):
            pass
        assert noted == note
        # An exception that follows from the disconnect is not reported.
        assert not any("error in the application" in line for line in served.lines.queue)


OFFERS = """
async def app(scope, receive, send):
    assert scope["type"] == "http"
    body = f"{scope['asgi']['spec_version']} {' '.join(scope['extensions'])}".encode()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})
"""


@pytest.mark.parametrize(("options", "offered"), [
    ((), b"2.3 http.response.early_hint"),
    (("--asgi-path-send", "--asgi-spec-version", "2.4"),
     b"2.4 http.response.pathsend http.response.early_hint"),
])  # fmt: skip
def test_what_is_offered_is_an_option(
    options: tuple[str, ...], offered: bytes, tmp_path: Path
) -> None:
    with serving(OFFERS, tmp_path, *options) as (_, port):
        assert ask(port) == (200, offered)
