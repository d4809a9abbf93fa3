"""Server-sent events (HTML standard, section 9.2): polls for changes, and sends them."""

import asyncio
from collections.abc import AsyncIterator, Callable
from threading import Event

from starlette.concurrency import run_in_threadpool

# Seconds between two polls while a page follows a job.
LOOK_S = 0.5

# Polls between two comments, which detect closed connections.
QUIET_LOOKS = 30

# Milliseconds after which the browser reconnects.
RETRY_MS = 2000

Look = Callable[[], tuple[str, str, str] | None]


class Streams:
    """All streams of one server; they end when it does."""

    def __init__(self) -> None:
        """None is open."""
        self.closing = Event()

    async def events(self, look: Look) -> AsyncIterator[str]:
        """The events that `look` returns: type, id and text. It runs in a thread.

        A stream ends with the server, or when its subject no longer exists.
        """
        yield f"retry: {RETRY_MS}\n\n"
        quiet = 0
        while not self.closing.is_set():
            try:
                found = await run_in_threadpool(look)
            except KeyError:
                return
            if found is not None:
                quiet = 0
                yield _event(*found)
                if found[0] == "reload":
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
