"""Pages that read: runs, experiments, two runs, targets, boards, changes, machines."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from markupsafe import Markup
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from jissoku.errors import InputError
from jissoku.measure.reports import experiment_text, report_text
from jissoku.model import Run
from jissoku.model.history import IndexedRun, Series
from jissoku.records import dismissals, files
from jissoku.records.noise_floor import CAMPAIGNS_MIN
from jissoku.records.run_folder import RUN_FILE
from jissoku.report import page
from jissoku.report.format import clean
from jissoku.report.history import (
    BOARD_HEADER,
    BOARDS_LEAD,
    POINTS_MAX,
    boards,
    change_sentence,
    confirming_requests,
    divided,
    machines_sentences,
    series_figure,
    series_sentences,
    suspicions,
    tau_sentence,
    with_key,
)
from jissoku.ui.forms import (
    CAMPAIGNS,
    CAMPAIGNS_MAX,
    RerunForm,
    answer_of_suspicion,
    answers_of_series,
    request_of_board,
)
from jissoku.ui.guard import FormError, posted
from jissoku.ui.page_data import (
    board_data,
    changes_data,
    changes_table,
    data,
    difference_data,
    experiments_data,
    is_json_requested,
    json_response,
    machine_classes,
    machines_data,
    machines_table,
    pair_facts,
    runs_data,
    target_data,
    targets_data,
)
from jissoku.ui.quiet import Streams
from jissoku.ui.render import Pages
from jissoku.ui.run_index import Library, experiment_folder, found_experiments
from jissoku.ui.runs_table import ListedRun, page_of, read_query, runs_found

# Seconds after which data are complete, perhaps.
RETRY_S = "2"

# Links to the runs of a series.
RUNS_MAX = 100


class ReadingPages:
    """Their endpoints are functions, so that they run in threads beside the server's."""

    def __init__(self, library: Library, pages: Pages) -> None:
        """Shows what is in `library`."""
        self._library = library
        self._pages = pages

    def routes(self) -> list[Route]:
        """All of them; a run is found by its key only, never by a path."""
        run = "/runs/{key}"
        return [
            Route("/", self.runs),
            Route("/experiments", self.experiments),
            Route(f"{run}/experiment", self.experiment),
            Route("/diff", self.diff),
            Route("/targets", self.targets),
            Route("/target", self.target),
            Route("/board", self.board),
            Route("/changes", self.changes),
            Route("/machines", self.machines),
        ]

    def runs(self, request: Request) -> Response:
        query = read_query(request.query_params)
        runs = self._library.listed()
        every = runs_found(runs, query)
        if self._is_json_requested(request):
            return data(runs_data([one.run for one in every]))
        found = page_of(every, query)

        def sorted_by(name: str) -> str:
            turned = query.sort == name and not query.is_ascending
            return replace(query, sort=name, is_ascending=turned, after="").url

        return self._page(
            request,
            "runs.html.j2",
            query=query,
            page=found,
            sorted_by=sorted_by,
            next_page=replace(query, after=found.next_after).url,
            commands=sorted({one.row.verb for one in runs}),
            machines=_machine_choices(runs),
            notes=self._library.notes,
            roots=[str(root) for root in self._library.roots],
        )

    def experiments(self, request: Request) -> Response:
        """Every experiment that has a run, newest first."""
        found = found_experiments(self._library.headers())
        if self._is_json_requested(request):
            return data(experiments_data(found))
        return self._page(request, "experiments.html.j2", experiments=found)

    def experiment(self, request: Request) -> Response:
        """The report of the experiment that a run belongs to."""
        try:
            run = self._library.run(request.path_params["key"])
        except KeyError:
            return self._missing(request)
        folder = experiment_folder(run)
        if folder is None:
            return self._missing(request, "This run belongs to no experiment.")
        try:
            if is_json_requested(request):
                return json_response(experiment_text(folder, "json"))
            report = page.content(experiment_text(folder))
        except InputError as error:
            return self._message(request, "The report cannot be made", str(error), 409)
        every = found_experiments(self._library.headers())
        known = next(one for one in every if one.folder == folder)
        return self._page(request, "experiment_page.html.j2", known=known, report=report)

    def diff(self, request: Request) -> Response:
        """Two runs side by side."""
        keys = request.query_params.getlist("run")
        if len(set(keys)) != 2:
            chosen = "two runs of the list are compared"
            return self._message(request, "Select two runs", f"Exactly {chosen}.", 400)
        try:
            found = self._library.difference(keys[0], keys[1])
        except KeyError:
            return self._missing(request)
        if self._is_json_requested(request):
            return data(difference_data(found))
        return self._page(
            request,
            "diff.html.j2",
            found=found,
            pair=list(zip(("Earlier", "Later"), found.runs, strict=True)),
            facts=pair_facts(found),
            changes=changes_table(found),
            answers=[RerunForm(request) for request in confirming_requests(found)],
            tau=tau_sentence(found.tau),
        )

    def targets(self, request: Request) -> Response:
        newest: dict[str, str] = {}
        counts: Counter[str] = Counter()
        for run in self._library.headers():
            for name in {arm.target for arm in run.arms if not arm.is_control}:
                counts[name] += 1
                newest[name] = run.row.started_utc
        rows = [(name, counts[name], newest[name]) for name in sorted(newest)]
        if self._is_json_requested(request):
            return data(targets_data(rows))
        return self._page(request, "targets.html.j2", rows=rows)

    def target(self, request: Request) -> Response:
        """A target's cost over time, by the rules of docs/history.md."""
        name = request.query_params.get("name", "")
        if name not in self._library.targets():
            return self._missing(request, "No run has this target.")
        series = self._library.series(name)
        ratios = self._library.machine_ratios(series)
        if self._is_json_requested(request):
            return data(target_data(name, series, ratios))
        sections = [
            (
                series_figure(one, number),
                series_sentences(one),
                _runs_of(one),
                answers_of_series(one),
            )
            for number, one in enumerate(series)
        ]
        return self._page(
            request,
            "target.html.j2",
            name=name,
            sections=sections,
            machines=[(*machines_table(one), machines_sentences(one)) for one in ratios],
        )

    def board(self, request: Request) -> Response:
        """The newest cost of every target, a table for each question."""
        found = boards(self._all_series())
        if self._is_json_requested(request):
            return data(board_data(found))
        return self._page(
            request,
            "board.html.j2",
            together=[
                (one, RerunForm(request_of_board(one))) for one in found if not one.is_of_one_target
            ],
            alone=[one for one in found if one.is_of_one_target],
            header=BOARD_HEADER,
            lead=BOARDS_LEAD,
        )

    def changes(self, request: Request) -> Response:
        """Suspected changes of all targets."""
        series = self._all_series()
        suspected, dismissed = divided(suspicions(series), dismissals.read(self._library.roots))
        if self._is_json_requested(request):
            return data(changes_data(suspected, dismissed))
        return self._page(
            request,
            "changes.html.j2",
            changes=[
                (
                    one.series.target,
                    change_sentence(one.change),
                    one.cause,
                    answer_of_suspicion(one),
                    one.key,
                )
                for one in suspected
            ],
            dismissed=[
                (one.series.target, change_sentence(one.change), dismissal)
                for one, dismissal in dismissed
            ],
        )

    def machines(self, request: Request) -> Response:
        """Classes of machines, and what disturbed trials there."""
        library = self._library
        found = list(machine_classes(library.headers(), library.checks(), library.machine_days()))
        if self._is_json_requested(request):
            return data(machines_data(found))
        return self._page(
            request,
            "machines.html.j2",
            machines=found,
            campaigns=CAMPAIGNS,
            campaigns_max=CAMPAIGNS_MAX,
            campaigns_kept=CAMPAIGNS_MIN,
        )

    def _all_series(self) -> list[Series]:
        return [one for name in self._library.targets() for one in self._library.series(name)]

    def _page(self, request: Request, template: str, **values: Any) -> HTMLResponse:
        """A page with data, which says what it does not show yet."""
        left = self._library.left()
        return self._pages.page(request, template, has_data=True, indexing=left, **values)

    def _is_json_requested(self, request: Request) -> bool:
        """As `is_json_requested`: programs get all runs, or none.

        Raises:
            HTTPException: There is no such form (400), or runs are being indexed (503).
        """
        is_requested = is_json_requested(request)
        if is_requested and (left := self._library.left()):
            raise HTTPException(503, f"{left.sentence}\n", {"retry-after": RETRY_S})
        return is_requested

    def _missing(self, request: Request, text: str = "") -> HTMLResponse:
        text = text or "No run of the folders has this key; the list shows those that are there."
        return self._message(request, "Not found", text, 404)

    def _message(self, request: Request, title: str, text: str, status: int) -> HTMLResponse:
        return self._pages.page(request, "message.html.j2", status=status, title=title, text=text)


def _machine_choices(runs: Sequence[ListedRun]) -> list[tuple[str, str]]:
    texts = {one.row.machine: one.row.machine_text for one in runs}
    return sorted((key, clean(text)) for key, text in texts.items())


def _runs_of(series: Series) -> list[str]:
    """Keys of the runs behind the newest points of a series, earliest first."""
    keys = [key for point in series.points[-POINTS_MAX:] for key in point.runs]
    return keys[-RUNS_MAX:]


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


REASON_SIZE_MAX = 500


class IndexingPages:
    """A stream for the notice on other pages."""

    def __init__(self, library: Library, pages: Pages, streams: Streams) -> None:
        """Says what `library` does not show yet."""
        self._library = library
        self._pages = pages
        self._streams = streams

    def routes(self) -> list[Route]:
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


class DismissingPages:
    def __init__(self, library: Library, root: Path, pages: Pages) -> None:
        """Dismissals are written to `root`."""
        self._library = library
        self._root = root
        self._pages = pages

    def routes(self) -> list[Route]:
        return [Route("/changes/{key}/dismiss", self.dismiss, methods=["POST"])]

    async def dismiss(self, request: Request) -> Response:
        """Dismisses a suspicion for the reason in the form; without one it is open again."""
        try:
            fields = await posted(request)
            reason = fields.get("reason", [""])[0].strip()[:REASON_SIZE_MAX]
            await run_in_threadpool(self._dismiss, request.path_params["key"], reason)
        except (FormError, InputError) as error:
            status = 403 if isinstance(error, FormError) else 404
            return self._pages.page(
                request, "message.html.j2", status=status, title="Not done", text=str(error)
            )
        return RedirectResponse("/changes", 303)

    def _dismiss(self, key: str, reason: str) -> None:
        series = [one for name in self._library.targets() for one in self._library.series(name)]
        one = with_key(suspicions(series), key)
        dismissals.add(self._root, key, one.series.target, reason)
