"""The pages in a real browser, as they are used: with and without a script, and by keyboard."""

from pathlib import Path

import pytest

from jissoku.model.trial import EventKind
from jissoku.system.measurement_lock import PATH_VARIABLE, measurement_lock
from jissoku.ui import run_index
from tests.serving.server_process import ask
from tests.ui.conftest import RECORDS
from tests.ui.in_browser.page import NARROW, WIDE, Open, check_page, path_of, some_run
from tests.ui.measurement import Measured, event, trial, wait_for
from tests.ui.suspicion import record
from tests.ui.watched_server import Running

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

# By the second key, after `g`.
PLACES = {
    "s": "start", "q": "jobs", "e": "experiments", "t": "targets", "b": "board", "c": "changes",
    "m": "machines", "v": "servers", "a": "analyses", "r": "",
}  # fmt: skip

PAGES = [
    "/", "/start", "/jobs", "/experiments", "/targets", "/target?name=nginx-tuned", "/board",
    "/changes", "/machines", "/servers", "/analyses",
]  # fmt: skip


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("view", [WIDE, NARROW], ids=["wide", "narrow"])
def test_every_page_is_accessible(opened: Open, scheme: str, view: dict[str, int]) -> None:
    page = opened("/", color_scheme=scheme, viewport=view)
    run = some_run(page)
    for path in [*PAGES, run]:
        page.goto(page.url.removesuffix(path_of(page)) + path)
        check_page(page)


def test_two_runs_are_compared_by_keyboard(opened: Open) -> None:
    page = opened("/")
    page.keyboard.press("/")
    page.keyboard.type("repeatability")
    page.keyboard.press("Enter")
    page.wait_for_url("**/?text=repeatability*")
    assert page.locator("table.runs tbody tr").count() == 3
    for key in ("j", "x", "j", "x", "c"):
        page.keyboard.press(key)
    page.wait_for_url("**/diff?run=*")
    assert page.locator("h1").inner_text() == "Two runs"
    check_page(page)


def test_a_page_says_how_many_runs_are_not_indexed_and_when_all_are(
    opened: Open, live: Measured, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(PATH_VARIABLE, str(tmp_path / "lock"))
    monkeypatch.setattr(run_index, "REFRESH_S", 0.0)
    assert "indexed" not in live.client.get("/").text
    with measurement_lock("compare"):
        # A run that no other test makes: the index is one for all.
        record(live.root / "one", 5, "0.5.0", 7_000)
        whole, page = opened("/"), opened("/?text=runs%2Fone")
        page.get_by_text("1 run is not shown: it is indexed when the measurement").wait_for()
        page.get_by_text("No run matches.").wait_for()
        check_page(page)
    # A page without a run is loaded anew by itself, one with runs by its link.
    page.locator("table.runs tbody tr").wait_for()
    whole.get_by_text("All runs are indexed").wait_for()
    check_page(whole)
    whole.get_by_role("link", name="show them").click()
    whole.get_by_role("status").wait_for(state="detached")
    assert page.get_by_role("status").count() == 0


def test_keys_lead_to_pages(opened: Open) -> None:
    page = opened("/")
    for key, place in PLACES.items():
        page.keyboard.press("g")
        page.keyboard.press(key)
        page.wait_for_url(f"**/{place}")
    listed = page.locator("#keys kbd").all_text_contents()
    assert set(listed[listed.index("g") + 1 : -1]) == PLACES.keys()


def test_a_run_is_opened_and_keys_are_listed_by_keyboard(opened: Open) -> None:
    page = opened("/")
    for key in ("j", "j", "k", "Enter"):
        page.keyboard.press(key)
    page.wait_for_url("**/runs/*")
    assert path_of(page) == some_run(opened("/"))
    page.keyboard.press("?")
    assert page.locator("#keys").evaluate("found => found.open")
    check_page(page)


def test_a_comparison_is_started_watched_and_read(opened: Open, live: Measured) -> None:
    page = opened("/start?target=go")
    form = page.locator("#compare")
    form.get_by_label("go", exact=True).uncheck()
    form.get_by_label("jissoku", exact=True).check()
    page.get_by_role("button", name="Compare", exact=True).click()
    page.wait_for_url("**/jobs/*")
    with live.saying() as say:
        page.get_by_text("Running.").wait_for()
        say(event(EventKind.START, pid=1))
        for number in range(4):
            say(trial(number, ("jissoku", "floor")[number % 2], rejected=number == 3))
        page.get_by_text("4 of 8 trials").wait_for()
        assert page.locator("td.marks").all_inner_texts() == ["\u25cf\u25cf", "\u25cf\u25cb"]
        check_page(page)
        say(f"records {RECORDS / 'repeatability' / '51'}")
        say("exit 0")
    page.get_by_role("link", name="The report").click()
    page.wait_for_url("**/runs/*")
    assert "uses the least CPU time" in page.locator("h1").inner_text()


def test_a_running_job_is_stopped(opened: Open, live: Measured) -> None:
    page = opened("/start?target=jissoku")
    page.get_by_role("button", name="Compare", exact=True).click()
    page.get_by_text("Running.").wait_for()
    wait_for(lambda: "arguments: compare" in live.client.get(path_of(page)).text)
    page.get_by_role("button", name="Stop").click()
    page.get_by_text("Interrupted: finished trials were kept.").wait_for()


def test_everything_is_readable_and_startable_without_a_script(
    opened: Open, live: Measured
) -> None:
    page = opened("/", java_script_enabled=False)
    page.locator("table.runs tbody th a").first.click()
    assert page.locator("figure svg").count() >= 1
    page.get_by_role("link", name="Start", exact=True).click()
    page.get_by_role("button", name="Compare", exact=True).click()
    page.get_by_role("link", name="Reload").wait_for()
    with live.saying() as say:
        say(event(EventKind.START, pid=1))
        say(trial(0, "jissoku"))
        wait_for(lambda: "1 of 8" in live.client.get(path_of(page)).text)
        page.get_by_role("link", name="Reload").click()
        page.get_by_text("1 of 8 trials").wait_for()
        say("exit 0")


def test_a_suspicion_is_raced_by_one_click(opened: Open, live: Measured) -> None:
    record(live.root / "one", 1, "0.1.0", 7_000)
    record(live.root / "two", 2, "0.2.0", 9_500)
    wait_for(lambda: "/runs/" in live.client.get("/?text=runs%2Fone").text)
    page = opened("/changes")
    check_page(page)
    page.get_by_role("button", name="Race them now").first.click()
    page.wait_for_url("**/jobs/*")
    page.get_by_text("Running.").wait_for()
    assert "jissoku-0.2.0=jissoku@0.2.0" in page.locator("footer").inner_text()
    live.say("exit 0")
    page.get_by_text("Finished.").wait_for()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("view", [WIDE, NARROW], ids=["wide", "narrow"])
def test_an_experiment_is_found_and_read(opened: Open, scheme: str, view: dict[str, int]) -> None:
    page = opened("/experiments", color_scheme=scheme, viewport=view)
    page.locator("table.glance tbody th a").first.click()
    page.wait_for_url("**/experiment")
    page.get_by_text("Of 7 claims: ").wait_for()
    check_page(page)


class TestServers:
    """Figures of a server that runs meanwhile."""

    @pytest.fixture
    def watched(self, running: Running) -> tuple[str, ...]:
        return (running.where,)

    @pytest.mark.parametrize("scheme", ["light", "dark"])
    @pytest.mark.parametrize("view", [WIDE, NARROW], ids=["wide", "narrow"])
    def test_figures_move_without_a_reload(
        self, opened: Open, running: Running, scheme: str, view: dict[str, int]
    ) -> None:
        page = opened("/servers", color_scheme=scheme, viewport=view)
        page.locator("svg.jsk-chart").nth(3).wait_for()
        ask(running.port)
        check_page(page)

    def test_figures_are_readable_without_a_script(self, opened: Open, running: Running) -> None:
        page = opened("/servers", java_script_enabled=False)
        page.get_by_text("One reading was taken").wait_for()
        ask(running.port)
        page.get_by_role("link", name="Reload").click()
        page.locator("svg.jsk-chart").nth(3).wait_for()
        assert "requests" in page.locator("table").inner_text()
