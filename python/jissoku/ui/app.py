"""The application: its routes, behind the checks of `guard`."""

import gzip
from collections.abc import Sequence

from starlette.applications import Starlette
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from jissoku.errors import JissokuError
from jissoku.ui.access import Access
from jissoku.ui.dismissing import DismissingPages
from jissoku.ui.guard import Guard
from jissoku.ui.library import Library
from jissoku.ui.pages import ReadingPages
from jissoku.ui.quiet import ENCODINGS, Quiet
from jissoku.ui.render import Pages, static_files
from jissoku.ui.run_pages import RunPages
from jissoku.ui.server_metrics import WatchedServer
from jissoku.ui.server_pages import ServerPages
from jissoku.ui.starting import JobPages, Starting
from jissoku.ui.streams import IndexingPages, Streams

# Of gzip. A report of 127 KB becomes 26 KB in 2 ms; level 9 takes twice as long for 1 % less.
LEVEL = 6


def application(
    library: Library,
    access: Access,
    starting: Starting | None,
    streams: Streams,
    servers: Sequence[WatchedServer] = (),
) -> ASGIApp:
    """All pages; `access.port` has to be set before the first request.

    While a measurement on this machine sends load they are silent, as the streams are. Without
    `starting` they are read-only.
    """
    is_read_only = starting is None
    pages = Pages(
        is_read_only=is_read_only,
        allows_commands=starting is not None and starting.allows_commands,
    )
    changing = [] if starting is None else _changing_routes(library, starting, pages, streams)
    app = Starlette(
        routes=[
            Route("/enter", _enter),
            *_static_routes(),
            *ReadingPages(library, pages).routes(),
            *RunPages(library, pages).routes(),
            *IndexingPages(library, pages, streams).routes(),
            *changing,
            *ServerPages(servers, pages, streams).routes(),
        ],
        exception_handlers={404: _not_found, JissokuError: _failed},
    )
    app.state.access = access
    app.state.pages = pages
    compressed = GZipMiddleware(app, compresslevel=LEVEL)
    return Guard(Quiet(compressed, streams.seconds_left), access, is_read_only=is_read_only)


def _changing_routes(
    library: Library, starting: Starting, pages: Pages, streams: Streams
) -> list[Route]:
    return [
        *JobPages(starting, pages, streams).routes(),
        *DismissingPages(library, starting.root, pages).routes(),
    ]


async def _enter(request: Request) -> Response:
    """Exchanges the token for a cookie."""
    access: Access = request.app.state.access
    session = access.enter(request.query_params.get("token", ""))
    if session is None:
        used = "This link has been used or is of an earlier start: see the terminal.\n"
        return PlainTextResponse(used, 403)
    response = RedirectResponse("/", 303)
    response.set_cookie(access.cookie, session, httponly=True, samesite="strict", path="/")
    return response


def _static_routes() -> list[Route]:
    def route(name: str, content: bytes, kind: str) -> Route:
        headers = {"cache-control": "private, max-age=31536000, immutable", "vary": ENCODINGS}
        # Once, because files are sent during a load too.
        small = gzip.compress(content)

        async def answer(request: Request) -> Response:
            if "gzip" in request.headers.get(ENCODINGS, ""):
                encoded = headers | {"content-encoding": "gzip"}
                return Response(small, media_type=kind, headers=encoded)
            return Response(content, media_type=kind, headers=headers)

        return Route(f"/static/{name}", answer)

    return [route(name, content, kind) for name, (content, kind) in static_files().items()]


async def _not_found(request: Request, error: Exception) -> Response:
    del error
    pages: Pages = request.app.state.pages
    text = "There is no such page."
    return pages.page(request, "message.html.j2", status=404, title="Not found", text=text)


async def _failed(request: Request, error: Exception) -> Response:
    pages: Pages = request.app.state.pages
    return pages.page(
        request, "message.html.j2", status=500, title="That did not work", text=str(error)
    )
