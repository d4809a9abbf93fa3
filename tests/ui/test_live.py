"""What a page shows of a run that is being measured, and its stream."""

import asyncio
import html
import json
import re
from pathlib import Path

import pytest

from jissoku import inference
from jissoku.model.trial import EventKind
from jissoku.records import RunWriter
from jissoku.report import LiveTable, live_table
from jissoku.report.format import TIMES
from jissoku.ui import quiet
from jissoku.ui.quiet import Look, Streams
from tests.inference import factories
from tests.inference.factories import TrueValues
from tests.ui.conftest import RECORDS
from tests.ui.measurement import event, measured, post, trial, wait_for

pytestmark = pytest.mark.timeout(200)


@pytest.mark.slow
def test_values_so_far_have_an_interval_and_no_verdict(tmp_path: Path, index_cache: Path) -> None:
    with measured(tmp_path / "runs", index_cache) as live:
        job = post(live.client, "/start/compare", ("target", "jissoku"))
        with live.saying() as say:
            wait_for(lambda: "Running." in live.client.get(job).text)
            say(event(EventKind.START, pid=1))
            # Before its records are those of a run, an arm has no value.
            say(trial(0, "go"))
            wait_for(lambda: "1 of 8 trials" in live.client.get(job).text)
            assert values(live.client.get(job).text) == ["-"]
            say(f"records {RECORDS / 'repeatability' / '51'}")
            say(trial(1, "jissoku"))
            wait_for(lambda: "2 of 8 trials" in live.client.get(job).text)
            text = live.client.get(job).text
            found = values(text)
            assert len(found) == 2
            for value in found:
                number = r"\d+\.\d+"
                assert re.fullmatch(rf"{number} {TIMES} \[{number}, {number}\] the floor", value)
            assert "Values so far are no verdict" in text
            assert "proven" not in text
            say("exit 0")


@pytest.mark.slow
def test_the_table_is_that_of_a_terminal_and_narrows_with_the_blocks(
    tmp_path: Path, index_cache: Path
) -> None:
    """Verdicts of a run that is looked at after every block hold at each of them."""
    kept = {blocks: recorded(tmp_path / f"kept-{blocks}", blocks) for blocks in (3, 9)}
    with measured(tmp_path / "runs", index_cache) as live:
        job = post(live.client, "/start/compare", ("target", "jissoku"))
        with live.saying() as say:
            wait_for(lambda: "Running." in live.client.get(job).text)
            say(event(EventKind.START, pid=1))
            widths = []
            for index, (blocks, (folder, table)) in enumerate(kept.items()):
                say(f"records {folder}")
                say(trial(index, "ours"))
                shown = f"{index + 1} of 8 trials"
                wait_for(lambda shown=shown: shown in live.client.get(job).text)  # type: ignore[misc]
                page = live.client.get(job).text
                rows = table_rows(page)
                assert rows == [
                    [name, *(cell.text for cell in cells)] for name, cells in table.rows
                ], blocks
                assert table.state in page
                assert "no verdict" not in page
                widths.append(rows[1][1].partition("\N{PLUS-MINUS SIGN}")[2].partition("%")[0])
            assert int(widths[1]) < int(widths[0])
            data = json.loads(live.client.get(f"{job}?format=json").text)
            rows = data["progress"]["table"]["rows"]
            assert [name for name, _ in rows] == ["ours", "other", "slow"]
            assert rows[2][1][0]["state"] == "different"
            say("exit 0")


def recorded(folder: Path, blocks: int) -> tuple[Path, LiveTable]:
    """The records of a run with this many blocks, and its table."""
    run = factories.sliced(["ours", "other", "slow"], horizon=9)
    costs = {"ours": 5000, "other": 5060, "slow": 50_000}
    truths = {name: TrueValues(cost_ns=cost) for name, cost in costs.items()}
    trials = factories.trials(run, truths, blocks=9, check_blocks=0, solo_blocks=0)
    first = [one for one in trials if one.block < blocks]
    with RunWriter(folder, run) as store:
        for one in first:
            store.add(one)
    return folder, live_table(inference.summarise(run, first))


def table_rows(page: str) -> list[list[str]]:
    """The cells of the table of values, by row."""
    (table,) = re.findall(r'<table class="live values">(.*?)</table>', page, re.DOTALL)
    rows = re.findall(r'<tr><th scope="row">(.*?)</tr>', table)
    return [
        [html.unescape(one) for one in re.split(r'</th>|<td class="[a-z]*">|</td>', row) if one]
        for row in rows
    ]


def values(text: str) -> list[str]:
    """The last column of the table of arms, grey by its class."""
    return re.findall(r'<td class="sofar">([^<]*)</td>', text)


def first_parts(found: Streams, look: Look, count: int) -> list[str]:
    async def read() -> list[str]:
        stream = found.events(look)
        return [await anext(stream) for _ in range(count)]

    return asyncio.run(read())


def test_a_stream_without_events_has_comments_now_and_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Proxies and browsers notice by them that the connection is open."""
    looks = 0

    def look() -> None:
        nonlocal looks
        looks += 1

    monkeypatch.setattr(quiet, "POLL_S", 0.0)
    assert first_parts(Streams(), look, 3) == ["retry: 2000\n\n", ":\n\n", ":\n\n"]
    assert looks == 2 * quiet.QUIET_LOOKS


def test_a_stream_sends_nothing_while_load_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    left = [0.01, 0.01, 0.0]
    looks: list[float] = []

    def seconds_left() -> float:
        return left.pop(0) if left else 0.0

    def look() -> tuple[str, str, str]:
        looks.append(len(left))
        return "done", "1", "text"

    monkeypatch.setattr(quiet, "POLL_S", 0.0)
    parts = first_parts(Streams(seconds_left), look, 2)
    assert parts[1] == "event: done\nid: 1\ndata: text\n\n"
    assert looks == [0], "it looks after the end of the load only"
