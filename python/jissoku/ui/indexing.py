"""What a page says while runs are indexed, and that it has ended."""

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from jissoku.ui.library import Library
from jissoku.ui.render import Pages
from jissoku.ui.streams import Streams


class IndexingPages:
    """A stream for the notice on other pages."""

    def __init__(self, library: Library, pages: Pages, streams: Streams) -> None:
        """Says what `library` does not show yet."""
        self._library = library
        self._pages = pages
        self._streams = streams

    def routes(self) -> list[Route]:
        """The stream."""
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
