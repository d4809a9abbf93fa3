"""Pages that read: runs, a run, two runs, targets, boards, changes, machines."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from jissoku.errors import InputError
from jissoku.model.history import IndexedRun
from jissoku.model.history_answer import MachineRatio, Series
from jissoku.pipeline.reports import experiment_text, report_text
from jissoku.records import dismissals
from jissoku.report import page
from jissoku.report.boards import BOARDS_LEAD, HEADER, Board, boards
from jissoku.report.format import TIMES, load_mark
from jissoku.report.history_html import POINTS_MAX, series_figure, series_sentences
from jissoku.report.history_text import (
    change_sentence,
    confirming_commands,
    multiple,
    no_confirmation,
    tau_sentence,
)
from jissoku.report.sanitize import clean
from jissoku.report.suspicions import Suspicion, divided, suspicions
from jissoku.report.tables import Table
from jissoku.ui.answers import Answer, answering
from jissoku.ui.experiments import experiment_folder, found_experiments
from jissoku.ui.library import Library
from jissoku.ui.machine_classes import machine_classes
from jissoku.ui.render import Pages
from jissoku.ui.runs_table import ListedRun, page_of, read_query
from jissoku.ui.two_runs import changes_table, pair_facts

TYPES = {
    "html": "text/html",
    "md": "text/markdown",
    "txt": "text/plain",
    "json": "application/json",
}

# Choices of a run to compare with, and links to the runs of a series.
OTHERS_MAX = RUNS_MAX = 100

# Links to the explanation of a run's targets.
EXPLAINED_MAX = 3

# Buttons that start a suspicion's measurement: of both programs together, or of one more occasion.
RACE, AGAIN = "Race them now", "Measure again"


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
            Route(run, self.run),
            *(Route(f"{run}/report.{kind}", self.report, name=kind) for kind in TYPES),
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
        """The list of runs."""
        query = read_query(request.query_params)
        runs = self._library.listed()
        found = page_of(runs, query)

        def sorted_by(name: str) -> str:
            turned = query.sort == name and not query.is_ascending
            return replace(query, sort=name, is_ascending=turned, after="").url

        return self._pages.page(
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

    def run(self, request: Request) -> Response:
        """A run: its report."""
        try:
            run = self._library.run(request.path_params["key"])
        except KeyError:
            return self._missing(request)
        problem, report = "", None
        try:
            report = page.content(report_text(Path(run.folder), "html"))
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
            again=[
                *(("target", name) for name in raced),
                ("path", run.row.path),
                ("connections", run.row.connections),
            ],
            explained=list(dict.fromkeys(raced))[:EXPLAINED_MAX],
            others=_likest(run, like or others)[:OTHERS_MAX],
        )

    def report(self, request: Request) -> Response:
        """A run's report as a file."""
        kind = request.url.path.rpartition(".")[2]
        try:
            run = self._library.run(request.path_params["key"])
            text = report_text(Path(run.folder), kind)
        except KeyError:
            return self._missing(request)
        except InputError as error:
            return self._message(request, "The report cannot be made", str(error), 409)
        headers = {}
        if kind == "html":
            # It has scripts and styles of its own: it is saved, and not shown under our origin.
            name = f"jissoku-{run.row.run[:8]}.html"
            headers["content-disposition"] = f'attachment; filename="{name}"'
        return Response(text, media_type=f"{TYPES[kind]}; charset=utf-8", headers=headers)

    def experiments(self, request: Request) -> Response:
        """Every experiment that has a run, newest first."""
        found = found_experiments(self._library.headers())
        return self._pages.page(request, "experiments.html.j2", experiments=found)

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
            report = page.content(experiment_text(folder))
        except InputError as error:
            return self._message(request, "The report cannot be made", str(error), 409)
        every = found_experiments(self._library.headers())
        known = next(one for one in every if one.folder == folder)
        return self._pages.page(request, "experiment_page.html.j2", known=known, report=report)

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
        return self._pages.page(
            request,
            "diff.html.j2",
            found=found,
            pair=list(zip(("Earlier", "Later"), found.runs, strict=True)),
            facts=pair_facts(found),
            changes=changes_table(found),
            answers=[answering(command) for command in confirming_commands(found)],
            tau=tau_sentence(found.tau),
        )

    def targets(self, request: Request) -> Response:
        """Every target that has a run."""
        newest: dict[str, str] = {}
        counts: Counter[str] = Counter()
        for run in self._library.headers():
            for name in {arm.target for arm in run.arms if not arm.is_control}:
                counts[name] += 1
                newest[name] = run.row.started_utc
        rows = [(name, counts[name], newest[name]) for name in sorted(newest)]
        return self._pages.page(request, "targets.html.j2", rows=rows)

    def target(self, request: Request) -> Response:
        """A target's cost over time, by the rules of docs/history.md."""
        name = request.query_params.get("name", "")
        if name not in self._library.targets():
            return self._missing(request, "No run has this target.")
        series = self._library.series(name)
        sections = [
            (series_figure(one, number), series_sentences(one), _runs_of(one), _answers(one))
            for number, one in enumerate(series)
        ]
        machines = [_machines_table(one) for one in self._library.machine_ratios(series)]
        return self._pages.page(
            request, "target.html.j2", name=name, sections=sections, machines=machines
        )

    def board(self, request: Request) -> Response:
        """The newest cost of every target, a table for each question."""
        found = boards(self._all_series())
        return self._pages.page(
            request,
            "board.html.j2",
            together=[(one, _together(one)) for one in found if not one.is_of_one_target],
            alone=[one for one in found if one.is_of_one_target],
            header=HEADER,
            lead=BOARDS_LEAD,
        )

    def changes(self, request: Request) -> Response:
        """Suspected changes of all targets."""
        series = self._all_series()
        suspected, dismissed = divided(suspicions(series), dismissals.read(self._library.roots))
        return self._pages.page(
            request,
            "changes.html.j2",
            changes=[
                (one.series.target, change_sentence(one.change), one.cause, _answer(one), one.key)
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
        found = machine_classes(library.headers(), library.checks(), library.machine_days())
        return self._pages.page(request, "machines.html.j2", machines=list(found))

    def _all_series(self) -> list[Series]:
        return [one for name in self._library.targets() for one in self._library.series(name)]

    def _missing(self, request: Request, text: str = "") -> HTMLResponse:
        text = text or "No run of the folders has this key; the list shows those that are there."
        return self._message(request, "Not found", text, 404)

    def _message(self, request: Request, title: str, text: str, status: int) -> HTMLResponse:
        return self._pages.page(request, "message.html.j2", status=status, title=title, text=text)


def _machine_choices(runs: Sequence[ListedRun]) -> list[tuple[str, str]]:
    texts = {one.row.machine: one.row.machine_text for one in runs}
    return sorted((key, clean(text)) for key, text in texts.items())


def _likest(run: IndexedRun, others: Sequence[IndexedRun]) -> list[IndexedRun]:
    """Those with the most targets of the run first; of these, the newest first."""
    names = {arm.target for arm in run.arms}
    newest_first = reversed(others)
    return sorted(newest_first, key=lambda one: -len(names & {arm.target for arm in one.arms}))


def _together(board: Board) -> list[tuple[str, str]]:
    """Fields of the form that measures a board's targets together."""
    workload = answering(board.series[0].race).fields or ()
    targets = dict.fromkeys(one.target for one in board.series)
    return [
        *(("target", name) for name in targets),
        *((name, value) for name, value in workload if name != "target"),
    ]


def _runs_of(series: Series) -> list[str]:
    """Keys of the runs behind the newest points of a series, earliest first."""
    keys = [key for point in series.points[-POINTS_MAX:] for key in point.runs]
    return keys[-RUNS_MAX:]


def _answers(series: Series) -> list[tuple[str, Answer]]:
    """What to measure about a series: each suspicion, or the target once more. With its label."""
    found = [_answer(one) for one in suspicions([series])]
    if not found:
        return [(AGAIN, answering(series.race))]
    by_command = {answer.command: (label, answer) for label, _, answer in found}
    return list(by_command.values())


def _answer(one: Suspicion) -> tuple[str, str, Answer]:
    """The label of a suspicion's button, why both cannot be measured together, and the command."""
    if one.change.confirmation is not None:
        return RACE, "", answering(one.change.confirmation.command)
    return AGAIN, no_confirmation(one.change), answering(one.series.race)


def _machines_table(one: MachineRatio) -> tuple[str, Table]:
    title = f"{one.target} as a multiple of {one.anchor}, {load_mark(one.load)}"
    rows = tuple((clean(machine), multiple(ratio)) for machine, ratio in one.rows)
    return f"{title}, {one.workload_text}", Table(header=("machine", TIMES), rows=rows)
