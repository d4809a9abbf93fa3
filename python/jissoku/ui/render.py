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
from importlib.resources import files
from urllib.parse import parse_qs, urlencode

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse

from jissoku.errors import JissokuError
from jissoku.measure.reports import DrawFlameGraph
from jissoku.report import page, svg
from jissoku.report.format import TIMES, clean, to_json
from jissoku.report.history import KEY_LENGTH, day, multiple, percent, shown_arms
from jissoku.report.tables import days_table
from jissoku.ui.forms import RerunForm
from jissoku.ui.guard import SESSION, Access
from jissoku.ui.jobs import JobServices
from jissoku.ui.quiet import WAITED, Look, Streams
from jissoku.ui.run_index import RunIndex
from jissoku.ui.watched_servers import WatchedServer

FOLDER = files("jissoku.ui")

FIELDS_MAX = 200
FORM = "application/x-www-form-urlencoded"

# Seconds after which data are complete, perhaps.
RETRY_S = "2"

# Parameters of an address that choose a form of a page or a part of it, and not its data.
NOT_DATA = {"format", "after"}

Fields = Mapping[str, Sequence[str]]
Value = Mapping[str, object]


class PageError(JissokuError):
    """A page that says in a sentence why there is no other."""

    def __init__(self, title: str, text: str, status: int) -> None:
        super().__init__(text)
        self.page = Page("message.html.j2", {"title": title, "text": text}, status=status)


@dataclass(frozen=True, slots=True)
class Page:
    """What a function of a page gives.

    Attributes:
        data: Makes the page's data, to which it links; None: it has none.
        lists_runs: Whether it says which runs it does not show yet. Its data are there when they
            have all of them.
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
        "ui.css": (ours("ui.css"), "text/css; charset=utf-8"),
        "report.js": (page.script(), "text/javascript; charset=utf-8"),
        "ui.js": (ours("ui.js"), "text/javascript; charset=utf-8"),
    }
    return {name: (text.encode(), kind) for name, (text, kind) in texts.items()}


@dataclass(slots=True, kw_only=True)
class Site:
    """What all pages work on, and how they are answered.

    Attributes:
        jobs: What starts and changes something; None: the pages are read-only.
        draw: Draws flame graphs.
    """

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
            "clean": clean,
            "day": day,
            "key": lambda text: text[:KEY_LENGTH],
            "multiple": multiple,
            "percent": percent,
            "together": page.together,
        }
        allows_commands = self.jobs is not None and self.jobs.allows_commands
        self._environment.globals |= {
            "is_read_only": self.jobs is None,
            "may_start": partial(_may_start, allows_commands=allows_commands),
            "static": static,
            "shown_arms": shown_arms,
            "times": TIMES,
            "shapes": svg.shapes,
            "days_table": days_table,
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
                raise HTTPException(503, f"{left.sentence}\n", {"retry-after": RETRY_S})
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
        if request.headers.get("content-type", "").partition(";")[0].strip() != FORM:
            raise PageError("Not done", "This is not a form of these pages.", 403)
        try:
            body = (await request.body()).decode("utf-8")
            fields = parse_qs(body, keep_blank_values=True, max_num_fields=FIELDS_MAX)
        except ValueError as error:
            raise PageError("Not done", "The form cannot be read.", 403) from error
        if not self.access.is_form_key(request.scope[SESSION], fields.get("form_key", [""])[0]):
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
    kept = [pair for pair in request.query_params.multi_items() if pair[0] not in NOT_DATA]
    return f"{request.url.path}?{urlencode([*kept, ('format', 'json')])}"


def _may_start(form: RerunForm, *, allows_commands: bool) -> bool:
    is_allowed = allows_commands or not form.is_local
    return form.has_form and form.is_complete and is_allowed
