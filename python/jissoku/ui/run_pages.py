"""A run's page: its report, what can be done about it, and its report as a file."""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from jissoku.errors import InputError
from jissoku.measure.reports import report_text
from jissoku.model import Run
from jissoku.model.history import IndexedRun
from jissoku.records import files
from jissoku.records.run_folder import RUN_FILE
from jissoku.report import page
from jissoku.ui.answers import RerunForm
from jissoku.ui.library import Library, experiment_folder
from jissoku.ui.page_data import is_json_requested
from jissoku.ui.render import Pages

# The files of a run's report, by suffix.
REPORT_TYPES = {
    "html": "text/html",
    "json": "application/json",
    "txt": "text/plain",
}

# Choices of a run to compare with.
OTHERS_MAX = 100

# Links to the explanation of a run's targets.
EXPLAINED_MAX = 3

# Reports at hand: of a quick run of seven one has 120 KB, and takes 0.3 s to be made.
REPORTS_KEPT = 16


class RunPages:
    """Their endpoints are functions, so that they run in threads beside the server's."""

    def __init__(self, library: Library, pages: Pages) -> None:
        """Shows what is in `library`."""
        self._library = library
        self._pages = pages

    def routes(self) -> list[Route]:
        """All of them; a run is found by its key only, never by a path."""
        run = "/runs/{key}"
        return [
            Route(run, self.run),
            *(Route(f"{run}/report.{kind}", self.report, name=kind) for kind in REPORT_TYPES),
        ]

    def run(self, request: Request) -> Response:
        """A run: its report."""
        try:
            run = self._library.run(request.path_params["key"])
        except KeyError:
            return self._missing(request)
        if is_json_requested(request):
            return self._report(request, run, "json")
        problem, report = "", None
        try:
            report = _report_on_page(run.row.run, run.folder, run.unfinished)
        except InputError as error:
            problem = str(error)
        folder = experiment_folder(run)
        raced = [arm.target for arm in run.arms if not (arm.is_floor or arm.is_control)]
        others = [one for one in self._library.headers() if one.row.run != run.row.run]
        like = [one for one in others if one.row.workload == run.row.workload]
        return self._pages.page(
            request,
            "run.html.j2",
            run=run,
            report=report,
            problem=problem,
            experiment=run.row.experiment or folder.name if folder else "",
            targets=sorted({arm.target for arm in run.arms if not arm.is_control}),
            again=_again(run),
            asked=RerunForm(run.row.asked),
            explained=list(dict.fromkeys(raced))[:EXPLAINED_MAX],
            others=_likest(run, like or others)[:OTHERS_MAX],
        )

    def report(self, request: Request) -> Response:
        """A run's report as a file."""
        kind = request.url.path.rpartition(".")[2]
        try:
            run = self._library.run(request.path_params["key"])
        except KeyError:
            return self._missing(request)
        return self._report(request, run, kind)

    def _report(self, request: Request, run: IndexedRun, kind: str) -> Response:
        name = run.row.run[:8]
        try:
            text = report_text(Path(run.folder), kind)
        except InputError as error:
            return self._message(request, "The report cannot be made", str(error), 409)
        headers = {}
        if kind == "html":
            # It has scripts and styles of its own: it is saved, and not shown under our origin.
            headers["content-disposition"] = f'attachment; filename="jissoku-{name}.html"'
        media_type = f"{REPORT_TYPES[kind]}; charset=utf-8"
        return Response(text, media_type=media_type, headers=headers)

    def _missing(self, request: Request, text: str = "") -> HTMLResponse:
        text = text or "No run of the folders has this key; the list shows those that are there."
        return self._message(request, "Not found", text, 404)

    def _message(self, request: Request, title: str, text: str, status: int) -> HTMLResponse:
        return self._pages.page(request, "message.html.j2", status=status, title=title, text=text)


@lru_cache(maxsize=REPORTS_KEPT)
def _report_on_page(key: str, folder: str, unfinished: str) -> Markup:
    """A run's report as a part of its page, made again when its records have changed.

    Raises:
        InputError: It cannot be made.
    """
    del key, unfinished
    return page.content(report_text(Path(folder), "html"))


def _again(run: IndexedRun) -> RerunForm:
    """What the run was asked; of an older one, what its record says of it."""
    try:
        header = files.load(Path(run.folder) / RUN_FILE, Run)
    except InputError:
        header = None  # The page says why its records cannot be read.
    return RerunForm((header and header.request) or run.row.asked)


def _likest(run: IndexedRun, others: Sequence[IndexedRun]) -> list[IndexedRun]:
    """Those with the most targets of the run first; of these, the newest first."""
    names = {arm.target for arm in run.arms}
    newest_first = reversed(others)
    return sorted(newest_first, key=lambda one: -len(names & {arm.target for arm in one.arms}))
