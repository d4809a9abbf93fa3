"""The application: its routes behind the checks of `guard`, served on a loopback address."""

import errno
import gc
import gzip
import ipaddress
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from threading import Event
from typing import Annotated

import click
import msgspec
from starlette.applications import Starlette
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, ExceptionHandler

import jissoku
from jissoku.errors import InputError, JissokuError
from jissoku.measure.reports import DrawFlameGraph
from jissoku.request.options import option
from jissoku.system.background import background_cores, call_in_idle_class, registered_viewer
from jissoku.system.cores import available_cores, pin_process
from jissoku.system.measurement_lock import load_seconds_left
from jissoku.system.program import PROGRAM
from jissoku.ui import fresh_links, job_pages, pages
from jissoku.ui.guard import Access, Guard
from jissoku.ui.jobs import JobQueue, JobServices, Runner
from jissoku.ui.quiet import ENCODINGS, Quiet, Streams
from jissoku.ui.render import PageError, Site, static_files
from jissoku.ui.run_index import Indexer, RunIndex
from jissoku.ui.watched_servers import WatchedServer

# What shows something, by path.
PAGES = {
    "/": pages.runs,
    "/runs/{key}": pages.run,
    **{f"/runs/{{key}}/report.{kind}": pages.run_report for kind in pages.REPORT_TYPES},
    "/runs/{key}/experiment": pages.experiment,
    "/experiments": pages.experiments,
    "/analyses": pages.analyses,
    "/analyses/{key}": pages.analysis,
    "/diff": pages.diff,
    "/targets": pages.targets,
    "/target": pages.target,
    "/board": pages.board,
    "/changes": pages.changes,
    "/machines": pages.machines,
    "/servers": pages.servers,
}
STREAMS = {"/indexing/stream": pages.indexing, "/servers/stream": pages.server_figures}
# Of pages that start and change something.
JOB_PAGES = {"/start": job_pages.forms, "/jobs": job_pages.jobs, "/jobs/{key}": job_pages.job}
JOB_STREAMS = {"/jobs/{key}/stream": job_pages.job_events}
ACTIONS = {
    "/start/{kind}": job_pages.start,
    "/jobs/{key}/cancel": job_pages.cancel,
    "/jobs/{key}/first": job_pages.put_first,
    "/changes/{key}/dismiss": pages.dismiss,
}


def application(site: Site) -> ASGIApp:
    """All pages; the port of `site.access` has to be set before the first request.

    While a measurement on this machine sends load they are silent, as the streams are.
    """
    is_read_only = site.jobs is None
    shown, streams, actions = PAGES, STREAMS, {}
    if not is_read_only:
        shown, streams, actions = PAGES | JOB_PAGES, STREAMS | JOB_STREAMS, ACTIONS

    async def enter(request: Request) -> Response:
        access = site.access
        session = access.enter(request.query_params.get("token", ""))
        if session is None:
            used = "This link has been used, or is of an earlier start: `jissoku ui` prints one.\n"
            return PlainTextResponse(used, 403)
        response = RedirectResponse("/", 303)
        response.set_cookie(access.cookie, session, httponly=True, samesite="strict", path="/")
        return response

    def message(title: str, status: int, text: str = "") -> ExceptionHandler:
        async def answer(request: Request, error: Exception) -> Response:
            if not isinstance(error, PageError):
                error = PageError(title, text or str(error), status)
            return site.show(request, error.page)

        return answer

    app = Starlette(
        routes=[
            Route("/enter", enter),
            *(
                Route(f"/static/{name}", partial(_static, content, gzip.compress(content), kind))
                for name, (content, kind) in static_files().items()
            ),
            *(Route(path, site.page(make)) for path, make in shown.items()),
            *(Route(path, site.stream(watch)) for path, watch in streams.items()),
            *(Route(path, site.action(act), methods=["POST"]) for path, act in actions.items()),
        ],
        exception_handlers={
            404: message("Not found", 404, "There is no such page."),
            JissokuError: message("That did not work", 500),
        },
    )
    # A report of 127 KB becomes 26 KB in 2 ms; level 9 takes twice as long for 1 % less.
    compressed = GZipMiddleware(app, compresslevel=6)
    quiet = Quiet(compressed, site.streams.seconds_left)
    return Guard(quiet, site.access, is_read_only=is_read_only)


async def _static(content: bytes, small: bytes, kind: str, request: Request) -> Response:
    """A file, compressed once, because files are sent during a load too."""
    headers = {"cache-control": "private, max-age=31536000, immutable", "vary": ENCODINGS}
    if "gzip" not in request.headers.get(ENCODINGS, ""):
        return Response(content, media_type=kind, headers=headers)
    return Response(small, media_type=kind, headers=headers | {"content-encoding": "gzip"})


# Forms are small.
BODY_SIZE_MAX = 64 << 10


class UiConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What is served, and where; new runs go to the first of the roots.

    Attributes:
        port: Port; 0 selects a free one.
        listen: Loopback address: 127.0.0.1 or ::1.
        roots: Directory with runs; repeatable. Default: runs.
        allows_commands: Accept commands, files and URLs of this machine from the pages, and not
            only recipes.
        is_read_only: Show runs only: nothing can be started, stopped or changed from the pages.
        metrics: Show live figures of `jissoku serve --metrics WHERE`: HOST:PORT of this machine or
            unix:PATH; repeatable.
        is_background: Whether a measurement must not feel the pages: their threads are in the idle
            class, and all of this process on the load generator's cores.
        cache: The folder of the index; None: the user's cache.
        check: As in `JobServices`.
        draw: Draws flame graphs.
        command: The program that gets a job's arguments.
    """

    port: Annotated[int, option("--port", type=click.IntRange(0, 65_535))] = 8642
    listen: Annotated[str, option("--listen")] = "127.0.0.1"
    roots: Annotated[
        tuple[Path, ...], option("--runs", type=click.Path(path_type=Path), metavar="DIR")
    ] = ()
    allows_commands: Annotated[bool, option("--allow-commands")] = False
    is_read_only: Annotated[bool, option("--read-only")] = False
    metrics: Annotated[tuple[str, ...], option("--metrics", metavar="WHERE")] = ()
    is_background: bool = False
    cache: Path | None = None
    check: Callable[[Sequence[str]], None] = lambda _: None
    draw: DrawFlameGraph = lambda *_: ""
    command: Sequence[str] = PROGRAM


@contextmanager
def pages_in_thread(config: UiConfig) -> Iterator[str]:
    """Serves the pages during the block; gives the link that opens them, or raises InputError."""
    where = _address(config.listen)
    listen = f"{where}:{config.port}"
    servers = [WatchedServer(one) for one in config.metrics]
    with ExitStack() as stack:
        jobs = None
        if not config.is_read_only:
            root = config.roots[0]
            queue = stack.enter_context(closing(JobQueue(root)))
            # Known before this process leaves some of them: jobs may use all.
            runner = Runner(queue, config.command, available_cores())
            jobs = JobServices(queue, runner, root, config.check, config.allows_commands)
        own = None
        if config.port:
            with _address_errors(listen):
                own = stack.enter_context(fresh_links.reserved(listen))
        stack.enter_context(registered_viewer())
        if config.is_background:
            stack.enter_context(pin_process(background_cores()))
        access, streams = Access(where), Streams(load_seconds_left)
        indexer = Indexer(config.cache, is_background=config.is_background)
        runs = RunIndex(config.roots, config.cache, indexer)
        site = Site(
            runs=runs, access=access, streams=streams, servers=servers, jobs=jobs, draw=config.draw
        )
        app = application(site)
        server = jissoku.serve_in_thread(app, listen=listen, body_size_max=BODY_SIZE_MAX)
        with _address_errors(listen):
            # Its threads are started here; those of jobs are not, since jobs inherit the class.
            begin = server.__enter__
            live = call_in_idle_class(begin) if config.is_background else begin()
        stack.callback(server.__exit__, None, None, None)
        stack.callback(streams.closing.set)
        access.port = live.port
        if own is None:
            own = stack.enter_context(fresh_links.reserved(f"{where}:{live.port}"))
        if jobs is not None:
            jobs.queue.served_at(live.port)
            stack.enter_context(jobs.runner)
        stack.enter_context(indexer)

        def opened() -> fresh_links.Opened:
            link = f"{live.url}/enter?token={access.token}"
            return fresh_links.Opened(link, fresh_links.folders(config.roots))

        stack.enter_context(fresh_links.answering(own, opened))
        yield opened().link


def link_of_running(config: UiConfig) -> str:
    """A fresh link to the pages of these folders, if this user has them open; else empty."""
    listen = f"{_address(config.listen)}:{config.port}"
    found = fresh_links.ask(listen) if config.port else None
    if found is not None and found.roots != fresh_links.folders(config.roots):
        raise InputError(
            f"{listen} has the pages of {', '.join(found.roots)}: name another port with --port,"
            " or 0 for a free one"
        )
    return found.link if found else ""


def serve_pages(config: UiConfig, announce: Callable[[str], None]) -> None:
    """Serves the pages until SIGINT or SIGTERM; `announce` receives the link."""
    stop = Event()
    with pages_in_thread(config) as link:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: stop.set())
        # A pass of the collector over all that was imported takes 60 ms, in the middle of a page.
        gc.collect()
        gc.freeze()
        announce(link)
        stop.wait()


def check_roots(roots: Sequence[Path]) -> None:
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


@contextmanager
def _address_errors(listen: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno == errno.EADDRINUSE or "in use" in str(error):
            raise InputError(
                f"{listen} is in use: name another port with --port, or 0 for a free one"
            ) from error
        raise InputError(f"{listen} cannot be listened on: {error.strerror or error}") from error
