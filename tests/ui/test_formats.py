"""Every page with data gives it as JSON: the same as the page shows."""

import json
import math
import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from jissoku.measure.reports import experiment_text, report_text
from jissoku.model.trial import EventKind
from jissoku.ui import server
from tests.ui.conftest import Client
from tests.ui.measurement import Measured, event, measured, post, trial, wait_for
from tests.ui.suspicion import record
from tests.ui.watched_server import Running

pytestmark = pytest.mark.timeout(200)

# By route: a page, where its rows are in the data, a field of which the page shows every value, and
# the number of rows where that is known. `RUN`, `OTHER` and `WORKLOAD` are keys of runs.
PAGES = {
    "/": ("/", "runs", "run", 8),
    "/?text": ("/?text=repeatability&sort=trials", "runs", "run", 3),
    "/experiments": ("/experiments", "experiments", "name", 1),
    "/diff": ("/diff?run=RUN&run=OTHER", "changes", "arm", None),
    "/targets": ("/targets", "targets", "target", None),
    "/target": ("/target?name=go", "series", "arm", None),
    "/board": ("/board", "boards", "title", None),
    "/machines": ("/machines", "machines", "text", None),
}
# Their data are their reports.
REPORTS = {"/runs/{key}", "/runs/{key}/experiment"}
# They need a suspicion, a job, a server or an analysis, and have tests of their own.
OTHERS = {"/changes", "/jobs", "/jobs/{key}", "/servers", "/analyses", "/analyses/{key}"}
# Forms.
WITHOUT_DATA = {"/start"}


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


def values_of(client: Client, path: str) -> Any:
    separator = "&" if "?" in path else "?"
    answer = client.get(f"{path}{separator}format=json")
    assert answer.status == 200, answer.text
    assert answer.headers["content-type"] == "application/json; charset=utf-8"
    return json.loads(answer.text)


def check_data(client: Client, path: str, part: str, field: str, count: int | None) -> None:
    page = client.get(path)
    assert page.status == 200
    shown = unescape(page.text)
    rows = values_of(client, path)[part]
    assert rows
    assert count is None or len(rows) == count
    for row in rows:
        assert row[field]
        assert str(row[field]) in shown
    (link,) = re.findall(r'href="([^"]*format=json)"', page.text)
    assert client.get(unescape(link)).status == 200


@pytest.mark.slow
@pytest.mark.parametrize("route", PAGES)
def test_the_data_are_those_of_the_page(client: Client, keys: dict[str, str], route: str) -> None:
    path, part, field, count = PAGES[route]
    check_data(client, address(path, keys), part, field, count)


def test_no_page_is_missing_here() -> None:
    found = {path for path in server.PAGES | server.JOB_PAGES if "/report." not in path}
    assert found - WITHOUT_DATA == {route for route in PAGES if "?" not in route} | OTHERS | REPORTS


def test_a_list_has_all_pages_of_what_was_found_and_no_more(client: Client) -> None:
    last = client.get("/").text.rpartition('name="run" value="')[2].partition('"')[0]
    assert len(values_of(client, f"/?after={last}")["runs"]) == 8
    assert "format=json" in client.get(f"/?after={last}&text=parsers").text
    assert "after=" not in client.get(f"/?after={last}").text.rpartition("This page as")[2]


@pytest.mark.slow
def test_reports_are_those_of_the_records(
    client: Client, keys: dict[str, str], some_records: Path
) -> None:
    runs = {run["run"]: Path(run["folder"]) for run in values_of(client, "/")["runs"]}
    run = f"/runs/{keys['RUN']}"
    assert runs[keys["RUN"]].parent == some_records / "repeatability"
    for kind in ("txt", "json"):
        assert client.get(f"{run}/report.{kind}").text == report_text(runs[keys["RUN"]], kind)
    assert client.get(f"{run}?format=json").text == client.get(f"{run}/report.json").text
    of_experiment = client.get(f"/runs/{keys['WORKLOAD']}/experiment?format=json").text
    assert of_experiment == experiment_text(some_records / "parsers", "json")


def test_another_form_is_refused_and_the_page_itself_has_a_name(client: Client) -> None:
    for kind in ("exe<script>", "csv", "txt"):
        answer = client.get(f"/?format={kind}")
        assert answer.status == 400
        assert answer.text == "There is no such format: it is html or json.\n"
    assert "<h1>Runs</h1>" in client.get("/?format=html").text


def test_no_change_is_an_empty_list(tmp_path: Path, index_cache: Path) -> None:
    record(tmp_path / "runs" / "one", 1, "0.1.0", 7_000)
    with measured(tmp_path / "runs", index_cache) as live:
        assert values_of(live.client, "/changes") == {"changes": []}


def test_no_data_without_a_session(client: Client) -> None:
    assert Client(client.port).get("/?format=json").status == 403


@pytest.fixture
def live(tmp_path: Path, index_cache: Path) -> Iterator[Measured]:
    records = tmp_path / "earlier"
    record(records / "one", 1, "0.1.0", 7_000)
    record(records / "two", 2, "0.2.0", 9_500)
    with measured(tmp_path / "runs", index_cache, more=(records,)) as found:
        yield found


def test_changes_as_data(live: Measured) -> None:
    check_data(live.client, "/changes", "changes", "target", None)
    changes = values_of(live.client, "/changes")["changes"]
    (row,) = [row for row in changes if row["change"]["load"]["level"] == "medium"][:1]
    ratio = row["change"]["change"]
    assert math.log(1.2) < ratio["low"] < ratio["mean"] < ratio["high"] < math.log(1.6)
    post(live.client, f"/changes/{row['key']}/dismiss", ("reason", "another compiler"))
    changes = values_of(live.client, "/changes")["changes"]
    assert {one["key"]: one["dismissed"] for one in changes}[row["key"]] == "another compiler"


@pytest.mark.slow
def test_jobs_as_data(live: Measured) -> None:
    jobs = [post(live.client, "/start/compare", ("target", "jissoku")) for _ in range(2)]
    wait_for(lambda: "Running." in live.client.get(jobs[0]).text)
    check_data(live.client, "/jobs", "jobs", "title", 2)
    waiting, running = values_of(live.client, "/jobs")["jobs"]
    assert (waiting["state"], waiting["times"]["place"]) == ("waiting", 1)
    assert (running["state"], running["times"]["place"]) == ("running", 0)
    starts_s, left_s = waiting["times"]["starts"]["low_s"], running["times"]["left"]["low_s"]
    assert starts_s == pytest.approx(left_s, abs=1)
    assert running["command"].startswith("jissoku compare --out=")
    with live.saying() as say:
        say(event(EventKind.START, pid=1))
        say(trial(0, "jissoku"))
        wait_for(lambda: "1 of 8" in live.client.get(jobs[0]).text)
        progress = values_of(live.client, jobs[0])["progress"]
        assert (progress["done"], progress["total"]) == (1, 8)
        assert progress["marks"] == {"jissoku": ["\N{BLACK CIRCLE}"]}


def test_servers_as_data(running: Running, tmp_path: Path, index_cache: Path) -> None:
    with measured(tmp_path / "runs", index_cache, metrics=(running.where,)) as live:
        live.client.get("/servers")
        check_data(live.client, "/servers", "servers", "server", None)
        assert values_of(live.client, "/servers")["servers"][0]["rates"][0]["requests_rps"] >= 0
