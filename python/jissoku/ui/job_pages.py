"""Pages that start, show and cancel jobs."""

import datetime as dt
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from jissoku.design.sampling_plan import MINUTES_MAX
from jissoku.errors import InputError
from jissoku.measure.selection import folder_for
from jissoku.records.experiment import is_experiment
from jissoku.records.run_folder import run_folders, run_key
from jissoku.request import ComparisonRequest, from_argv
from jissoku.ui.forms import WORD, CatalogueReader, Choices, Order, form_values, read_order
from jissoku.ui.guard import FormError, posted
from jissoku.ui.job_progress import (
    Position,
    Progress,
    job_times,
    log_end,
    new_events,
    read_position,
)
from jissoku.ui.jobs import Job, JobQueue, JobState, Runner, log_file
from jissoku.ui.page_data import data, is_json_requested, job_data, jobs_data, shown_job
from jissoku.ui.quiet import Streams
from jissoku.ui.render import Pages
from jissoku.ui.run_index import Library

KINDS = ("compare", "run", "explain")
# Of pages to be published, below the folder of the queue, in which no run is looked for.
PUBLISHED = "published"
PATHS = ("/", "/42", "/files/1k.bin", "/files/10k.bin", "/files/100k.bin", "/delay?ms=10")


@dataclass(frozen=True, slots=True, kw_only=True)
class Starting:
    """What the pages work on.

    Attributes:
        root: Where records of new runs go.
        library: All runs.
        check: Parses a command line as the terminal does, and raises InputError.
        allows_commands: Whether commands and URLs are accepted.
    """

    queue: JobQueue
    runner: Runner
    root: Path
    library: Library
    check: Callable[[Sequence[str]], None]
    allows_commands: bool


class JobPages:
    """Their endpoints."""

    def __init__(self, starting: Starting, pages: Pages, streams: Streams) -> None:
        """Nothing is read yet."""
        self._starting = starting
        self._queue = starting.queue
        self._pages = pages
        self._streams = streams
        self._catalogue = CatalogueReader()

    def routes(self) -> list[Route]:
        """All of them; what changes something is a POST."""
        return [
            Route("/start", self.forms),
            Route("/start/{kind}", self.start, methods=["POST"]),
            Route("/jobs", self.jobs),
            Route("/jobs/{key}", self.job),
            Route("/jobs/{key}/stream", self.stream),
            Route("/jobs/{key}/cancel", self.cancel, methods=["POST"]),
            Route("/jobs/{key}/first", self.put_first, methods=["POST"]),
        ]

    def forms(self, request: Request) -> Response:
        """The forms; values of the address are filled in."""
        values = parse_qs(request.url.query)
        problem = ""
        try:
            if WORD in values:
                asked = from_argv(values.pop(WORD))
                filled = form_values(asked) if isinstance(asked, ComparisonRequest) else {}
                values = filled | values
        except InputError as error:
            problem = str(error)
        return self._forms(request, values, problem, 400 if problem else 200)

    async def start(self, request: Request) -> Response:
        """Adds a job."""
        try:
            fields = await posted(request)
        except FormError as error:
            return self._refusal(request, error)
        return await run_in_threadpool(self._start, request, fields)

    def jobs(self, request: Request) -> Response:
        """All jobs, newest first."""
        jobs, now = self._queue.jobs(), dt.datetime.now(dt.UTC)
        is_held = self._starting.runner.is_held()
        times = job_times(jobs, is_held=is_held)
        shown = [shown_job(job, times.get(job.id), now) for job in reversed(jobs)]
        if is_json_requested(request):
            return data(jobs_data(shown, times))
        return self._pages.page(request, "jobs.html.j2", has_data=True, jobs=shown, is_held=is_held)

    def job(self, request: Request) -> Response:
        """A job, with what is known of it now."""
        try:
            job = self._queue.job(request.path_params["key"])
        except KeyError:
            return self._missing(request)
        folder = Path(job.folder)
        progress = Progress()
        events, position = new_events(folder, Position())
        progress.add(events)
        values = progress.values(_part(folder, position))
        now = dt.datetime.now(dt.UTC)
        is_held = self._starting.runner.is_held()
        times = job_times(self._queue.jobs(), is_held=is_held).get(job.id)
        if is_json_requested(request):
            return data(job_data(job, times, progress, values))
        return self._pages.page(
            request,
            "job.html.j2",
            has_data=True,
            job=job,
            verb=job.arguments[0],
            progress=progress,
            values=values,
            position=str(position),
            ahead=max(0, times.place - 1) if times else 0,
            is_held=is_held,
            takes=times.takes.text if times else "",
            starts=times.starts_text(now) if times else "",
            command=shlex.join(("jissoku", *job.arguments)),
            log="" if job.state is JobState.WAITING else log_end(log_file(self._queue, job)),
            runs=_runs(folder) if job.arguments[0] in KINDS else [],
            is_experiment=is_experiment(folder),
        )

    async def cancel(self, request: Request) -> Response:
        """Takes a job out of the queue, or interrupts it."""
        return await self._changed(request, self._starting.runner.cancel)

    async def put_first(self, request: Request) -> Response:
        """Lets a job run before the others that wait."""
        return await self._changed(request, self._queue.put_first)

    async def _changed(self, request: Request, change: Callable[[str], None]) -> Response:
        key = request.path_params["key"]
        try:
            await posted(request)
            await run_in_threadpool(change, key)
        except FormError as error:
            return self._refusal(request, error)
        except InputError as error:
            return self._not_done(request, 500, error)
        except KeyError:
            return self._missing(request)
        return RedirectResponse(f"/jobs/{key}", 303)

    async def stream(self, request: Request) -> Response:
        """Server-sent events: the state of a job whenever it has changed, until it ends."""
        key = request.path_params["key"]
        try:
            self._queue.job(key)
        except KeyError:
            return self._missing(request)
        given = request.query_params.get("after", "")
        seen = read_position(request.headers.get("last-event-id", given))
        progress, position = Progress(), Position()
        state = request.query_params.get("state", "")

        def look() -> tuple[str, str, str] | None:
            """The next event: its type, id and text; None if nothing has changed."""
            nonlocal position
            job = self._queue.job(key)
            if job.state != state or not job.is_live:
                return "reload", str(position), job.state
            before = position
            events, position = new_events(Path(job.folder), position)
            progress.add(events)
            if position in {before, seen}:
                return None
            values = progress.values(_part(Path(job.folder), position))
            text = self._pages.fill("progress.html.j2", progress=progress, values=values)
            return "progress", str(position), text

        return StreamingResponse(self._streams.events(look), media_type="text/event-stream")

    def _start(self, request: Request, fields: Mapping[str, Sequence[str]]) -> Response:
        kind = request.path_params["kind"]
        try:
            order = read_order(kind, fields, self._choices(kind))
            above = self._queue.folder / PUBLISHED if kind == "publish" else self._starting.root
            folder = above / folder_for(*order.names).name
            arguments = order.placed(folder)
            self._starting.check(arguments)
            if order.is_own and fields.get("confirmed") != ["yes"]:
                return self._confirmation(request, kind, fields, arguments)
            job = self._add(order, folder)
        except InputError as error:
            return self._forms(request, fields, str(error), 400, kind)
        return RedirectResponse(f"/jobs/{job.id}", 303)

    def _add(self, order: Order, folder: Path) -> Job:
        """A folder that another job has already gets a number."""
        taken = {job.folder for job in self._queue.jobs()}
        free, number = folder, 1
        while str(free) in taken or free.exists():
            number += 1
            free = folder.with_name(f"{folder.name}-{number}")
        takes = order.takes.low_s, order.takes.high_s
        return self._queue.add(order.title, order.placed(free), free, takes)

    def _choices(self, kind: str) -> Choices:
        known = self._catalogue.current()
        library = self._starting.library
        runs = library.headers() if kind == "publish" else ()
        return Choices(
            targets=known.targets,
            experiments=[name for name, _, _ in known.experiments],
            allows_commands=self._starting.allows_commands,
            folders={run.row.run: run.folder for run in runs},
            roots=[str(root) for root in library.roots if root.is_dir()],
        )

    def _forms(
        self,
        request: Request,
        values: Mapping[str, Sequence[str]],
        problem: str,
        status: int,
        kind: str = "compare",
    ) -> Response:
        known, others = self._catalogue.current(), values.get(WORD, ())[1:]
        has_targets = any(one in {"--group", "--cmd", "--url"} for one in others)
        return self._pages.page(
            request,
            "start.html.j2",
            status=status,
            known=known,
            chosen=values.get("target") or (() if has_targets else known.defaults),
            values=values,
            others=shlex.join(others),
            problem=problem,
            kind=kind if kind in KINDS else "compare",
            paths=PATHS,
            minutes=MINUTES_MAX,
            allows_commands=self._starting.allows_commands,
        )

    def _confirmation(
        self,
        request: Request,
        kind: str,
        fields: Mapping[str, Sequence[str]],
        arguments: Sequence[str],
    ) -> Response:
        kept = [(name, value) for name, values in fields.items() for value in values]
        return self._pages.page(
            request,
            "confirm.html.j2",
            kind=kind,
            fields=[(name, value) for name, value in kept if name != "form_key"],
            arguments=["jissoku", *arguments],
        )

    def _refusal(self, request: Request, error: FormError) -> Response:
        return self._not_done(request, 403, error)

    def _not_done(self, request: Request, status: int, error: Exception) -> Response:
        return self._pages.page(
            request, "message.html.j2", status=status, title="Not done", text=str(error)
        )

    def _missing(self, request: Request) -> Response:
        text = "There is no job with this key."
        return self._pages.page(
            request, "message.html.j2", status=404, title="Not found", text=text
        )


def _part(folder: Path, position: Position) -> Path:
    """The run that is measured now, of an experiment with several."""
    return folder / position.part


def _runs(folder: Path) -> list[tuple[str, str]]:
    """Key and name of each run that a job has made."""
    found = []
    for place in run_folders(folder) if folder.is_dir() else ():
        try:
            found.append((run_key(place), place.name))
        except OSError:
            continue
    return found
