"""What applications do, as WSGI and as ASGI: texts, fields, parts, bodies, WebSockets."""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

TEXT = b"Hello, World!"
PARTS = (b"part " * 20,) * 8
FIELDS = [
    ("Content-Type", "application/json"),
    ("Cache-Control", "no-store"),
    ("Set-Cookie", "session=0123456789abcdef; Path=/; HttpOnly"),
    ("Vary", "Accept-Encoding, Cookie"),
    ("X-Frame-Options", "DENY"),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "same-origin"),
]
PLAIN = [("Content-Type", "text/plain")]

Message = dict[str, Any]


def wsgi(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    path = environ["PATH_INFO"]
    if path == "/parts":
        start_response("200 OK", PLAIN)
        return iter(PARTS)
    body = TEXT
    if path == "/echo":
        body = environ["wsgi.input"].read()
    fields = FIELDS if path == "/fields" else PLAIN
    start_response("200 OK", [*fields, ("Content-Length", str(len(body)))])
    return [body]


async def asgi(
    scope: dict[str, Any],
    receive: Callable[[], Awaitable[Message]],
    send: Callable[[Message], Awaitable[None]],
) -> None:
    if scope["type"] == "lifespan":
        while (await receive())["type"] != "lifespan.shutdown":
            await send({"type": "lifespan.startup.complete"})
        await send({"type": "lifespan.shutdown.complete"})
    elif scope["type"] == "websocket":
        await _socket(receive, send)
    else:
        await _respond(scope["path"], receive, send)


async def _respond(
    path: str,
    receive: Callable[[], Awaitable[Message]],
    send: Callable[[Message], Awaitable[None]],
) -> None:
    parts: Iterable[bytes] = (TEXT,)
    fields = FIELDS if path == "/fields" else PLAIN
    encoded = [(name.lower().encode(), value.encode()) for name, value in fields]
    if path == "/parts":
        parts = PARTS
    elif path == "/echo":
        message = await receive()
        body = message["body"]
        while message["more_body"]:
            message = await receive()
            body += message["body"]
        parts = (body,)
    if path != "/parts":
        encoded.append((b"content-length", str(sum(map(len, parts))).encode()))
    await send({"type": "http.response.start", "status": 200, "headers": encoded})
    for part in parts:
        await send({"type": "http.response.body", "body": part, "more_body": True})
    await send({"type": "http.response.body"})


async def _socket(
    receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]
) -> None:
    await receive()
    await send({"type": "websocket.accept"})
    while (message := await receive())["type"] == "websocket.receive":
        answer = {"type": "websocket.send"}
        await send(answer | {name: message.get(name) for name in ("text", "bytes")})
