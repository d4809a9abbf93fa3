"""Silence while a measurement on this machine sends load, and streams that keep it.

A page that was sent before is sent again as it was; everything else waits for the end of the load,
which takes seconds. Nothing is queried, rendered or polled meanwhile.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from threading import Event

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from jissoku.ui.guard import READING, SESSION

# Pages at hand, and the largest one that is kept: a list of runs has 40 KB, a report 120.
PAGES_MAX, SIZE_MAX = 32, 512 << 10

# Seconds after the end of a load in which the next one may be announced already; and between two
# looks whether a load has ended before its time.
PAUSE_S, LOOK_S = 0.02, 1.0

# The field on which the bytes of a page depend.
ENCODINGS = "accept-encoding"

# In the scope of a request that has waited: for how many seconds.
WAITED = "jissoku.waited"

# Seconds between two polls while a page follows a job: half of that passes on average between a
# trial's end and its mark on the page.
POLL_S = 0.2

# Polls between two comments, which detect closed connections.
QUIET_LOOKS = 75

SecondsLeft = Callable[[], float]
Look = Callable[[], tuple[str, str, str] | None]


async def silence(seconds_left: SecondsLeft) -> float:
    """Waits until no load is sent; returns the seconds that it took."""
    started = time.monotonic()
    while left := seconds_left():  # noqa: ASYNC110 - another process ends it
        await asyncio.sleep(min(left + PAUSE_S, LOOK_S))
    return time.monotonic() - started


class Quiet:
    def __init__(self, app: ASGIApp, seconds_left: SecondsLeft) -> None:
        """`seconds_left` says how long load will still be sent; 0 if there is none."""
        self._app = app
        self._seconds_left = seconds_left
        # The pages that were sent last are at the end.
        self._held: dict[tuple[str, str], tuple[Message, bytes]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # Files of this package are in memory.
        if scope["type"] != "http" or scope["path"].startswith("/static/"):
            await self._app(scope, receive, send)
            return
        if scope["method"] not in READING:
            self._held.clear()  # It may change any page.
            if scope["path"].endswith("/cancel"):  # It ends the load.
                await self._app(scope, receive, send)
                return
        key = _key(scope)
        held = self._held.get(key) if scope["method"] == "GET" else None
        if held is not None and self._seconds_left():
            head, body = held
            await send(head)
            await send({"type": "http.response.body", "body": body})
            return
        scope[WAITED] = await silence(self._seconds_left)
        await self._app(scope, receive, self._keeping(key, scope, send))

    def _keeping(self, key: tuple[str, str], scope: Scope, send: Send) -> Send:
        """Sends, and keeps a page that is one whole message."""
        head: Message | None = None

        async def send_kept(message: Message) -> None:
            nonlocal head
            if message["type"] == "http.response.start":
                head = message if scope["method"] == "GET" and message["status"] == 200 else None
            elif head is not None:
                body = message.get("body", b"")
                if not message.get("more_body", False) and len(body) <= SIZE_MAX:
                    self._held.pop(key, None)
                    self._held[key] = head, body
                    if len(self._held) > PAGES_MAX:
                        del self._held[next(iter(self._held))]
                head = None
            await send(message)

        return send_kept


def _key(scope: Scope) -> tuple[str, str]:
    """The session of a page, and its address with the codings that its browser accepts."""
    query = scope["query_string"].decode("latin-1")
    encodings = Headers(scope=scope).get(ENCODINGS, "")
    return scope.get(SESSION, ""), f"{encodings} {scope['path']}?{query}"


class Streams:
    """All streams of one server; they end when it does, and are silent while load is sent."""

    def __init__(self, seconds_left: SecondsLeft = lambda: 0.0) -> None:
        self.closing = Event()
        self.seconds_left = seconds_left

    async def events(self, look: Look) -> AsyncIterator[str]:
        """The events that `look` returns: type, id and text. It runs in a thread.

        A stream ends with the server, or when its subject no longer exists.
        """
        yield "retry: 2000\n\n"  # Milliseconds after which the browser reconnects.
        quiet = 0
        while not self.closing.is_set():
            await silence(self.seconds_left)
            try:
                found = await run_in_threadpool(look)
            except KeyError:
                return
            if found is not None:
                quiet = 0
                yield _event(*found)
                if found[0] in {"reload", "done"}:  # The browser closes the stream.
                    return
            else:
                quiet += 1
                if quiet % QUIET_LOOKS == 0:
                    yield ":\n\n"
            await asyncio.sleep(POLL_S)


def _event(kind: str, position: str, text: str) -> str:
    """One event; line ends of a text begin another field (no other characters matter)."""
    lines = "".join(f"data: {line}\n" for line in text.splitlines() or [""])
    plain = "".join(char for char in position if char.isprintable())
    return f"event: {kind}\nid: {plain}\n{lines}\n"
