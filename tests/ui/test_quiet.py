"""While a measurement sends load, pages send only what they have at hand."""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Timer

import msgspec
import pytest

from jissoku.model.trial import EventKind
from jissoku.system.background import viewer_pids
from jissoku.system.measurement_lock import PATH_VARIABLE, Holder
from jissoku.ui.quiet import POLL_S
from tests.ui.conftest import Client
from tests.ui.measurement import Measured, Stream, event, form_key, measured, trial, wait_for
from tests.ui.test_jobs import start

pytestmark = pytest.mark.timeout(200)

# Longer than a request and an event take to be sent.
LOAD_S = 1.0

# Longer than a test may take.
LONG_S = 500.0

Announce = Callable[[float], int]


@pytest.fixture
def announce(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Announce:
    """Says that load is sent for some seconds from now on; returns its end."""
    file = tmp_path / "lock"
    monkeypatch.setenv(PATH_VARIABLE, str(file))

    def write(seconds: float) -> int:
        end_ns = time.monotonic_ns() + round(seconds * 1e9)
        holder = Holder(pid=os.getpid(), verb="compare", since_utc="", load_until_ns=end_ns)
        fresh = file.with_name("new")
        fresh.write_bytes(msgspec.json.encode(holder) + b"\n")
        fresh.rename(file)  # A reader finds one or the other.
        return end_ns

    return write


@pytest.fixture
def live(announce: Announce, tmp_path: Path, index_cache: Path) -> Iterator[Measured]:
    with measured(tmp_path / "runs", index_cache) as found:
        yield found
        announce(0)


@pytest.mark.slow
def test_a_page_that_has_to_be_made_waits_and_says_so(live: Measured, announce: Announce) -> None:
    end_ns = announce(LOAD_S)
    answer = live.client.get("/jobs")
    assert time.monotonic_ns() >= end_ns
    assert answer.status == 200
    assert "Load was being sent: this page waited " in answer.text
    assert "this page waited" not in live.client.get("/jobs").text


def test_a_page_at_hand_is_sent_as_it_was(live: Measured, announce: Announce) -> None:
    before = live.client.get("/jobs").text
    announce(LONG_S)
    assert live.client.get("/jobs").text == before
    assert live.client.get("/static/ui.css").status == 200


def test_a_page_of_one_session_is_not_at_hand_for_another(
    live: Measured, announce: Announce
) -> None:
    live.client.get("/jobs")
    announce(LOAD_S)
    assert Client(live.client.port).get("/jobs").status == 403


@pytest.mark.slow
def test_a_stream_is_silent(live: Measured, announce: Announce) -> None:
    job = start(live)
    wait_for(lambda: "Running." in live.client.get(job).text)
    with live.saying() as say, Stream(live.client, f"{job}/stream?state=running") as stream:
        say(event(EventKind.START, pid=1))
        say(trial(0, "jissoku"))
        stream.next(lambda text: "1 of 8 trials" in text)
        end_ns = announce(LOAD_S)
        time.sleep(2 * POLL_S)  # A look that had begun has ended.
        say(trial(1, "jissoku"))
        stream.next(lambda text: "2 of 8 trials" in text)
        assert time.monotonic_ns() >= end_ns
        say("exit 0")


@pytest.mark.slow
def test_a_measurement_is_stopped_at_once(live: Measured, announce: Announce) -> None:
    job = start(live)
    wait_for(lambda: "Running." in live.client.get(job).text)
    key = form_key(live.client)
    announce(LONG_S)
    assert live.client.post(f"{job}/cancel", {"form_key": key}).status == 303
    # The page of before is no longer at hand, since the form may have changed it.
    later = Timer(LOAD_S, announce, [0])
    later.start()
    assert "Running." not in live.client.get(job).text
    later.join()


def test_pages_are_listed_as_viewers(live: Measured) -> None:
    assert live.client.port
    assert os.getpid() in viewer_pids()
