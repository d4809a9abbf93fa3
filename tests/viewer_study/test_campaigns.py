"""A page that follows a run, opened and closed around a campaign."""

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from jissoku.errors import JissokuError
from jissoku.measure import self_test
from jissoku.measure.progress import ProgressListener
from jissoku.measure.self_test import CampaignResult, SelfTestConfig
from jissoku.model import (
    Comparison,
    CoreAssignment,
    LoadLevel,
    Origin,
    StartCommand,
    Verdict,
)
from jissoku.system.processes import all_processes
from jissoku.targets.prepare import PreparedTarget
from tests.viewer_study import campaigns as viewer_test
from tests.viewer_study.campaigns import CLOSED, OPEN, run_viewer_test, viewer_checks
from tests.viewer_study.open_page import PAGES, open_page

# In the idle class the pages would wait for a machine that has nothing else to do.
IN_FOREGROUND = (*PAGES, "--foreground")


def followers() -> set[int]:
    """Processes that this one has started, and that follow a page."""
    found = set()
    for pid, stat in all_processes().items():
        with suppress(OSError):
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
            if stat.parent == os.getpid() and b"tests.viewer_study.follower" in command:
                found.add(pid)
    return found


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_page_is_followed_during_the_block_and_ended_after_it(tmp_path: Path) -> None:
    with open_page(tmp_path / "run", IN_FOREGROUND):
        assert len(followers()) == 1
    assert followers() == set()


def test_pages_that_do_not_start_are_one_sentence(tmp_path: Path) -> None:
    with (
        pytest.raises(JissokuError, match="has printed no link"),
        open_page(tmp_path, (sys.executable, "-c", "pass")),
    ):
        pytest.fail("there is no page")


class Campaigns:
    """Stands for the runner: notes what ran while a page was open."""

    ran: list[tuple[str, int, str]]
    open_now = ""

    def __init__(self, config: SelfTestConfig, **_: object) -> None:
        self.folder = config.folder
        type(self).ran = []

    def place(self, series: str, campaign: self_test.TestCampaign, index: int) -> Path:
        return self.folder / series / str(campaign.load.level) / str(index)

    def run(
        self,
        series: str,
        campaigns: Sequence[self_test.TestCampaign],
        indices: Iterable[int],
    ) -> Iterator[CampaignResult]:
        for index in indices:
            assert index < len(campaigns)
            self.ran.append((series, index, type(self).open_now))
            found = Comparison(arm="again", against="ours", verdict=Verdict.INVALID)
            yield CampaignResult(comparison=found, cost_ns=None, steal=None, trials=9, rejected=1)


def test_pages_are_open_in_half_of_the_campaigns_by_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def page(folder: Path) -> Iterator[None]:
        Campaigns.open_now = str(folder)
        yield
        Campaigns.open_now = ""

    class Silent(ProgressListener):
        def note(self, text: str) -> None:
            assert "24 campaigns of 9 blocks, half of them with a page open" in text

        def trial(self, *_: object) -> None:
            pytest.fail("nothing runs here")

    ours = PreparedTarget(
        name="jissoku",
        version="1",
        start=StartCommand(command=("jissoku", "{port}")),
        origin=Origin.RECIPE,
    )
    monkeypatch.setattr(viewer_test, "own_target", lambda: ours)
    monkeypatch.setattr(viewer_test, "CampaignRunner", Campaigns)
    config = SelfTestConfig(
        campaigns=12,
        levels=(LoadLevel.MEDIUM,),
        seed=7,
        cores=CoreAssignment(server=(0,), generator=(1,)),
        folder=tmp_path,
        version="1",
    )
    found = run_viewer_test(config, page, Silent())
    assert found.is_finished
    for series, index, opened in Campaigns.ran:
        expected = tmp_path / OPEN / "medium" / str(index)
        assert opened == (str(expected) if series == OPEN else "")
    for index in range(12):
        pair = Campaigns.ran[2 * index : 2 * index + 2]
        assert {series for series, _, _ in pair} == {OPEN, CLOSED}
        assert {number for _, number, _ in pair} == {index}
    firsts = {series for series, _, _ in Campaigns.ran[::2]}
    assert firsts == {OPEN, CLOSED}
    rows = viewer_checks(found)
    assert [row.result for row in rows[:2]] == ["too few campaigns"] * 2
    assert rows[2].result == "11.1 % and 11.1 % of trials"
