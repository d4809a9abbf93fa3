"""What a page that follows a run costs it: campaigns of equal arms with a page open and without.

The order within each pair of campaigns is drawn, so that a drift of the machine is in both.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from jissoku.inference.self_test import BoundCheck
from jissoku.measure.progress import ProgressListener, SeriesProgress
from jissoku.measure.self_test import (
    EFFORT,
    CampaignResult,
    CampaignRunner,
    SelfTestConfig,
    TestCampaign,
    equal_arms,
    own_target,
    self_test_loads,
)
from jissoku.model import Load
from tests.viewer_study import bounds

OPEN, CLOSED = "page open", "page closed"

# Opens a page that follows the run of a folder, until the end of the block.
OpenPage = Callable[[Path], AbstractContextManager[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewerResults:
    """Campaigns at one load, by whether a page was open; filled as they end."""

    load: Load
    by_page: dict[str, list[CampaignResult]] = field(default_factory=lambda: {OPEN: [], CLOSED: []})


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewerTest:
    """What the campaigns came to; of an interrupted test those that had ended."""

    results: tuple[ViewerResults, ...]
    is_finished: bool


def run_viewer_test(
    config: SelfTestConfig, open_page: OpenPage, listener: ProgressListener
) -> ViewerTest:
    """Runs `config.campaigns` campaigns of each kind at each load.

    Raises:
        JissokuError: jissoku itself is not available, or the pages cannot be served.
    """
    results = tuple(
        ViewerResults(load=load) for load in self_test_loads(config.levels, config.cores)
    )
    try:
        ours = own_target()
        campaigns = [equal_arms(ours, one.load) for one in results]
        count = 2 * config.campaigns
        seconds = count * sum(one.seconds for one in campaigns)
        listener.note(
            f"{count * len(results)} campaigns of {EFFORT.blocks} blocks, half of them with a page"
            f" open: about {max(1, round(seconds / 60))} minutes. Records go to {config.folder}."
        )
        runner = CampaignRunner(
            config=config,
            progress=SeriesProgress(
                listener, seconds=seconds, trials=count * sum(one.trials for one in campaigns)
            ),
        )
        rng = random.Random(config.seed)
        for result, campaign in zip(results, campaigns, strict=True):
            _run(runner, [campaign] * config.campaigns, open_page, rng, result)
    except KeyboardInterrupt:
        return ViewerTest(results=results, is_finished=False)
    return ViewerTest(results=results, is_finished=True)


def _run(
    runner: CampaignRunner,
    campaigns: Sequence[TestCampaign],
    open_page: OpenPage,
    rng: random.Random,
    result: ViewerResults,
) -> None:
    """By turns, in an order that is drawn for each pair."""
    for index, campaign in enumerate(campaigns):
        for name in rng.sample((OPEN, CLOSED), 2):
            page: AbstractContextManager[None] = nullcontext()
            if name == OPEN:
                page = open_page(runner.place(name, campaign, index))
            with page:
                result.by_page[name].extend(runner.run(name, campaigns, [index]))


def viewer_checks(test: ViewerTest) -> tuple[BoundCheck, ...]:
    """What an open page may do, and whether it did more."""
    return tuple(row for result in test.results for row in _rows(result))


def _rows(result: ViewerResults) -> Iterator[BoundCheck]:
    opened, closed = (result.by_page[name] for name in (OPEN, CLOSED))
    load = f"{result.load.level} load"
    ours, theirs = ([one.comparison for one in found] for found in (opened, closed))
    yield bounds.check_ratio(f"page open / closed, {load}: ratio of equal arms", ours, theirs)
    yield bounds.check_spread(f"page open / closed, {load}: spread", ours, theirs)
    yield bounds.check_rejections(
        f"page open / closed, {load}: rejected",
        len(opened) + len(closed),
        _rejections(opened),
        _rejections(closed),
    )


def _rejections(found: Sequence[CampaignResult]) -> tuple[int, int]:
    return sum(one.rejected for one in found), sum(one.trials for one in found)
