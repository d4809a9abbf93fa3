"""Whole comparisons through the command line. They assert shape, never speed."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from jissoku import inference, records
from jissoku.inference.blocks import calm_rotations
from jissoku.model import Metric
from tests import browser
from tests.conftest import JISSOKU, jissoku

pytestmark = pytest.mark.race

REPORTS = ("report.html", "report.json", "report.txt")


@pytest.fixture(scope="module")
def raced(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("race") / "run"
    done = jissoku("compare", "jissoku", "http-server", "--blocks", "6", "--out", str(folder))
    assert done.returncode in {0, 4}, done.stderr
    yield folder
    assert leftovers(folder.parent) == []


# Processes that ran before the test are not ours.
FOREIGNS = {path.name for path in Path("/proc").glob("[0-9]*")}


def leftovers(folder: Path) -> list[str]:
    """Command lines of processes whose working folder or words are the test's."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        if path.parent.name in FOREIGNS:
            continue
        try:
            words = path.read_bytes().decode(errors="replace").replace("\0", " ")
        except OSError:
            continue
        if str(folder) in words or "jissoku lab serve --contract" in words:
            found.append(words)
    return found


def test_every_report_is_written_and_speaks_of_every_arm(raced: Path) -> None:
    for name in REPORTS:
        text = (raced / name).read_text()
        for arm in ("jissoku", "http-server", "floor"):
            assert arm in text, f"{name} does not speak of {arm}"
    summary = json.loads((raced / "report.json").read_text())
    assert {s["arm"]["name"] for s in summary["arm_summaries"]} == {
        "jissoku",
        "http-server",
        "floor",
    }
    # A machine that others use may reject all trials of an arm; none fails or answers wrongly.
    assert {s["status"] for s in summary["arm_summaries"]} <= {"measured", "not measured"}


def test_the_same_records_rebuild_the_same_reports(raced: Path) -> None:
    before = {name: (raced / name).read_bytes() for name in REPORTS}
    for name in REPORTS:
        (raced / name).unlink()
    assert jissoku("report", str(raced)).returncode in {0, 4}
    assert {name: (raced / name).read_bytes() for name in REPORTS} == before


def test_the_page_needs_no_network(raced: Path) -> None:
    page = (raced / "report.html").read_text()
    assert '<script src="http' not in page
    assert '<link rel="stylesheet" href="http' not in page


def test_records_can_be_published(raced: Path) -> None:
    for name in ("run.json", "trials.jsonl", *REPORTS):
        text = (raced / name).read_text()
        assert str(Path.home()) + "/" not in text, name
        assert str(raced.parent) not in text, name


def test_ctrl_c_ends_everything_and_keeps_what_was_finished(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with subprocess.Popen(
        [*JISSOKU, "compare", "jissoku", "http-server", "--out", str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        assert any(line.startswith(b"After 3 blocks") for line in process.stdout)
        os.killpg(process.pid, signal.SIGINT)
        process.stdout.read()
        assert process.wait(timeout=60) == 130
    finished = (folder / "trials.jsonl").read_bytes().count(b"\n")
    assert finished >= 3
    assert jissoku("report", str(folder)).returncode in {0, 1}
    assert "Its verdicts hold" in (folder / "report.txt").read_text()
    assert leftovers(tmp_path) == []


# A third of a second of work, and as much without, until its input ends.
BURSTS = """
import os, select, sys, time
os.sched_setaffinity(0, {int(sys.argv[1])})
while not select.select([0], [], [], 0.33)[0]:
    end = time.monotonic() + 0.33
    while time.monotonic() < end:
        pass
"""


@contextmanager
def bursts() -> Iterator[None]:
    """Another program on every core that works at intervals."""
    with ExitStack() as stack:
        for core in os.sched_getaffinity(0):
            words = [sys.executable, "-c", BURSTS, str(core)]
            stack.enter_context(subprocess.Popen(words, stdin=subprocess.PIPE))
        yield


def test_rotations_beside_bursts_are_not_calm_and_the_verdict_says_what_it_is_of(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "run"
    asked = ("jissoku", "http-server", "--rate", "1000", "--blocks", "6", "--out", str(folder))
    with bursts():
        done = jissoku("compare", *asked)
    assert done.returncode == 0, done.stderr
    run, trials = records.read(folder)
    seen = [one for one in map(calm_rotations, trials) if one]
    # The load generator has a core of its own: each block lasts longer than a burst.
    assert seen
    assert not any(map(all, seen))
    (cost,) = [one for one in inference.summarise(run, trials).by(Metric.COST) if one.ratio]
    ending = "no other program delayed it" if cost.is_calm else "of the cores"
    assert cost.sentence.endswith(ending)
    assert cost.calm_fraction is not None
    assert cost.calm_fraction < 1


@pytest.mark.skipif(not browser.CHROMIUM, reason="no chromium: apt-get install chromium")
@pytest.mark.parametrize("flags", [(), (browser.DARK,)], ids=["light", "dark"])
def test_a_browser_draws_every_figure(raced: Path, tmp_path: Path, flags: tuple[str, ...]) -> None:
    page = raced / "report.html"
    drawn = browser.draw(page, tmp_path, 1200, *flags)
    assert len(drawn.plots) == page.read_text().count('<svg class="plot') > 3
    for plot in drawn.plots:
        assert plot.marks
        assert all(right > left or bottom > top for left, top, right, bottom in plot.marks)
        assert plot.colour != drawn.background
