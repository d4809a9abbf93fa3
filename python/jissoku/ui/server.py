"""The application: its routes behind the checks of `guard`, served on a loopback address."""

import errno
import gc
import gzip
import ipaddress
import os
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from types import FrameType

from starlette.applications import Starlette
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

import jissoku
from jissoku.errors import InputError, JissokuError
from jissoku.system.background import background_cores, call_in_idle_class, registered_viewer
from jissoku.system.cores import available_cores, pin_process
from jissoku.system.measurement_lock import load_seconds_left
from jissoku.ui.guard import Access, Guard
from jissoku.ui.job_pages import JobPages, Starting
from jissoku.ui.jobs import COMMAND, JobQueue, Runner
from jissoku.ui.pages import DismissingPages, IndexingPages, ReadingPages, RunPages
from jissoku.ui.quiet import ENCODINGS, Quiet, Streams
from jissoku.ui.render import Pages, static_files
from jissoku.ui.run_index import Indexer, Library
from jissoku.ui.watched_servers import ServerPages, WatchedServer

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


# Forms are small.
BODY_SIZE_MAX = 64 << 10

# Of an abstract Unix socket (unix(7)), before the address that the pages listen on.
NAME = "jissoku-ui-"


@dataclass(frozen=True, slots=True, kw_only=True)
class UiConfig:
    """What is served, and where.

    Attributes:
        listen: A loopback address.
        port: 0 selects a free one.
        roots: Folders with runs; new runs go to the first one.
        cache: Of the index; None: the user's cache.
        check: Parses a command line as the terminal does, and raises InputError.
        allows_commands: Whether commands and URLs are accepted from forms.
        is_read_only: Whether nothing is started or changed. The queue of the first root is left to
            another server.
        metrics: Addresses of running servers, as `jissoku serve --metrics` has them.
        is_background: Whether a measurement must not feel the pages: their threads are in the idle
            class, and all of this process on the load generator's cores.
        command: The program that gets a job's arguments.
    """

    listen: str
    port: int
    roots: tuple[Path, ...]
    cache: Path | None = None
    check: Callable[[Sequence[str]], None] = lambda _: None
    allows_commands: bool = False
    is_read_only: bool = False
    metrics: tuple[str, ...] = ()
    is_background: bool = False
    command: Sequence[str] = COMMAND


@contextmanager
def pages_in_thread(config: UiConfig) -> Iterator[str]:
    """Serves the pages during the block; gives the link that opens them.

    Raises:
        InputError: An address is no loopback address or is in use, or another server has the queue
            of the first root.
    """
    where = _address(config.listen)
    servers = [WatchedServer(one) for one in config.metrics]
    place: AbstractContextManager[None] = nullcontext()
    if config.is_background:
        place = pin_process(background_cores())
    with (
        _runner(config) as runner,
        _reserved(where, config.port),
        registered_viewer(),
        place,
        _pages(config, runner, where, servers) as link,
    ):
        yield link


@contextmanager
def _runner(config: UiConfig) -> Iterator[Runner | None]:
    """What runs the jobs, once it is entered; None if the pages are read-only."""
    if config.is_read_only:
        yield None
        return
    queue = JobQueue(config.roots[0])
    try:
        # Known before this process leaves some of them: jobs may use all.
        yield Runner(queue, config.command, available_cores())
    finally:
        queue.close()


@contextmanager
def _reserved(where: str, port: int) -> Iterator[None]:
    """Reserves an address among all pages of this network namespace.

    Of two that start at the same instant both find the port free, and bind it with SO_REUSEPORT.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as own:
        if port:
            listen = f"{where}:{port}"
            try:
                own.bind(f"\0{NAME}{listen}")
            except OSError as error:
                raise InputError(_unavailable(listen, error)) from error
        yield


@contextmanager
def _pages(
    config: UiConfig, runner: Runner | None, where: str, servers: Sequence[WatchedServer]
) -> Iterator[str]:
    access, streams = Access(where), Streams(load_seconds_left)
    indexer = Indexer(config.cache, is_background=config.is_background)
    library = Library(config.roots, config.cache, indexer)
    starting = None
    if runner is not None:
        starting = Starting(
            queue=runner.queue,
            runner=runner,
            root=config.roots[0],
            library=library,
            check=config.check,
            allows_commands=config.allows_commands,
        )
    app = application(library, access, starting, streams, servers)
    listen = f"{where}:{config.port}"
    server = jissoku.serve_in_thread(app, listen=listen, body_size_max=BODY_SIZE_MAX)
    try:
        # Its threads are started here; those of jobs are not, since jobs inherit the class.
        begin = server.__enter__
        live = call_in_idle_class(begin) if config.is_background else begin()
    except OSError as error:
        raise InputError(_unavailable(listen, error)) from error
    try:
        access.port = live.port
        with runner or nullcontext(), indexer:
            yield f"{live.url}/enter?token={access.token}"
    finally:
        streams.closing.set()
        server.__exit__(None, None, None)


def serve_pages(config: UiConfig, announce: Callable[[str], None]) -> None:
    """Serves the pages until SIGINT or SIGTERM.

    Args:
        config: Where and what.
        announce: Receives the link.

    Raises:
        InputError: See `pages_in_thread`; or a root is no folder.
    """
    stop = Event()

    def on_signal(number: int, frame: FrameType | None) -> None:
        del number, frame
        stop.set()

    with pages_in_thread(config) as link:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, on_signal)
        # A pass of the collector over all that was imported takes 60 ms, in the middle of a page.
        gc.collect()
        gc.freeze()
        announce(link)
        stop.wait()


def check_roots(roots: Sequence[Path]) -> None:
    """Refuses folders that are named and not there.

    Raises:
        InputError: One is no folder, or cannot be read.
    """
    for root in roots:
        if not root.is_dir():
            raise InputError(f"{root} is not a folder: name a folder of runs with --runs")
        if not os.access(root, os.R_OK | os.X_OK):
            raise InputError(f"{root} cannot be read: name a folder of runs with --runs")


def _address(listen: str) -> str:
    """A loopback address in the form that URLs need (RFC 3986 section 3.2.2)."""
    name = "127.0.0.1" if listen == "localhost" else listen.strip("[]")
    try:
        address = ipaddress.ip_address(name)
    except ValueError as error:
        raise InputError(f"--listen {listen} is no address: leave it out, or write ::1") from error
    if not address.is_loopback:
        raise InputError(
            f"--listen {listen} is no loopback address, and the pages start programs: from another"
            " machine use `ssh -L 8642:127.0.0.1:8642 HOST`"
        )
    return f"[{address}]" if address.version == 6 else str(address)


def _unavailable(listen: str, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE or "in use" in str(error):
        return f"{listen} is in use: name another port with --port, or 0 for a free one"
    return f"{listen} cannot be listened on: {error.strerror or error}"
