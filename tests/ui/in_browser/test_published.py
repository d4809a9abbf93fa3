"""The published pages of kept records: the board, its links and figures, and how it is drawn."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from jissoku.measure.history import open_history
from jissoku.measure.publishing import COMMAND, publish, shown_runs
from jissoku.measure.reports import read_summary
from jissoku.model import Summary
from jissoku.model.calibration import Score, Scorecard
from jissoku.records.files import write_card
from jissoku.report import format as fmt
from jissoku.report.board import board_html
from jissoku.report.history import report_file
from tests.ui.in_browser.page import NARROW, WIDE, check_page

pytestmark = pytest.mark.slow

RECORDS = Path(__file__).parents[3] / "records"
KEPT = ("app-servers", "injected", "proxies", "tail")

# Of the front page, in bytes, for all kept records.
LARGEST = 90_000

CARD = re.compile(r'<li class="card">(.*?)</li>', re.DOTALL)
NAME = re.compile(r'<h[34]><a href="[^"]+">([^<]+)</a>')
COST = re.compile(r'<p class="cost">[^<]*<br><a href="([^"]+)">([^<]+) µs</a> (\[[^<]+\])')
RANK = re.compile(r'<p class="rank">rank <b>(\d+)</b>')

# The names of cards with something beyond their edge.
OVERFLOWING = """
Array.from(document.querySelectorAll(".card")).filter(card =>
  Array.from(card.querySelectorAll("*")).some(one =>
    one.getBoundingClientRect().right > card.getBoundingClientRect().right)
).map(card => card.querySelector("h3, h4").textContent)
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of kept records, and of two made-up calibrations."""
    place = tmp_path_factory.mktemp("published")
    folder = place / "site"
    for tool, grades in (("load", "AAB"), ("other", "AFF")):
        scores = [Score(check=f"A{n}", title="t", grade=grade) for n, grade in enumerate(grades)]
        card = Scorecard(
            tool=tool,
            about="Sends <requests>",
            version="1.0",
            jissoku="0.1.0",
            started_utc="2026-11-27T10:00:00+00:00",
            mode="quick",
            machine=f"EPYC at {Path.home()}/x",
            is_finished=True,
            scores=tuple(scores),
        )
        write_card(place / "calibrated", card)
    roots = [*(RECORDS / name for name in KEPT), place / "calibrated"]
    publish(folder, roots, lambda _: None)
    return folder


@pytest.fixture(scope="module")
def board(site: Path) -> str:
    return (site / "index.html").read_text(encoding="utf-8")


@pytest.fixture
def opened(chromium: Any) -> Iterator[Any]:
    """Opens a file in the browser, and fails if it asked for anything else."""
    contexts: list[Any] = []
    asked: list[str] = []

    def page(file: Path, **options: Any) -> Any:
        context = chromium.new_context(**({"viewport": WIDE, "bypass_csp": True} | options))
        contexts.append(context)
        context.on("request", lambda request: asked.append(request.url))
        found = context.new_page()
        found.goto(file.as_uri())
        return found

    yield page
    for context in contexts:
        context.close()
    assert [url for url in asked if not url.startswith("file:")] == []


def test_each_kind_has_a_section_and_each_target_one_card(board: str) -> None:
    titles = re.findall(r"<h2>([^<]+)</h2>", board)
    kinds = ["Servers", "Proxies and gateways", "Application servers", "Other programs"]
    assert titles == [*kinds, "Load generators", "Experiments"]
    names = NAME.findall(board)
    assert len(names) == len(set(names))
    targets = {
        "nginx-tuned",
        "nginx-gateway",
        "jissoku-four",
        "uvicorn",
        "nginx-wsgi",
        "go-injected",
    }
    assert targets <= set(names)
    servers, proxies, apps, other, generators, experiments = board.split("<h2>")[1:]
    assert "nginx-tuned" in NAME.findall(servers)
    assert "nginx-gateway" in NAME.findall(proxies)
    assert "nginx-wsgi" in NAME.findall(apps)
    assert set(NAME.findall(other)) == {"go-injected", "node-injected"}
    assert re.findall(r'<a href="(.*?)">([^<]+)</a></h3>', generators) == [
        ("load-generators-1.html", "load"),
        ("load-generators-1.html", "other"),
    ]
    assert ">2 A, 1 B</a>" in generators
    assert "Sends &lt;requests&gt;" in generators
    assert str(Path.home()) not in generators
    assert experiments.count('<li class="card">') == 3
    assert "<script" not in board


def test_without_records_of_a_kind_there_is_no_section() -> None:
    page = board_html({}, (), runs=0, command=COMMAND)
    assert "<h2>" not in page
    assert 'href="#' not in page.partition("<body>")[2]


def test_every_link_leads_to_something_published(site: Path) -> None:
    for page in site.glob("*.html"):
        text = page.read_text(encoding="utf-8").partition("<body>")[2]
        names = set(re.findall(r'id="([^"]+)"', text))
        for file, anchor in re.findall(r'<a href="([^"#]*)#?([^"]*)"', text):
            assert (site / unquote(file)).is_file() if file else anchor in names, (page.name, file)


def test_figures_are_those_of_the_linked_run_which_has_its_records_and_command(
    site: Path, board: str
) -> None:
    summaries: dict[str, Summary] = {}
    for run in open_history([site / "records"], lambda _: None, site.parent / "cache").headers():
        summary = read_summary(Path(run.folder))
        assert isinstance(summary, Summary)
        summaries[report_file(run.row.run)] = summary
    cards = [card for card in CARD.findall(board) if COST.search(card)]
    assert len(cards) > 15
    for card in cards:
        ((file, value, interval),) = COST.findall(card)
        (target,) = NAME.findall(card)
        shown = {
            (fmt.micro(point.cost_ns), "" if point.rank is None else str(point.rank))
            for one in summaries[file].arm_summaries
            if one.arm.target == target
            for point in one.points
        }
        assert (f"{value} {interval}", "".join(RANK.findall(card))) in shown
        assert set(re.findall(r'<dd><a href="([^"]+)"', card)) == {file}
        page = (site / file).read_text(encoding="utf-8")
        assert re.search(r"Measured by <code>jissoku (run|compare) ", page)
        assert re.search(r'<a href="records/[^"]+/trials.jsonl">trials.jsonl</a>', page)


def test_a_target_page_lists_all_its_runs(site: Path) -> None:
    text = (site / "target-nginx-gateway.html").read_text(encoding="utf-8")
    known = open_history([site / "records"], lambda _: None, site.parent / "again").headers()
    files = [
        report_file(run.row.run)
        for run in known
        if any(arm.target == "nginx-gateway" for arm in run.arms)
    ]
    assert len(files) > 3
    assert all(f'href="{file}"' in text for file in files)


def test_published_experiments_give_the_same_bytes(site: Path, tmp_path: Path) -> None:
    publish(tmp_path / "again", [site / "records"], lambda _: None)
    sums = [(one / "SHA256SUMS").read_text() for one in (site, tmp_path / "again")]
    assert sums[0] == sums[1]


def test_the_front_page_of_all_kept_records_is_small(tmp_path: Path) -> None:
    known = open_history([RECORDS], lambda _: None, tmp_path)
    page = board_html(shown_runs(known), (), runs=len(known.headers()), command=COMMAND)
    assert len(page.encode()) < LARGEST - 6_000  # Of the cards of experiments.


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
def test_the_board_is_accessible_and_does_not_scroll_sideways(
    site: Path, opened: Any, size: dict[str, int], scheme: str
) -> None:
    page = opened(site / "index.html", viewport=size, color_scheme=scheme)
    check_page(page)
    assert page.evaluate(OVERFLOWING) == []


def test_the_board_prints(site: Path, opened: Any) -> None:
    page = opened(site / "index.html", viewport={"width": 720, "height": 1018})
    page.emulate_media(media="print")
    assert page.evaluate("document.documentElement.scrollWidth") <= 720
    assert not page.locator("nav").first.is_visible()
    assert page.locator(".card").first.is_visible()
