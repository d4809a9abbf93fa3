"""Renders the templates of the pages; parts of reports are included unchanged."""

from functools import partial
from hashlib import sha256
from importlib.resources import files

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse

from jissoku.report import page, svg
from jissoku.report.format import TIMES, clean
from jissoku.report.history import KEY_LENGTH, day, multiple, percent
from jissoku.request import ComparisonRequest
from jissoku.ui.forms import RerunForm
from jissoku.ui.guard import SESSION
from jissoku.ui.page_data import json_link
from jissoku.ui.quiet import WAITED
from jissoku.ui.run_index import Indexing
from jissoku.ui.runs_table import shown_arms

FOLDER = files("jissoku.ui")


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


class Pages:
    def __init__(self, *, is_read_only: bool = False, allows_commands: bool = False) -> None:
        """Reads the templates as they are used.

        Args:
            is_read_only: No page has a form that starts or changes something.
            allows_commands: Whether commands, files and URLs of requests are accepted.
        """
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
        self._environment.globals |= {
            "is_read_only": is_read_only,
            "may_start": partial(_may_start, allows_commands=allows_commands),
            "static": static,
            "shown_arms": shown_arms,
            "times": TIMES,
            "shapes": svg.shapes,
        }

    def fill(self, template: str, **values: object) -> str:
        """A template as text: a page, or a part of one."""
        return self._environment.get_template(template).render(**values)

    def page(
        self,
        request: Request,
        template: str,
        *,
        status: int = 200,
        has_data: bool = False,
        indexing: Indexing | None = None,
        **values: object,
    ) -> HTMLResponse:
        """A page for a browser with a session, or without one.

        `has_data`: its address gives its data as JSON too, and it links to them. `indexing`:
        which runs it does not show.
        """
        session = request.scope.get(SESSION, "")
        access = request.app.state.access
        key = access.form_key(session) if session else ""
        shown = {
            "form_key": key,
            "here": request.url.path,
            "indexing": indexing,
            "waited": request.scope.get(WAITED, 0),
            "data_address": json_link(request) if has_data else "",
        }
        text = self.fill(template, **shown, **values)
        return HTMLResponse(text, status)


def _may_start(form: RerunForm, *, allows_commands: bool) -> bool:
    """Whether the pages may start a request."""
    is_allowed = allows_commands or not form.is_local
    return isinstance(form.request, ComparisonRequest) and form.is_complete and is_allowed
