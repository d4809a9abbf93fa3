"""What a browser keeps open: a stream of events of which all clients get each, and an echo.

GET /events never ends; POST /publish sends its number to every open stream. A WebSocket gets its
own messages back.
"""

import asyncio
from typing import Any

queues: set[asyncio.Queue[bytes]] = set()


async def events(receive: Any, send: Any) -> None:
    """A stream of server-sent events (HTML, section 9.2), until the client leaves."""
    queue: asyncio.Queue[bytes] = asyncio.Queue()
    queues.add(queue)
    left = asyncio.ensure_future(_disconnected(receive))
    headers = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-store")]
    try:
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b": open\n\n", "more_body": True})
        while not left.done():
            event = await queue.get()
            await send({"type": "http.response.body", "body": event, "more_body": True})
    finally:
        queues.discard(queue)
        left.cancel()


async def _disconnected(receive: Any) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def text(send: Any, body: bytes) -> None:
    headers = [(b"content-type", b"text/plain"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def echo(receive: Any, send: Any) -> None:
    """Messages of a WebSocket, back as they came."""
    await receive()
    await send({"type": "websocket.accept"})
    while (message := await receive())["type"] == "websocket.receive":
        if message.get("text") is not None:
            await send({"type": "websocket.send", "text": message["text"]})
        else:
            await send({"type": "websocket.send", "bytes": message["bytes"]})


async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
    if scope["type"] == "websocket":
        await echo(receive, send)
    elif scope["type"] == "lifespan":
        while (message := await receive())["type"] != "lifespan.shutdown":
            await send({"type": f"{message['type']}.complete"})
        await send({"type": "lifespan.shutdown.complete"})
    elif scope["path"] == "/events":
        await events(receive, send)
    elif scope["path"] == "/publish":
        for queue in queues:
            queue.put_nowait(b"data: %08d\n\n" % len(queues))
        await text(send, b"%d\n" % len(queues))
    else:
        await text(send, b"Hello, World!")
