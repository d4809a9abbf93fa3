"""The common contract as an ASGI 3 application, without a framework.

A WebSocket, at any path, sends every message back.

The folder of files is named by the environment's FILES.
"""

import asyncio
import os
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

FILES = Path(os.environ["FILES"])
HELLO = b"Hello, World!"

TEXT = (b"content-type", b"text/plain")
HELLO_HEADERS = [TEXT, (b"content-length", b"13")]
FORTY_TWO_HEADERS = [
    (b"server", b"bench"),
    (b"connection", b"keep-alive"),
    TEXT,
    (b"content-length", b"2"),
]
ABSENT_HEADERS = [TEXT, (b"content-length", b"9")]


async def app(scope: dict[str, Any], receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        await echo(receive, send)
        return
    if scope["type"] != "http":
        raise NotImplementedError(scope["type"])  # no lifespan: a server goes on without one
    path = scope["path"]
    if scope["method"] != "GET":
        await answer(send, 404, ABSENT_HEADERS, b"Not Found")
    elif path == "/":
        await answer(send, 200, HELLO_HEADERS, HELLO)
    elif path == "/42":
        await answer(send, 200, FORTY_TWO_HEADERS, b"42")
    elif path == "/delay":
        await delay(scope["query_string"], send)
    elif path.startswith("/files/"):
        await file(path.removeprefix("/files/"), send)
    else:
        await answer(send, 404, ABSENT_HEADERS, b"Not Found")


async def echo(receive: Receive, send: Send) -> None:
    """Sends every message of a WebSocket back."""
    await receive()
    await send({"type": "websocket.accept"})
    while (event := await receive())["type"] == "websocket.receive":
        if event.get("text") is not None:
            await send({"type": "websocket.send", "text": event["text"]})
        else:
            await send({"type": "websocket.send", "bytes": event["bytes"]})


async def answer(send: Send, status: int, headers: Headers, body: bytes) -> None:
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def delay(query: bytes, send: Send) -> None:
    ms = re.fullmatch(rb"ms=(\d{1,5})", query)
    if ms is None:
        await answer(send, 404, ABSENT_HEADERS, b"Not Found")
        return
    await asyncio.sleep(int(ms[1]) / 1000)
    await answer(send, 200, HELLO_HEADERS, HELLO)


async def file(name: str, send: Send) -> None:
    path = FILES / name
    if not re.fullmatch(r"[\w-][\w.-]*", name, re.ASCII) or not path.is_file():
        await answer(send, 404, ABSENT_HEADERS, b"Not Found")
        return
    body = path.read_bytes()  # at most a mebibyte, from the page cache: no thread is worth it
    headers = [
        (b"content-type", b"application/octet-stream"),
        (b"content-length", str(len(body)).encode()),
    ]
    await answer(send, 200, headers, body)
