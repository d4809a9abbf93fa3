"""How long a trial takes to its mark on the page, and a page until it is painted, in a browser.

    python -m tests.ui.live_bench [TRIALS]

A made-up measurement writes its events at random times; the browser reports when the page has
changed, and when that was painted. Goals: 250 ms in the median and 1 s at most for a trial; for a
page 50 ms to its first byte and 300 ms to its first contentful paint. The pages serve in a thread
of this process, once in the normal class and once as `jissoku ui` does: in the idle class, on the
load generator's cores. Not collected as a test: nothing here has a bound.
"""

import random
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from playwright.sync_api import sync_playwright

from jissoku.model.trial import EventKind
from tests import browser
from tests.ui.conftest import RECORDS
from tests.ui.in_browser.conftest import FLAGS
from tests.ui.in_browser.page import WIDE
from tests.ui.measurement import Measured, event, measured, post, trial

TRIALS = 40
LOADS = 7
# Seconds between two trials: several times as long as a look, so that they fall anywhere in one.
PAUSE_S = 0.4, 1.2
CLOCK_READS = 30

# Milliseconds of the page's clock at which the text changed, and at which it was painted: a task
# after the next frame's callbacks.
OBSERVE = """() => {
  window.seen = {};
  const note = () => {
    const found = document.getElementById("live").textContent.match(/(\\d+) of \\d+ trials/);
    if (!found || window.seen[found[1]]) { return; }
    const times = window.seen[found[1]] = [performance.now(), null];
    requestAnimationFrame(() => setTimeout(() => { times[1] = performance.now(); }));
  };
  new MutationObserver(note).observe(document.getElementById("live"), {
    childList: true, subtree: true, characterData: true
  });
}"""
PAINTED = """() => {
  const paint = performance.getEntriesByName("first-contentful-paint")[0];
  const load = performance.getEntriesByType("navigation")[0];
  return paint ? [load.responseStart, paint.startTime] : null;
}"""


def main() -> None:
    """Measures both, in each class."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else TRIALS
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=browser.CHROMIUM, args=FLAGS)
        for is_background in (False, True):
            sys.stdout.write(f"{'idle' if is_background else 'normal'} class\n")
            with tempfile.TemporaryDirectory() as folder, _pages(folder, is_background) as live:
                _trials(live, _context(chromium, live), count)
                _paints(live, chromium)


@contextmanager
def _pages(folder: str, is_background: bool) -> Iterator[Measured]:  # noqa: FBT001 - of two
    where = Path(folder)
    cache, records = where / "cache", RECORDS / "repeatability"
    with measured(where / "runs", cache, more=(records,), is_background=is_background) as live:
        yield live


def _context(chromium: Any, live: Measured) -> Any:
    """A browser with a session and an empty cache."""
    name, _, value = live.client.cookie.partition("=")
    context = chromium.new_context(viewport=WIDE)
    context.add_cookies([{"name": name, "value": value, "url": _origin(live)}])
    return context


def _trials(live: Measured, context: Any, count: int) -> None:
    job = post(live.client, "/start/compare", ("target", "jissoku"))
    with live.saying() as say:
        page = context.new_page()
        page.goto(f"{_origin(live)}{job}")
        page.get_by_text("Running.").wait_for()
        say(event(EventKind.START, pid=1))
        say(trial(0, "jissoku", total=count + 1))
        page.get_by_text(f"1 of {count + 1} trials").wait_for()
        page.evaluate(OBSERVE)
        offset = _clock_offset_ms(page)
        file = Path(live.queued(job).folder) / "events.jsonl"
        written = {}
        for number in range(1, count + 1):
            time.sleep(random.uniform(*PAUSE_S))
            line = trial(number, ("jissoku", "floor")[number % 2], total=count + 1)
            with file.open("a") as events:
                events.write(f"{line}\n")
            written[number + 1] = time.monotonic_ns() / 1e6
        page.get_by_text(f"{count + 1} of {count + 1} trials").wait_for()
        page.wait_for_timeout(200)
        seen = page.evaluate("() => window.seen")
        say("exit 0")
    changed = [seen[str(done)][0] + offset - at for done, at in written.items()]
    painted = [seen[str(done)][1] + offset - at for done, at in written.items()]
    _print("trial on disk to changed page", changed)
    _print("trial on disk to painted page", painted)
    context.close()


def _clock_offset_ms(page: Any) -> float:
    """What is added to the page's clock to get ours, from its fastest answer."""
    found = []
    for _ in range(CLOCK_READS):
        before = time.monotonic_ns() / 1e6
        there = page.evaluate("() => performance.now()")
        after = time.monotonic_ns() / 1e6
        found.append((after - before, (before + after) / 2 - there))
    took, offset = map(float, min(found))
    sys.stdout.write(f"{'clocks agree within':34} {took / 2:6.1f} ms\n")
    return offset


def _paints(live: Measured, chromium: Any) -> None:
    run = live.client.get("/").text.partition('<th scope="row"><a href="')[2].partition('"')[0]
    for name, path in (
        ("runs", "/"), ("board", "/board"), ("a run", run), ("queue", "/jobs"), ("start", "/start"),
    ):  # fmt: skip
        live.client.get(path)
        found = []
        for _ in range(LOADS):
            context = _context(chromium, live)
            page = context.new_page()
            page.goto(f"{_origin(live)}{path}")
            page.wait_for_function(PAINTED)
            found.append(page.evaluate(PAINTED))
            context.close()
        _print(f"{name}: first byte", [times[0] for times in found])
        _print(f"{name}: first contentful paint", [times[1] for times in found])


def _print(name: str, times_ms: Sequence[float]) -> None:
    sys.stdout.write(
        f"{name:34} {median(times_ms):6.0f} ms median, {max(times_ms):6.0f} ms at most"
        f" ({len(times_ms)})\n"
    )


def _origin(live: Measured) -> str:
    return f"http://127.0.0.1:{live.client.port}"


if __name__ == "__main__":
    main()
