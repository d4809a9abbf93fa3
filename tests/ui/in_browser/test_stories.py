"""What users come for, from the first page to the answer; measurements are made up."""

from pathlib import Path
from typing import Any

import pytest

from jissoku.model import Recipe, UnavailableTarget
from jissoku.model.trial import EventKind
from jissoku.ui import forms, job_pages
from tests.ui.in_browser.page import NARROW, WIDE, Open, check_page, path_of
from tests.ui.measurement import Measured, event, trial, wait_for
from tests.ui.suspicion import record
from tests.ui.test_analyses import ASKED, write_analyses

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


def is_listed(live: Measured, name: str) -> bool:
    return "/runs/" in live.client.get(f"/?text=runs%2F{name}").text


def two_versions(live: Measured) -> None:
    """Two runs between which jissoku became a third dearer."""
    record(live.root / "one", 1, "0.1.0", 7_000)
    record(live.root / "two", 2, "0.2.0", 9_500)
    wait_for(lambda: is_listed(live, "two"))


def command_of(page: Any) -> str:
    """What the open page of a job has started."""
    page.wait_for_url("**/jobs/*")
    found = page.locator("footer code").inner_text()
    assert isinstance(found, str)
    return found


def open_run(page: Any, text: str) -> None:
    """Finds a run in the list, and opens it."""
    page.get_by_role("searchbox").fill(text)
    page.get_by_role("button", name="Filter").click()
    page.wait_for_url(f"**/?text={text}*")
    page.locator("table.runs tbody th a").first.click()
    page.wait_for_url("**/runs/*")


def test_a_run_is_measured_again_with_more_blocks(opened: Open, live: Measured) -> None:
    page = opened("/")
    open_run(page, "repeatability")
    assert "uses the least CPU time" in page.locator("h1").inner_text()
    page.get_by_text("Least CPU time per request: ").wait_for()
    page.get_by_role("link", name="Measure again").click()
    page.wait_for_url("**/start?*")
    page.get_by_role("spinbutton", name="Blocks").fill("20")
    page.get_by_role("button", name="Compare", exact=True).click()
    command = command_of(page)
    assert "--blocks 20" in command
    assert "jissoku" in command.split()
    live.say("exit 0")
    page.get_by_text("Finished.").wait_for()


def test_a_measurement_is_added_to_the_queue_and_put_first(opened: Open, live: Measured) -> None:
    places = []
    page = opened("/start")
    origin = page.url.removesuffix(path_of(page))
    for connections, state in enumerate(
        ("Running.", "Waiting: it is the next one.", "Waiting: 1 job"), start=1
    ):
        page.goto(f"{origin}/start?target=jissoku&connections={connections}")
        page.get_by_role("button", name="Compare", exact=True).click()
        # A page that reloads itself as its job starts would interrupt the next one.
        page.get_by_text(state).wait_for()
        places.append(page.url)
    page.get_by_role("button", name="Run it first").click()
    page.get_by_text("it is the next one").wait_for()
    page.goto(places[1])
    page.get_by_role("button", name="Take out of the queue").click()
    page.get_by_text("Cancelled before it started.").wait_for()
    page.goto(places[0])
    with live.saying() as say:
        page.get_by_text("Running.").wait_for()
        say(event(EventKind.START, pid=1))
        say(trial(0, "jissoku", seconds_left=200.0))
        page.get_by_text("1 of 8 trials, about 3 min left").wait_for()
        say("exit 0")
    page.get_by_text("Finished.").wait_for()
    page.goto(places[2])
    page.get_by_text("Running.").wait_for()
    live.say("exit 0")
    page.get_by_text("Finished.").wait_for()


def test_missing_targets_are_listed_with_what_adds_them(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(recipe: Recipe, where: object) -> UnavailableTarget | None:
        del where
        if recipe.name != "go":
            return None
        return UnavailableTarget(name="go", reason="no Go here", install_hint="apt-get install go")

    monkeypatch.setattr(forms, "missing_requirement", missing)
    monkeypatch.setattr(job_pages, "catalogue", lambda: forms.read_catalogue.__wrapped__(0.0))
    page = opened("/start")
    page.get_by_text("Not here (1)").click()
    assert page.locator("dl.targets dt").all_inner_texts() == ["go"]
    assert page.locator("dl.targets code").all_inner_texts() == ["apt-get install go"]
    form = page.locator("#compare")
    assert form.get_by_label("jissoku", exact=True).count() == 1
    assert page.get_by_label("go", exact=True).count() == 0


def test_a_suspicion_is_dismissed_with_a_reason(opened: Open, live: Measured) -> None:
    two_versions(live)
    page = opened("/changes")
    page.get_by_text("a change is suspected").first.wait_for()
    page.get_by_label("Reason").first.fill("another compiler")
    page.get_by_role("button", name="Dismiss").first.click()
    page.get_by_text("another compiler").wait_for()
    page.get_by_role("button", name="Open again").first.click()
    page.get_by_role("button", name="Dismiss").first.wait_for()


def test_two_versions_of_a_target_are_measured_together(opened: Open, live: Measured) -> None:
    two_versions(live)
    page = opened("/targets")
    page.locator("table").get_by_role("link", name="jissoku", exact=True).click()
    page.wait_for_url("**/target?name=jissoku")
    section = page.locator("section").filter(has_text="a change is suspected").first
    points = section.locator("svg.plot").text_content()
    assert "0.1.0" in points
    assert "0.2.0" in points
    section.get_by_text("Values as a table").click()
    assert section.locator("table tbody tr").count() == 2
    section.get_by_role("button", name="Race them now").click()
    assert "jissoku-0.1.0=jissoku@0.1.0 jissoku-0.2.0=jissoku@0.2.0" in command_of(page)
    live.say("exit 0")
    page.get_by_text("Finished.").wait_for()


def test_a_cost_is_explained_from_its_run(opened: Open, live: Measured) -> None:
    page = opened("/")
    open_run(page, "repeatability")
    page.locator('a[href*="#explain"]', has_text="go").click()
    page.wait_for_url("**/start?*#explain")
    form = page.locator("#explain")
    assert form.get_by_label("Target").input_value() == "go"
    form.get_by_label("test the knobs").check()
    form.get_by_role("button", name="Explain").click()
    command = command_of(page)
    assert command.startswith("jissoku explain ")
    assert command.endswith(" go --verify")
    live.say("exit 0")
    page.get_by_text("Finished.").wait_for()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("view", [WIDE, NARROW], ids=["wide", "narrow"])
def test_analyses_are_read_and_measured_again(
    opened: Open, live: Measured, scheme: str, view: dict[str, int]
) -> None:
    write_analyses(live.root)
    page = opened("/analyses", color_scheme=scheme, viewport=view)
    for verb in ("explain", "tune", "profile"):
        check_page(page)
        row = page.locator("tbody tr", has_text=verb).filter(has_not_text="this version reads")
        row.locator("th a").click()
        page.wait_for_url("**/analyses/*")
        check_page(page)
        page.get_by_role("link", name="Measure again").click()
        page.wait_for_url(f"**/start?*#{verb}")
        page.locator(f"#{verb}").get_by_role("button").click()
        assert f"jissoku {' '.join(ASKED[verb].split()[:2])}" in command_of(page).replace(
            f" --out={live.queued(path_of(page)).folder}", ""
        )
        live.say("exit 0")
        page.get_by_text("Finished.").wait_for()
        page.get_by_role("link", name="Analyses").click()


def test_runs_that_are_not_comparable_say_why_and_what_would_answer(
    opened: Open, live: Measured
) -> None:
    page = opened("/?text=parsers")
    other = page.locator("table.runs tbody input").first.get_attribute("value")
    page.get_by_role("link", name="all runs").click()
    open_run(page, "repeatability")
    run = page.url.rpartition("/")[2]
    page.goto(f"{page.url.removesuffix(path_of(page))}/diff?run={run}&run={other}")
    assert page.locator("h1").inner_text() == "Not comparable"
    assert page.locator("section li").count() >= 1
    marked = page.locator("tr.differs > th").first
    width, colour = marked.evaluate(
        "cell => [getComputedStyle(cell).borderLeftWidth, getComputedStyle(cell).borderLeftColor]"
    )
    assert width == "4px"
    assert colour != "rgba(0, 0, 0, 0)"
    page.get_by_role("button", name="Race them now").first.click()
    assert command_of(page).startswith("jissoku compare ")
    live.say("exit 0")
    page.get_by_text("Finished.").wait_for()


def test_a_machine_shows_its_days_and_its_runs(opened: Open) -> None:
    page = opened("/machines")
    section = page.locator("section", has_text="AMD EPYC")
    section.get_by_text("Checks that trials did not pass").wait_for()
    days = section.locator("table").last
    assert "noise floor" in days.locator("thead").inner_text()
    assert "2026-11-23" in days.inner_text()
    section.get_by_role("link", name="List them").click()
    page.wait_for_url("**/?machine=*")
    assert page.locator("table.runs tbody tr").count() == 8


def test_a_folder_of_another_machine_is_a_row_of_its_own(opened: Open, live: Measured) -> None:
    two_versions(live)
    page = opened("/machines")
    page.get_by_role("heading", name="AMD EPYC 7R13").wait_for()
    assert page.locator("main section.of-class").count() == 2
    page.get_by_role("link", name="Board").click()
    page.wait_for_url("**/board")
    boards = page.locator("h2").all_text_contents()
    assert len([title for title in boards if "7R13" in title]) >= 1
    assert not [title for title in boards if title.count("EPYC") != 1]


def test_a_report_is_saved_as_a_file_that_needs_no_server(opened: Open, tmp_path: Path) -> None:
    page = opened("/")
    open_run(page, "repeatability")
    with page.expect_download() as found:
        page.get_by_role("link", name="html", exact=True).click()
    saved = tmp_path / "saved.html"
    found.value.save_as(saved)
    text = saved.read_text(encoding="utf-8")
    assert "Content-Security-Policy" in text
    assert "uses the least CPU time" in text
    assert "http://" not in text.partition("<body")[0]


def test_a_newcomer_races_again_and_reads_what_two_runs_say(opened: Open, live: Measured) -> None:
    record(live.root / "one", 1, "0.1.0", 7_000)
    wait_for(lambda: is_listed(live, "one"))
    page = opened("/?text=runs%2Fone")
    page.locator("table.runs tbody th a").click()
    page.get_by_role("link", name="Measure again").click()
    page.get_by_role("button", name="Compare", exact=True).click()
    page.get_by_text("Running.").wait_for()
    record(live.root.parent / "second", 2, "0.1.0", 7_000)
    live.say(f"records {live.root.parent / 'second'}", "exit 0")
    page.get_by_role("link", name="The report").click()
    page.wait_for_url("**/runs/*")
    page.locator('aside.facts a[href="/target?name=jissoku"]').click()
    page.wait_for_url("**/target?name=jissoku")
    first = page.locator("section").first
    first.get_by_text("2 occasions: ").wait_for()
    first.get_by_text("Values as a table").click()
    assert first.locator("table tbody tr").count() == 2


def test_a_run_is_published(opened: Open, live: Measured) -> None:
    page = opened("/")
    open_run(page, "repeatability")
    page.get_by_role("button", name="Publish this run").click()
    page.get_by_text("Running.").wait_for()
    command = command_of(page)
    assert command.startswith("jissoku publish ")
    assert "/.ui/published/" in command
    assert command.count("--records=") == 1
    live.say("exit 0")
    page.get_by_text("To look at them as they will be served").wait_for()
    check_page(page)


def test_every_run_is_published_from_the_board(opened: Open, live: Measured) -> None:
    page = opened("/board")
    page.get_by_role("button", name="Publish all runs").click()
    assert command_of(page).count("--records=") == 2
    live.say("exit 0")
    page.get_by_text("Finished.").wait_for()


def test_a_machine_is_tested_from_its_page(opened: Open, live: Measured) -> None:
    page = opened("/machines")
    page.get_by_role("spinbutton", name="Campaigns of equal servers").fill("25")
    page.get_by_role("button", name="Prove").click()
    page.get_by_text("Running.").wait_for()
    page.get_by_text("It takes about 24 min.").wait_for()
    assert "self-test --campaigns=25" in command_of(page)
    live.say("exit 0")
    page.get_by_text("holds for later runs here").wait_for()
    check_page(page)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("view", [WIDE, NARROW], ids=["wide", "narrow"])
def test_the_queue_says_when_jobs_start(opened: Open, scheme: str, view: dict[str, int]) -> None:
    page = opened("/start?target=jissoku&target=go", color_scheme=scheme, viewport=view)
    for state in ("Running.", "Waiting: it is the next one."):
        page.get_by_role("button", name="Compare", exact=True).click()
        page.wait_for_url("**/jobs/*")
        # A page that reloads itself as its job starts would interrupt the next one.
        page.get_by_text(state).wait_for()
        page.go_back()
    page.get_by_role("link", name="Queue", exact=True).click()
    page.wait_for_url("**/jobs")
    page.get_by_text("running").wait_for()
    rows = page.locator("table.jobs tbody tr")
    assert "about" in rows.nth(0).inner_text()
    assert "UTC" in rows.nth(0).inner_text()
    assert "left" in rows.nth(1).inner_text()
    check_page(page)
    data = page.get_by_role("link", name="JSON", exact=True)
    assert data.get_attribute("href") == "/jobs?format=json"
