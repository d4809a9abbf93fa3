"""Pages that start, show and cancel jobs."""

import datetime as dt
import shlex
from collections.abc import Callable, Mapping, Sequence
from itertools import dropwhile
from pathlib import Path
from urllib.parse import parse_qs

from starlette.requests import Request

from jissoku.design.sampling_plan import MINUTES_MAX
from jissoku.errors import InputError
from jissoku.measure.selection import folder_for
from jissoku.model import Axis
from jissoku.records.run_folder import DOCUMENTS, is_experiment, run_folders, run_key
from jissoku.request import from_argv
from jissoku.system.processes import read_living
from jissoku.ui.analyses import analysis_in
from jissoku.ui.forms import FORMS, WORD, Choices, JobRequest, catalogue, form_values, read_form
from jissoku.ui.job_progress import Position, Progress, job_times, log_end, read_position
from jissoku.ui.jobs import Job, JobServices, log_file
from jissoku.ui.page_data import job_data, jobs_data
from jissoku.ui.quiet import Look
from jissoku.ui.render import Fields, Page, PageError, Site

# Of pages to be published, below the folder of the queue, in which no run is looked for.
PUBLISHED = "published"
PATHS = ("/", "/42", "/files/1k.bin", "/files/10k.bin", "/files/100k.bin", "/delay?ms=10")


def forms(site: Site, request: Request) -> Page:
    values: dict[str, list[str]] = parse_qs(request.url.query)
    kind, problem = "compare", ""
    try:
        if words := values.pop(WORD, []):
            asked, kind = from_argv(words), words[0]
            values = form_values(asked) | values
    except InputError as error:
        problem = str(error)
    filled: dict[str, Fields] = {kind: values}
    if "explain" in values:
        workload = {name: values[name] for name in FORMS["explain"] if name in values}
        filled["explain"] = workload | {"target": values["explain"]}
    return _forms(site, filled, problem)


def start(site: Site, request: Request, fields: Fields) -> Page | str:
    kind, services = request.path_params["kind"], _services(site)
    try:
        asked = read_form(kind, fields, _choices(site, kind))
        root = services.queue.folder / PUBLISHED if kind == "publish" else services.root
        folder = root / folder_for(*asked.names).name
        arguments = asked.placed(folder)
        services.check(arguments)
        if asked.is_own and fields.get("confirmed") != ["yes"]:
            kept = [(name, value) for name, values in fields.items() for value in values]
            confirmed = {
                "kind": kind,
                "fields": [(name, value) for name, value in kept if name != "form_key"],
                "arguments": ["jissoku", *arguments],
            }
            return Page("confirm.html.j2", confirmed)
        job = _add(services, asked, folder)
    except InputError as error:
        return _forms(site, {kind: fields}, str(error))
    return f"/jobs/{job.id}"


def jobs(site: Site, _: Request) -> Page:
    services = _services(site)
    every, is_held = services.queue.jobs(), services.runner.is_held()
    times = job_times(every, is_held=is_held)
    shown = [(job, times.get(job.id)) for job in reversed(every)]
    values = {"jobs": shown, "is_held": is_held, "now": dt.datetime.now(dt.UTC)}
    return Page("jobs.html.j2", values, lambda: jobs_data(shown))


def job(site: Site, request: Request) -> Page:
    services = _services(site)
    found = _job_of(services, request)
    folder, verb = Path(found.folder), found.arguments[0]
    progress = Progress()
    position = progress.follow(folder, Position())
    # The run that is measured now, of an experiment with several.
    progress.read_values(folder / position.part)
    is_held = services.runner.is_held()
    times = job_times(services.queue.jobs(), is_held=is_held).get(found.id)
    values = {
        "job": found,
        "verb": verb,
        "progress": progress,
        "position": str(position),
        "ahead": max(0, times.place - 1) if times else 0,
        "is_held": is_held,
        "takes": times.takes.text if times else "",
        "starts": times.starts_text(dt.datetime.now(dt.UTC)) if times else "",
        "command": shlex.join(("jissoku", *found.arguments)),
        "log": "" if found.is_waiting else log_end(log_file(services.queue, found)),
        "runs": _runs(folder) if verb in FORMS else [],
        "analysis": next(filter(None, (analysis_in(folder, name) for name in DOCUMENTS)), None),
        "is_experiment": is_experiment(folder),
    }
    return Page("job.html.j2", values, lambda: job_data(found, times, progress))


def cancel(site: Site, request: Request, _: Fields) -> str:
    return _changed(request, _services(site).runner.cancel)


def put_first(site: Site, request: Request, _: Fields) -> str:
    return _changed(request, _services(site).queue.put_first)


def job_events(site: Site, request: Request) -> Look:
    services = _services(site)
    key = _job_of(services, request).id
    given = request.query_params.get("after", "")
    seen = read_position(request.headers.get("last-event-id", given))
    progress, position = Progress(), Position()
    state = request.query_params.get("state", "")

    def look() -> tuple[str, str, str] | None:
        nonlocal position
        found = services.queue.job(key)
        if found.state != state or not found.is_live:
            return "reload", str(position), found.state
        before, folder = position, Path(found.folder)
        position = progress.follow(folder, position)
        if position in {before, seen}:
            return None
        progress.read_values(folder / position.part)
        return "progress", str(position), site.fill("progress.html.j2", progress=progress)

    return look


def _services(site: Site) -> JobServices:
    assert site.jobs is not None, "read-only pages have none of these routes"
    return site.jobs


def _job_of(services: JobServices, request: Request) -> Job:
    try:
        return services.queue.job(request.path_params["key"])
    except KeyError as error:
        raise PageError("Not found", "There is no job with this key.", 404) from error


def _changed(request: Request, change: Callable[[str], None]) -> str:
    key = request.path_params["key"]
    try:
        change(key)
    except InputError as error:
        raise PageError("Not done", str(error), 500) from error
    except KeyError as error:
        raise PageError("Not found", "There is no job with this key.", 404) from error
    return f"/jobs/{key}"


def _add(services: JobServices, asked: JobRequest, folder: Path) -> Job:
    """A folder that another job has already gets a number."""
    taken = {job.folder for job in services.queue.jobs()}
    free, number = folder, 1
    while str(free) in taken or free.exists():
        number += 1
        free = folder.with_name(f"{folder.name}-{number}")
    takes = asked.takes.low_s, asked.takes.high_s
    return services.queue.add(asked.title, asked.placed(free), free, takes)


def _choices(site: Site, kind: str) -> Choices:
    known = catalogue()
    runs = site.runs.headers() if kind == "publish" else ()
    return Choices(
        targets={recipe.name for recipe in known.available},
        experiments=[name for name, _, _ in known.experiments],
        knobs={one.name: [knob.name for knob in one.knob] for one in known.available},
        allows_commands=_services(site).allows_commands,
        folders={run.row.run: run.folder for run in runs},
        roots=[str(root) for root in site.runs.roots if root.is_dir()],
    )


def _forms(site: Site, filled: Mapping[str, Fields], problem: str) -> Page:
    """The forms, some of them filled in, by kind."""
    known, asked = catalogue(), filled.get("compare", {})
    has_targets = bool({"--group", "--cmd", "--url"} & {*asked.get(WORD, ())})
    others = {kind: _options(values.get(WORD, ())) for kind, values in filled.items()}
    shown = {
        "known": known,
        "chosen": asked.get("target") or (() if has_targets else known.defaults),
        "filled": filled,
        "others": {kind: shlex.join(words) for kind, words in others.items()},
        "problem": problem,
        "tunable": [one for one in known.available if one.knob],
        "axes": [str(axis) for axis in Axis],
        "paths": PATHS,
        "minutes": MINUTES_MAX,
        "allows_commands": _services(site).allows_commands,
    }
    return Page("start.html.j2", shown, status=400 if problem else 200)


def _options(words: Sequence[str]) -> list[str]:
    """The words of a command without its name and its targets, which come first."""
    return list(dropwhile(lambda word: not word.startswith("-"), words))


def _runs(folder: Path) -> list[tuple[str, str]]:
    """Key and name of each run that a job has made."""
    places = run_folders(folder) if folder.is_dir() else ()
    return [(key, place.name) for place, key in read_living(places, run_key)]
