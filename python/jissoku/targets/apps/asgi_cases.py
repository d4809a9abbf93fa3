"""An ASGI application with a behaviour for each conformance case, chosen by the field `Case`.

The cases are in jissoku/conformance/apps/asgi.toml. Nothing here is clever: what a server makes of
it is what the cases are about.
"""

import asyncio
import contextvars
import json
from collections.abc import Awaitable, Callable
from typing import Any

Scope = dict[str, Any]
Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

TEXT = (b"content-type", b"text/plain")
CASES: dict[str, Application] = {}
notes: list[str] = []
background_may_end = asyncio.Event()
variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")


def case(function: Application) -> Application:
    CASES[function.__name__] = function
    return function


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "lifespan":
        await live(scope, receive, send)
        return
    await CASES[dict(scope["headers"])[b"case"].decode()](scope, receive, send)


async def live(scope: Scope, receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            # A server without it is one of an earlier version of the specification.
            scope.get("state", {})["started"] = "yes"
            await send({"type": "lifespan.startup.complete"})
        else:
            await send({"type": "lifespan.shutdown.complete"})
            return


@case
async def websocket(scope: Scope, receive: Receive, send: Send) -> None:
    """Sends every message back."""
    await receive()
    await send({"type": "websocket.accept"})
    while (message := await receive())["type"] == "websocket.receive":
        # A server may add the other kind, as None.
        kind = "text" if message.get("text") is not None else "bytes"
        await send({"type": "websocket.send", kind: message[kind]})


async def start(send: Send, *headers: tuple[bytes, bytes], status: int = 200) -> None:
    message = {"type": "http.response.start", "status": status, "headers": list(headers)}
    await send(message)


async def body(send: Send, part: bytes, *, more: bool = False) -> None:
    await send({"type": "http.response.body", "body": part, "more_body": more})


async def read(receive: Receive) -> bytes:
    whole = b""
    part: bytes
    while True:
        message = await receive()
        assert message["type"] == "http.request", message
        part = message["body"]
        whole += part
        if not message["more_body"]:
            return whole


@case
async def hello(scope: Scope, receive: Receive, send: Send) -> None:
    await start(send, TEXT)
    await body(send, b"hello")


@case
async def scope_members(scope: Scope, receive: Receive, send: Send) -> None:
    seen = {
        name: repr(value) if isinstance(value, bytes) else value for name, value in scope.items()
    }
    seen["headers"] = [[name.decode("latin-1"), value.decode("latin-1")]
                       for name, value in scope["headers"]]  # fmt: skip
    for name in ("client", "server"):
        seen[f"{name}_types"] = [type(part).__name__ for part in scope[name]]
    seen["type_of_headers"] = {type(pair).__name__ for pair in scope["headers"]}.pop()
    text = json.dumps(seen, default=repr).encode()
    scope["extensions"]["changed"] = scope["state"]["changed"] = scope["asgi"]["changed"] = "yes"
    await start(send, TEXT)
    await body(send, text)


@case
async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    await start(send, TEXT)
    await body(send, await read(receive))


@case
async def stream(scope: Scope, receive: Receive, send: Send) -> None:
    await start(send, TEXT)
    for part in (b"one", b"", b"two"):
        await body(send, part, more=True)
        await asyncio.sleep(0)
    await body(send, b"")


@case
async def duplex(scope: Scope, receive: Receive, send: Send) -> None:
    await start(send, TEXT)
    while (message := await receive())["more_body"]:
        await body(send, b"<" + message["body"] + b">", more=True)
    await body(send, b"<" + message["body"] + b">")


@case
async def sized(scope: Scope, receive: Receive, send: Send) -> None:
    """Announces the first number of the query, and sends parts of the others."""
    length, *parts = scope["query_string"].split(b",")
    await start(send, TEXT, (b"content-length", length))
    for index, size in enumerate(parts, 1):
        await body(send, b"x" * int(size), more=index < len(parts))


@case
async def misuse(scope: Scope, receive: Receive, send: Send) -> None:
    """Sends what it must not, and what was raised."""
    raised = "nothing"
    kind = scope["query_string"].decode()
    begun = {"second_start", "unknown"}
    if kind in begun:
        await start(send, TEXT)
    try:
        if kind == "second_start":
            await start(send)
        elif kind == "unknown":
            await send({"type": "http.response.unknown"})
        else:
            await body(send, b"early")
    except RuntimeError:
        raised = "RuntimeError"
    if kind not in begun:
        await start(send, TEXT)
    await body(send, raised.encode())


@case
async def after_the_end(scope: Scope, receive: Receive, send: Send) -> None:
    await hello(scope, receive, send)
    try:
        await body(send, b"more")
    except RuntimeError:
        notes.append("RuntimeError")
    notes.append((await receive())["type"])
    if scope["method"] == "GET":
        notes.append((await receive())["type"])


@case
async def read_notes(scope: Scope, receive: Receive, send: Send) -> None:
    await start(send, TEXT)
    await body(send, " ".join(notes).encode())
    notes.clear()


@case
async def header(scope: Scope, receive: Receive, send: Send) -> None:
    bad = {"lf": b"a\nX-Injected: 1", "cr": b"a\rb", "nul": b"a\0b", "latin": b"caf\xe9"}
    await start(send, (b"X-Name", bad[scope["query_string"].decode()]))
    await body(send, b"hello")


@case
async def status(scope: Scope, receive: Receive, send: Send) -> None:
    await start(send, TEXT, status=int(scope["query_string"]))
    await body(send, b"")


@case
async def raises(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["query_string"] == b"late":
        await start(send, TEXT)
        await body(send, b"begun", more=True)
        await asyncio.sleep(0)
    raise ValueError(scope["query_string"])


@case
async def returns(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["query_string"]:
        await start(send, TEXT)
        await body(send, b"begun", more=True)


@case
async def background(scope: Scope, receive: Receive, send: Send) -> None:
    """Works after the response, until another request ends it."""
    await hello(scope, receive, send)
    await background_may_end.wait()
    notes.append("background")


@case
async def end_background(scope: Scope, receive: Receive, send: Send) -> None:
    background_may_end.set()
    await hello(scope, receive, send)


@case
async def refuse(scope: Scope, receive: Receive, send: Send) -> None:
    """A response without reading the request."""
    await start(send, TEXT, status=403)
    await body(send, b"no")


@case
async def hint(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.early_hint", "links": [b"</a.css>; rel=preload"]})
    await hello(scope, receive, send)


@case
async def path(scope: Scope, receive: Receive, send: Send) -> None:
    await start(send, TEXT)
    await send({"type": "http.response.pathsend", "path": __file__})


@case
async def trailers(scope: Scope, receive: Receive, send: Send) -> None:
    offered = "http.response.trailers" in scope["extensions"]
    begin = {"type": "http.response.start", "status": 200, "headers": [TEXT]}
    await send(begin | {"trailers": offered})
    await body(send, b"hello")
    if offered:
        fields = [(b"X-Sum", b"5")]
        await send({"type": "http.response.trailers", "headers": fields})


@case
async def tasks(scope: Scope, receive: Receive, send: Send) -> None:
    """What asyncio gives to a task: identity, contexts, timeouts, other tasks."""
    task = asyncio.current_task()
    assert task is not None
    assert variable.get() == "unset"
    variable.set("set")
    await asyncio.sleep(0.001)
    assert asyncio.current_task() is task
    assert variable.get() == "set"
    try:
        async with asyncio.timeout(0.001):
            await asyncio.sleep(10)
    except TimeoutError:
        pass
    received: asyncio.Task[Message] = asyncio.create_task(receive())  # type: ignore[arg-type]
    message = await received
    assert message["type"] == "http.request"
    loop = asyncio.get_running_loop()
    assert await loop.run_in_executor(None, lambda: 5) == 5
    await hello(scope, receive, send)


@case
async def disconnect(scope: Scope, receive: Receive, send: Send) -> None:
    """Waits until the client is gone, and sends to it."""
    await receive()
    if scope["query_string"]:
        await start(send, TEXT)
        await body(send, b"begun", more=True)
    kind = (await receive())["type"]
    try:
        await start(send, TEXT)
    except OSError:
        kind += " OSError"
    notes.append(kind)


@case
async def endless(scope: Scope, receive: Receive, send: Send) -> None:
    """Sends until it fails, and notes how much the server has taken without a wait."""
    await start(send, TEXT)
    sent = 0
    try:
        while True:
            await body(send, bytes(8192), more=True)
            sent += 1
            notes[:] = [str(sent)]
    except OSError:
        notes[:] = [f"{sent} OSError"]
