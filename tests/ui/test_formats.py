"""Every page with data gives it as text, Markdown, JSON and CSV: the same as the page shows."""

import csv
import io
import json
import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import pytest
from click.testing import CliRunner

from jissoku.cli.commands import jissoku
from jissoku.model.event import EventKind
from jissoku.pipeline.reports import experiment_text, report_text
from jissoku.report.documents import Sheet, sheet_csv
from jissoku.ui.formats import TYPES
from jissoku.ui.jobs import JobQueue
from jissoku.ui.library import Library
from jissoku.ui.pages import ReadingPages
from jissoku.ui.render import Pages
from jissoku.ui.run_pages import RunPages
from jissoku.ui.runner import Runner
from jissoku.ui.server_pages import ServerPages
from jissoku.ui.starting import JobPages, Starting
from jissoku.ui.streams import Streams
from tests.ui.conftest import Client
from tests.ui.measurement import Measured, event, measured, post, trial, wait_for
from tests.ui.suspicion import record
from tests.ui.watched_server import Running

pytestmark = pytest.mark.timeout(200)

# By route: a page, a column of its sheet whose every value the page shows, and the number of rows
# where that is known. `RUN`, `OTHER` and `WORKLOAD` are keys of runs.
PAGES = {
    "/": ("/", "run", 8),
    "/?text": ("/?text=repeatability&sort=trials", "run", 3),
    "/runs/{key}": ("/runs/RUN", "arm", None),
    "/experiments": ("/experiments", "experiment", 1),
    "/runs/{key}/experiment": ("/runs/WORKLOAD/experiment", "claim", 7),
    "/diff": ("/diff?run=RUN&run=OTHER", "arm", None),
    "/targets": ("/targets", "target", None),
    "/target": ("/target?name=go", "version", None),
    "/board": ("/board", "target", None),
    "/machines": ("/machines", "day", None),
}
# They need a suspicion, a job or a server, and have tests of their own below.
OTHERS = {"/changes", "/jobs", "/jobs/{key}", "/servers"}
# Forms, streams, and files of a report.
WITHOUT_DATA = {"/start", "/jobs/{key}/stream", "/servers/stream"}


@pytest.fixture(scope="session")
def keys(client: Client) -> dict[str, str]:
    def of(text: str) -> list[str]:
        return re.findall(r'href="/runs/([\w-]+)"', client.get(f"/?text={text}").text)

    first, second, _ = of("repeatability")
    return {"RUN": first, "OTHER": second, "WORKLOAD": of("picohttpparser")[0]}


def address(path: str, keys: dict[str, str]) -> str:
    for name, key in keys.items():
        path = path.replace(name, key)
    return path


def in_form(client: Client, path: str, kind: str) -> str:
    separator = "&" if "?" in path else "?"
    answer = client.get(f"{path}{separator}format={kind}")
    assert answer.status == 200, answer.text
    assert answer.headers["content-type"] == f"{TYPES[kind]}; charset=utf-8"
    return answer.text


def rows_of(client: Client, path: str) -> list[dict[str, str]]:
    lines = list(csv.reader(io.StringIO(in_form(client, path, "csv"))))
    assert all(len(line) == len(lines[0]) for line in lines)
    return [dict(zip(lines[0], line, strict=True)) for line in lines[1:]]


def check_forms(client: Client, path: str, column: str, count: int | None) -> None:
    page = client.get(path)
    assert page.status == 200
    shown = unescape(page.text)
    rows = rows_of(client, path)
    assert rows
    assert count is None or len(rows) == count
    for row in rows:
        assert row[column]
        assert row[column] in shown
        assert row[column] in json.dumps(json.loads(in_form(client, path, "json")))
    links = re.findall(r'href="([^"]*(?:format=|/report\.)(txt|md|json|csv))"', page.text)
    assert {kind for _, kind in links} == set(TYPES)
    for link, kind in links:
        assert client.get(unescape(link)).headers["content-type"].startswith(TYPES[kind])
    assert in_form(client, path, "txt").endswith("\n")
    assert re.match(r"# |\*\*", in_form(client, path, "md"))


@pytest.mark.slow
@pytest.mark.parametrize("route", PAGES)
def test_every_form_has_the_data_of_the_page(
    client: Client, keys: dict[str, str], route: str
) -> None:
    path, column, count = PAGES[route]
    check_forms(client, address(path, keys), column, count)


def test_no_page_is_missing_here(tmp_path: Path) -> None:
    library, pages, streams, queue = Library([]), Pages(), Streams(), JobQueue(tmp_path)
    starting = Starting(
        queue=queue,
        runner=Runner(queue),
        root=tmp_path,
        library=library,
        check=lambda _: None,
        allows_commands=False,
    )
    routes = [
        *ReadingPages(library, pages).routes(),
        *RunPages(library, pages).routes(),
        *JobPages(starting, pages, streams).routes(),
        *ServerPages((), pages, streams).routes(),
    ]
    found = {route.path for route in routes if "GET" in (route.methods or ())}
    found = {path for path in found if "/report." not in path}
    assert found - WITHOUT_DATA == {route for route in PAGES if "?" not in route} | OTHERS


def test_a_list_has_all_pages_of_what_was_found_and_no_more(client: Client) -> None:
    last = client.get("/").text.rpartition('name="run" value="')[2].partition('"')[0]
    assert len(rows_of(client, f"/?after={last}")) == 8
    assert "format=csv" in client.get(f"/?after={last}&text=parsers").text
    assert "after=" not in client.get(f"/?after={last}").text.rpartition("This page as")[2]


@pytest.mark.slow
def test_text_is_what_the_command_prints(
    client: Client, keys: dict[str, str], some_records: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    where = ["--records", str(some_records)]
    for path, command in {
        "/": ["history", *where],
        "/target?name=go": ["history", "go", *where],
        "/changes": ["history", "--changes", *where],
        "/diff?run=RUN&run=OTHER": ["diff", keys["OTHER"], keys["RUN"], *where],
    }.items():
        printed = CliRunner().invoke(jissoku, command).stdout
        assert in_form(client, address(path, keys), "txt") == printed, path


@pytest.mark.slow
def test_reports_are_those_of_the_records(
    client: Client, keys: dict[str, str], some_records: Path
) -> None:
    folder = some_records / "repeatability"
    runs = {run["run"]: run["folder"] for run in rows_of(client, "/")}
    for kind in ("txt", "md", "json"):
        report = in_form(client, f"/runs/{keys['RUN']}", kind)
        assert report == report_text(Path(runs[keys["RUN"]]), kind)
        assert Path(runs[keys["RUN"]]).parent == folder
        of_experiment = in_form(client, f"/runs/{keys['WORKLOAD']}/experiment", kind)
        assert of_experiment == experiment_text(some_records / "parsers", kind)


def test_another_form_is_refused_and_the_page_itself_has_a_name(client: Client) -> None:
    answer = client.get("/?format=exe<script>")
    assert answer.status == 400
    assert answer.text == "There is no such format: it is html, txt, md, json, csv.\n"
    assert "<h1>Runs</h1>" in client.get("/?format=html").text


def test_that_nothing_is_suspected_is_a_sentence(tmp_path: Path, index_cache: Path) -> None:
    record(tmp_path / "runs" / "one", 1, "0.1.0", 7_000)
    with measured(tmp_path / "runs", index_cache) as live:
        assert rows_of(live.client, "/changes") == []
        for kind in ("txt", "md"):
            assert "No change is suspected." in in_form(live.client, "/changes", kind)
        assert "1 run, 2026-11-01" in in_form(live.client, "/machines", "txt")


def test_no_form_without_a_session(client: Client) -> None:
    for kind in TYPES:
        assert Client(client.port).get(f"/?format={kind}").status == 403


def test_names_are_no_formulas_and_no_markup(client: Client) -> None:
    sheet = Sheet(columns=("a", "b"), rows=(('=cmd|"/c calc"', -1.5), ("@x\x1b[31m", None)))
    lines = list(csv.reader(io.StringIO(sheet_csv(sheet))))
    assert lines == [["a", "b"], ['\'=cmd|"/c calc"', "-1.5"], ["'@x", ""]]
    markdown = in_form(client, "/machines", "md")
    assert "<script" not in markdown.replace("\\<script", "")


@pytest.fixture
def live(tmp_path: Path, index_cache: Path) -> Iterator[Measured]:
    records = tmp_path / "earlier"
    record(records / "one", 1, "0.1.0", 7_000)
    record(records / "two", 2, "0.2.0", 9_500)
    with measured(tmp_path / "runs", index_cache, more=(records,)) as found:
        yield found


@pytest.mark.slow
def test_changes_in_every_form(live: Measured) -> None:
    check_forms(live.client, "/changes", "version_after", None)
    (row,) = [row for row in rows_of(live.client, "/changes") if row["load"] == "medium"][:1]
    assert 1.2 < float(row["low"]) < float(row["ratio"]) < float(row["high"]) < 1.6
    path = f"/changes/{row['key']}/dismiss"
    post(live.client, path, ("reason", "another compiler"))
    dismissed = {row["key"]: row["dismissed"] for row in rows_of(live.client, "/changes")}
    assert dismissed[row["key"]] == "another compiler"
    assert "another compiler" in in_form(live.client, "/changes", "txt")


@pytest.mark.slow
def test_jobs_in_every_form(live: Measured) -> None:
    jobs = [post(live.client, "/start/compare", ("target", "jissoku")) for _ in range(2)]
    wait_for(lambda: "Running." in live.client.get(jobs[0]).text)
    check_forms(live.client, "/jobs", "title", 2)
    waiting, running = rows_of(live.client, "/jobs")
    assert (waiting["state"], waiting["place"]) == ("waiting", "1")
    assert (running["state"], running["place"]) == ("running", "")
    assert float(waiting["starts_s_min"]) == pytest.approx(float(running["left_s_min"]), abs=1)
    assert running["command"].startswith("jissoku compare --out=")
    with live.saying() as say:
        say(event(EventKind.START, pid=1))
        say(trial(0, "jissoku"))
        wait_for(lambda: "1 of 8" in live.client.get(jobs[0]).text)
        check_forms(live.client, jobs[0], "arm", 1)
        value = json.loads(in_form(live.client, jobs[0], "json"))
        assert (value["trials_done"], value["trials_total"]) == (1, 8)


def test_servers_in_every_form(running: Running, tmp_path: Path, index_cache: Path) -> None:
    with measured(tmp_path / "runs", index_cache, metrics=(running.where,)) as live:
        live.client.get("/servers")
        check_forms(live.client, "/servers", "server", None)
        assert float(rows_of(live.client, "/servers")[0]["requests_rps"]) >= 0
        assert "bytes sent" in in_form(live.client, "/servers", "txt")
