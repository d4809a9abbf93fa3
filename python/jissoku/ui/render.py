"""How a page is made: a function of `Site` and request gives a template with its values and data.

Three kinds of functions are endpoints of a route: those of pages give a `Page`, which is shown, or
whose data are (`?format=json`); those of actions get the fields of a form, and give the address
that follows, or a page; those of streams give what is polled for changes. Each may raise a
`PageError`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from hmac import compare_digest
from importlib.resources import files
from urllib.parse import parse_qs, urlencode

import msgspec
from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse

from jissoku import chart
from jissoku.errors import JissokuError
from jissoku.measure.reports import DrawFlameGraph
from jissoku.report import history, page, svg
from jissoku.report.format import TIMES, clean, to_json, together
from jissoku.report.tables import days_table
from jissoku.request import command_line, to_argv
from jissoku.request.options import is_complete, local_texts
from jissoku.ui.forms import FORMS, query_of
from jissoku.ui.guard import SESSION, Access
from jissoku.ui.jobs import JobServices
from jissoku.ui.quiet import WAITED, Look, Streams
from jissoku.ui.run_index import RunIndex
from jissoku.ui.watched_servers import WatchedServer

FOLDER = files("jissoku.ui")

Fields = Mapping[str, Sequence[str]]
Value = Mapping[str, object]


class PageError(JissokuError):
    """A page that says in a sentence why there is no other."""

    def __init__(self, title: str, text: str, status: int) -> None:
        super().__init__(text)
        self.page = Page("message.html.j2", {"title": title, "text": text}, status=status)


@dataclass(frozen=True, slots=True)
class Page:
    """What a function of a page gives; `data` makes the data to which it links.

    One that `lists_runs` says which it does not show yet; its data are there when they have all.
    """

    template: str
    values: Value
    data: Callable[[], object] | None = None
    lists_runs: bool = False
    status: int = 200


def static_files() -> dict[str, tuple[bytes, str]]:
    """By name the content and the type of every file that pages load."""

    def ours(name: str) -> str:
        return FOLDER.joinpath("static", name).read_text(encoding="utf-8")

    texts = {
        "report.css": (page.style_sheet(), "text/css; charset=utf-8"),
        "ui.css": (f"{chart.style_sheet()}\n{ours('ui.css')}", "text/css; charset=utf-8"),
        "report.js": (page.script(), "text/javascript; charset=utf-8"),
        "ui.js": (ours("ui.js"), "text/javascript; charset=utf-8"),
    }
    return {name: (text.encode(), kind) for name, (text, kind) in texts.items()}


@dataclass(slots=True, kw_only=True)
class Site:
    """What all pages work on, and how they are answered; without `jobs` they are read-only."""

    runs: RunIndex
    access: Access = field(default_factory=Access)
    streams: Streams = field(default_factory=Streams)
    servers: Sequence[WatchedServer] = ()
    jobs: JobServices | None = None
    draw: DrawFlameGraph = lambda *_: ""
    _environment: Environment = field(init=False)

    def __post_init__(self) -> None:
        # Addresses with the hash of a file's content can be cached for ever.
        static = {
            name: f"/static/{name}?{sha256(content).hexdigest()[:12]}"
            for name, (content, _) in static_files().items()
        }
        self._environment = Environment(
            loader=ChoiceLoader([PackageLoader("jissoku.ui"), PackageLoader("jissoku.report")]),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.filters |= {
            "argv": to_argv,
            "clean": clean,
            "command": command_line,
            "day": history.day,
            "key": lambda text: text[: history.KEY_LENGTH],
            "multiple": history.multiple,
            "percent": history.percent,
            "query": query_of,
            "together": together,
        }
        allows_commands = self.jobs is not None and self.jobs.allows_commands
        self._environment.globals |= {
            "is_complete": is_complete,
            "is_read_only": self.jobs is None,
            "may_start": partial(_may_start, allows_commands=allows_commands),
            "static": static,
            "shown_arms": history.shown_arms,
            "times": TIMES,
            "shapes": svg.shapes,
            "days_table": days_table,
            "history": history,
        }

    def fill(self, template: str, **values: object) -> str:
        return self._environment.get_template(template).render(**values)

    def show(self, request: Request, found: Page) -> HTMLResponse:
        session = request.scope.get(SESSION, "")
        shown = {
            "form_key": self.access.form_keys[session] if session else "",
            "here": request.url.path,
            "indexing": self.runs.left() if found.lists_runs else None,
            "waited": request.scope.get(WAITED, 0),
            "data_address": json_link(request) if found.data else "",
        }
        return HTMLResponse(self.fill(found.template, **shown, **found.values), found.status)

    def page(
        self, make: Callable[["Site", Request], Page | Response]
    ) -> Callable[[Request], Response]:
        """The endpoint of a page. As a plain function it runs in a thread beside the server's."""

        def answer(request: Request) -> Response:
            found = make(self, request)
            if isinstance(found, Response):
                return found
            if found.data is None or not is_json_requested(request):
                return self.show(request, found)
            if found.lists_runs and (left := self.runs.left()):
                # Programs get all runs, or none.
                raise HTTPException(503, f"{left.sentence}\n", {"retry-after": "2"})
            return json_response(to_json(found.data()))

        return answer

    def action(
        self, change: Callable[["Site", Request, Fields], Page | str]
    ) -> Callable[[Request], object]:
        """The endpoint of a form that changes something, and leads to another address."""

        async def answer(request: Request) -> Response:
            fields = await self._posted(request)
            found = await run_in_threadpool(change, self, request, fields)
            if isinstance(found, Page):
                return self.show(request, found)
            return RedirectResponse(found, 303)

        return answer

    def stream(self, watch: Callable[["Site", Request], Look]) -> Callable[[Request], object]:
        """The endpoint of server-sent events; `watch` gives what returns the next one, if any."""

        async def answer(request: Request) -> Response:
            events = self.streams.events(watch(self, request))
            return StreamingResponse(events, media_type="text/event-stream")

        return answer

    async def _posted(self, request: Request) -> Fields:
        """The fields of a form that a page of this session has sent, or a PageError."""
        kind = request.headers.get("content-type", "").partition(";")[0].strip()
        if kind != "application/x-www-form-urlencoded":
            raise PageError("Not done", "This is not a form of these pages.", 403)
        try:
            body = (await request.body()).decode("utf-8")
            fields = parse_qs(body, keep_blank_values=True, max_num_fields=200)
        except ValueError as error:
            raise PageError("Not done", "The form cannot be read.", 403) from error
        own, given = self.access.form_keys[request.scope[SESSION]], fields.get("form_key", [""])[0]
        if not compare_digest(own.encode(), given.encode()):
            text = "The form is of an earlier session: reload the page, and send it again."
            raise PageError("Not done", text, 403)
        return fields


def is_json_requested(request: Request) -> bool:
    """Whether an address asks for data instead of the page; 400 if for something else."""
    kind = request.query_params.get("format", "html")
    if kind not in {"html", "json"}:
        raise HTTPException(400, "There is no such format: it is html or json.\n")
    return kind == "json"


def json_response(text: str) -> Response:
    return Response(text, media_type="application/json; charset=utf-8")


def json_link(request: Request) -> str:
    """The address of a page's data: all of them, and not only the part shown."""
    given = request.query_params.multi_items()
    kept = [pair for pair in given if pair[0] not in {"format", "after"}]
    return f"{request.url.path}?{urlencode([*kept, ('format', 'json')])}"


def _may_start(request: msgspec.Struct, *, allows_commands: bool) -> bool:
    is_allowed = allows_commands or not any(local_texts(request))
    return is_allowed and is_complete(request) and to_argv(request)[0] in FORMS
