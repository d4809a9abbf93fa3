"""Pages in a real browser: everything is drawn, in light and dark, on wide and narrow pages."""

from pathlib import Path

import pytest

from jissoku.measure.reports import report_text
from jissoku.report import experiment, to_html
from tests import browser
from tests.report import fixture
from tests.report.outcome import outcome

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not browser.CHROMIUM, reason="no chromium: apt-get install chromium"),
]


RECORDS = Path(__file__).parents[2] / "records"


@pytest.fixture(scope="module")
def race(tmp_path_factory: pytest.TempPathFactory) -> Path:
    page = tmp_path_factory.mktemp("race") / "report.html"
    page.write_text(to_html(fixture.race()), encoding="utf-8")
    return page


@pytest.fixture(scope="module")
def tested(tmp_path_factory: pytest.TempPathFactory) -> Path:
    page = tmp_path_factory.mktemp("experiment") / "report.html"
    page.write_text(experiment.to_html(outcome()), encoding="utf-8")
    return page


def check(page: Path, folder: Path, width: int, *warnings: str) -> browser.Drawn:
    drawn = browser.draw(page, folder, width, *warnings)
    assert drawn.plots
    assert drawn.page <= drawn.width, "the page scrolls sideways"
    for plot in drawn.plots:
        assert plot.marks
        assert all(left >= -20 and right <= drawn.width + 20 for left, _, right, _ in plot.marks)
        assert all(left >= 0 and right <= drawn.width for left, _, right, _ in plot.texts)
        assert plot.overlaps == []
        assert plot.colour != drawn.background
    return drawn


def test_a_wide_page(race: Path, tmp_path: Path) -> None:
    check(race, tmp_path, 1200)


def test_a_narrow_dark_page(race: Path, tmp_path: Path) -> None:
    assert check(race, tmp_path, 400, browser.DARK).background == "rgb(21, 24, 28)"


def test_a_narrow_page_of_an_experiment(tested: Path, tmp_path: Path) -> None:
    check(tested, tmp_path, 400)


def test_a_quick_run_of_seven_targets_is_printed_on_four_pages(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    page.write_text(report_text(RECORDS / "repeatability" / "51", "html"), encoding="utf-8")
    assert browser.printed_pages(page, tmp_path) <= 4


def test_the_policy_lets_the_page_be_what_it_is(race: Path, tmp_path: Path) -> None:
    elements, complaints = browser.dump(race, tmp_path)
    assert complaints == []
    written = race.read_text(encoding="utf-8")
    plots = written[written.index("<figure>") :]
    assert elements.count("data-tip=") == plots.count("<title>"), "the script runs"
