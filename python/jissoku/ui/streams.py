"""Server-sent events (HTML standard, section 9.2): polls for changes, and sends them."""

import asyncio
from collections.abc import AsyncIterator, Callable
from threading import Event

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from jissoku.ui.library import Library
from jissoku.ui.quiet import SecondsLeft, silence
from jissoku.ui.render import Pages

# Seconds between two polls while a page follows a job: half of that passes on average between a
# trial's end and its mark on the page.
LOOK_S = 0.2

# Polls between two comments, which detect closed connections.
QUIET_LOOKS = 75

# Milliseconds after which the browser reconnects.
RETRY_MS = 2000

# Events after which a browser closes the stream.
LAST = {"reload", "done"}

Look = Callable[[], tuple[str, str, str] | None]


def no_load() -> float:
    """Where nothing is measured."""
    return 0.0


class Streams:
    """All streams of one server; they end when it does, and are silent while load is sent."""

    def __init__(self, seconds_left: SecondsLeft = no_load) -> None:
        """None is open; `seconds_left` says how long load will still be sent."""
        self.closing = Event()
        self.seconds_left = seconds_left

    async def events(self, look: Look) -> AsyncIterator[str]:
        """The events that `look` returns: type, id and text. It runs in a thread.

        A stream ends with the server, or when its subject no longer exists.
        """
        yield f"retry: {RETRY_MS}\n\n"
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
                if found[0] in LAST:
                    return
            else:
                quiet += 1
                if quiet % QUIET_LOOKS == 0:
                    yield ":\n\n"
            await asyncio.sleep(LOOK_S)


def _event(kind: str, position: str, text: str) -> str:
    """One event; line ends of a text begin another field (no other characters matter)."""
    lines = "".join(f"data: {line}\n" for line in text.splitlines() or [""])
    plain = "".join(char for char in position if char.isprintable())
    return f"event: {kind}\nid: {plain}\n{lines}\n"


class IndexingPages:
    """A stream for the notice on other pages."""

    def __init__(self, library: Library, pages: Pages, streams: Streams) -> None:
        """Says what `library` does not show yet."""
        self._library = library
        self._pages = pages
        self._streams = streams

    def routes(self) -> list[Route]:
        return [Route("/indexing/stream", self.stream)]

    async def stream(self, request: Request) -> Response:
        """Server-sent events: how many runs are left whenever that has changed, until none is."""
        del request
        shown = ""

        def look() -> tuple[str, str, str] | None:
            """The next event: its type, id and text; None if nothing has changed."""
            nonlocal shown
            left = self._library.left()
            before, shown = shown, self._pages.fill("indexing.html.j2", indexing=left)
            return None if shown == before else ("progress" if left else "done", "", shown)

        return StreamingResponse(self._streams.events(look), media_type="text/event-stream")
