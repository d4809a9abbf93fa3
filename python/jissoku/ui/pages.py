"""Pages that read: runs, experiments, two runs, targets, boards, changes, machines, servers.

A run is found by its key only, never by a path.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from jissoku.errors import InputError
from jissoku.inference.series import machine_ratios
from jissoku.measure.reports import experiment_text, report_text
from jissoku.model import Run
from jissoku.model.history import IndexedRun, Series
from jissoku.records import files
from jissoku.records.files import CAMPAIGNS_MIN
from jissoku.records.run_folder import RUN_FILE
from jissoku.report import history, page
from jissoku.report.format import clean
from jissoku.request import AnyRequest
from jissoku.ui import forms, page_data, run_index
from jissoku.ui.analyses import content, record_data
from jissoku.ui.quiet import Look
from jissoku.ui.render import Fields, Page, PageError, Site, is_json_requested, json_response
from jissoku.ui.run_index import RunIndex
from jissoku.ui.watched_servers import shown

# Links to the runs of a series.
RUNS_MAX = 100

# The files of a run's report, by suffix.
REPORT_TYPES = {"html": "text/html", "json": "application/json", "txt": "text/plain"}

# Choices of a run to compare with, and links to the explanation of a run's targets.
OTHERS_MAX, EXPLAINED_MAX = 100, 3

NO_RUN = "No run of the folders has this key; the list shows those that are there."


def runs(site: Site, request: Request) -> Page:
    query = run_index.read_query(request.query_params)
    listed = site.runs.listed()
    every = run_index.runs_found(listed, query)
    found = run_index.page_of(every, query)

    def sorted_by(name: str) -> str:
        turned = query.sort == name and not query.is_ascending
        return replace(query, sort=name, is_ascending=turned, after="").url

    machines = {one.row.machine: one.row.machine_text for one in listed}
    above = {run.row.run: str(Path(run.folder).parent) for run in found.runs}
    has_series = any(run.row.verb in run_index.SERIES for run in found.runs)
    analyses = {str(one.folder): one for one in site.runs.analyses()} if has_series else {}
    values = {
        "series": {key: analyses[folder] for key, folder in above.items() if folder in analyses},
        "query": query,
        "page": found,
        "sorted_by": sorted_by,
        "next_page": replace(query, after=found.next_after).url,
        "commands": sorted({one.row.verb for one in listed}),
        "machines": sorted((key, clean(text)) for key, text in machines.items()),
        "notes": site.runs.notes,
        "roots": [str(root) for root in site.runs.roots],
    }
    return Page(
        "runs.html.j2",
        values,
        lambda: page_data.runs_data(one.run for one in every),
        lists_runs=True,
    )


def run(site: Site, request: Request) -> Page | Response:
    found = _run_of(site.runs, request)
    if is_json_requested(request):
        return _report(found, "json")
    problem, report = "", None
    try:
        report = _report_on_page(found.row.run, found.folder, found.unfinished)
    except InputError as error:
        problem = str(error)
    folder = run_index.experiment_folder(found)
    raced = [arm.target for arm in found.arms if not (arm.is_floor or arm.is_control)]
    others = [one for one in site.runs.headers() if one.row.run != found.row.run]
    like = [one for one in others if one.row.workload == found.row.workload]
    values = {
        "run": found,
        "report": report,
        "problem": problem,
        "experiment": found.row.experiment or folder.name if folder else "",
        "targets": sorted({arm.target for arm in found.arms if not arm.is_control}),
        "again": _again(found),
        "asked": found.row.asked,
        "explained": list(dict.fromkeys(raced))[:EXPLAINED_MAX],
        "others": _likest(found, like or others)[:OTHERS_MAX],
    }
    return Page("run.html.j2", values)


def run_report(site: Site, request: Request) -> Response:
    return _report(_run_of(site.runs, request), request.url.path.rpartition(".")[2])


def experiments(site: Site, _: Request) -> Page:
    values = {"experiments": run_index.found_experiments(site.runs.headers())}
    return Page("experiments.html.j2", values, lambda: values, lists_runs=True)


def experiment(site: Site, request: Request) -> Page | Response:
    folder = run_index.experiment_folder(_run_of(site.runs, request))
    if folder is None:
        raise PageError("Not found", "This run belongs to no experiment.", 404)
    try:
        if is_json_requested(request):
            # It has all of its runs, also while others are indexed.
            return json_response(experiment_text(folder, "json"))
        report = page.content(experiment_text(folder))
    except InputError as error:
        raise PageError("The report cannot be made", str(error), 409) from error
    every = run_index.found_experiments(site.runs.headers())
    known = next(one for one in every if one.folder == folder)
    values = {"known": known, "report": report}
    return Page("experiment_page.html.j2", values, dict, lists_runs=True)


def analyses(site: Site, _: Request) -> Page:
    values = {"analyses": site.runs.analyses()}
    return Page("analyses.html.j2", values, lambda: values)


def analysis(site: Site, request: Request) -> Page:
    key = request.path_params["key"]
    found = next((one for one in site.runs.analyses() if one.key == key), None)
    if found is None:
        raise PageError("Not found", "There is no explanation, tuning or profile here.", 404)
    problem, report = found.problem, ""
    if not problem:
        try:
            report = content(found, site.draw)
        except InputError as error:
            problem = str(error)
    above = str(found.folder)
    values = {
        "found": found,
        "problem": problem,
        "report": report,
        "is_text": not isinstance(report, Markup),
        "again": found.request,
        "runs": [
            run
            for run in site.runs.headers()
            if above in {run.folder, str(Path(run.folder).parent)}
        ],
    }
    return Page("analysis.html.j2", values, None if problem else lambda: record_data(found))


def diff(site: Site, request: Request) -> Page:
    keys = request.query_params.getlist("run")
    if len(set(keys)) != 2:
        raise PageError("Select two runs", "Exactly two runs of the list are compared.", 400)
    try:
        found = site.runs.difference(keys[0], keys[1])
    except KeyError as error:
        raise PageError("Not found", NO_RUN, 404) from error
    values = {
        "found": found,
        "pair": list(zip(("Earlier", "Later"), found.runs, strict=True)),
        "facts": page_data.pair_facts(found),
        "changes": page_data.changes_table(found),
        "answers": history.confirming_requests(found),
    }
    return Page("diff.html.j2", values, lambda: found, lists_runs=True)


def targets(site: Site, _: Request) -> Page:
    newest: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for one in site.runs.headers():
        for name in {arm.target for arm in one.arms if not arm.is_control}:
            counts[name] += 1
            newest[name] = one.row.started_utc
    rows = [(name, counts[name], newest[name]) for name in sorted(newest)]
    columns = ("target", "runs", "newest_utc")
    return Page(
        "targets.html.j2",
        {"rows": rows},
        lambda: {"targets": [dict(zip(columns, row, strict=True)) for row in rows]},
        lists_runs=True,
    )


def target(site: Site, request: Request) -> Page:
    """A target's cost over time, by the rules of docs/history.md."""
    name = request.query_params.get("name", "")
    if name not in site.runs.targets():
        raise PageError("Not found", "No run has this target.", 404)
    series = site.runs.series(name)
    ratios = machine_ratios(series)
    values = {
        "name": name,
        "series": series,
        "machines": ratios,
        "runs_of": _runs_of,
        "answers_of": forms.answers_of_series,
        "machines_table": page_data.machines_table,
    }
    data = {"target": name, "series": series, "machines": ratios}
    return Page("target.html.j2", values, lambda: data, lists_runs=True)


def board(site: Site, _: Request) -> Page:
    found = {"boards": history.boards(site.runs.all_series())}
    values = {**found, "request_of": forms.request_of_board}
    return Page("board.html.j2", values, lambda: found, lists_runs=True)


def changes(site: Site, _: Request) -> Page:
    every = history.suspicions(site.runs.all_series())
    suspected, dismissed = history.divided(every, files.read_dismissals(site.runs.roots))
    values = {
        "suspected": suspected,
        "dismissed": dismissed,
        "answer_of": forms.answer_of_suspicion,
    }
    return Page(
        "changes.html.j2",
        values,
        lambda: page_data.changes_data(suspected, dismissed),
        lists_runs=True,
    )


def dismiss(site: Site, request: Request, fields: Fields) -> str:
    """Dismisses a suspicion for the reason in the form; without one it is open again."""
    assert site.jobs is not None, "nothing is changed by read-only pages"
    key = request.path_params["key"]
    reason = fields.get("reason", [""])[0].strip()[:500]
    try:
        one = history.with_key(history.suspicions(site.runs.all_series()), key)
        files.dismiss(site.jobs.root, key, one.series.target, reason)
    except InputError as error:
        raise PageError("Not done", str(error), 404) from error
    return "/changes"


def machines(site: Site, _: Request) -> Page:
    index = site.runs
    found = list(page_data.machine_classes(index.headers(), index.checks(), index.machine_days()))
    values = {
        "machines": found,
        "campaigns": forms.CAMPAIGNS,
        "campaigns_max": forms.CAMPAIGNS_MAX,
        "campaigns_kept": CAMPAIGNS_MIN,
    }
    return Page("machines.html.j2", values, lambda: {"machines": found}, lists_runs=True)


def servers(site: Site, _: Request) -> Page:
    values = {"servers": _figures(site), "version": _version(site)}

    def data() -> object:
        return {
            "servers": [
                {"server": one.where, "problem": one.problem, "rates": one.rates()}
                for one in site.servers
            ]
        }

    return Page("servers.html.j2", values, data)


def server_figures(site: Site, request: Request) -> Look:
    seen = request.headers.get("last-event-id", request.query_params.get("after", ""))

    def look() -> tuple[str, str, str] | None:
        nonlocal seen
        found = _figures(site)
        if _version(site) == seen:
            return None
        seen = _version(site)
        return "progress", seen, site.fill("server_figures.html.j2", servers=found)

    return look


def indexing(site: Site, _: Request) -> Look:
    """How many runs are left to be indexed whenever that has changed, until none is."""
    before = ""

    def look() -> tuple[str, str, str] | None:
        nonlocal before
        left = site.runs.left()
        earlier, before = before, site.fill("indexing.html.j2", indexing=left)
        return None if before == earlier else ("progress" if left else "done", "", before)

    return look


def _figures(site: Site) -> list[dict[str, object]]:
    for server in site.servers:
        server.look()
    return [shown(server, number) for number, server in enumerate(site.servers)]


def _version(site: Site) -> str:
    return "-".join(str(server.version) for server in site.servers)


def _run_of(index: RunIndex, request: Request) -> IndexedRun:
    try:
        return index.run(request.path_params["key"])
    except KeyError as error:
        raise PageError("Not found", NO_RUN, 404) from error


def _report(run: IndexedRun, kind: str) -> Response:
    try:
        text = report_text(Path(run.folder), kind)
    except InputError as error:
        raise PageError("The report cannot be made", str(error), 409) from error
    headers = {}
    if kind == "html":
        # It has scripts and styles of its own: it is saved, and not shown under our origin.
        name = f"jissoku-{run.row.run[:8]}.html"
        headers["content-disposition"] = f'attachment; filename="{name}"'
    media_type = f"{REPORT_TYPES[kind]}; charset=utf-8"
    return Response(text, media_type=media_type, headers=headers)


@lru_cache(maxsize=16)  # Of a quick run of seven one has 120 KB, and takes 0.3 s to be made.
def _report_on_page(key: str, folder: str, unfinished: str) -> Markup:
    """A run's report as a part of its page, made again when its records have changed."""
    del key, unfinished
    return page.content(report_text(Path(folder), "html"))


def _again(run: IndexedRun) -> AnyRequest:
    """What the run was asked; of an older one, what its record says of it."""
    try:
        header = files.load(Path(run.folder) / RUN_FILE, Run)
    except InputError:
        header = None  # The page says why its records cannot be read.
    return (header and header.request) or run.row.asked


def _likest(run: IndexedRun, others: Sequence[IndexedRun]) -> list[IndexedRun]:
    """The other runs: those that share most targets with this one first, then the newest."""
    names = {arm.target for arm in run.arms}
    newest_first = reversed(others)
    return sorted(newest_first, key=lambda one: -len(names & {arm.target for arm in one.arms}))


def _runs_of(series: Series) -> list[str]:
    """Keys of the runs behind the newest points of a series, earliest first."""
    keys = [key for point in series.points[-history.POINTS_MAX :] for key in point.runs]
    return keys[-RUNS_MAX:]
