"""A browser with a session, beside a made-up measurement; tests are skipped without one."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import browser
from tests.ui.conftest import LIMIT_S
from tests.ui.in_browser.page import WIDE, Open
from tests.ui.measurement import Measured, measured

FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """Per module, because it leaves an event loop running in this thread."""
    if not browser.CHROMIUM:
        pytest.skip("no chromium: apt-get install chromium")
    api = pytest.importorskip("playwright.sync_api", reason="pip install playwright")
    with api.sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=browser.CHROMIUM, args=FLAGS)
        yield found
        found.close()


@pytest.fixture
def live(
    some_records: Path, tmp_path: Path, index_cache: Path, watched: tuple[str, ...]
) -> Iterator[Measured]:
    root = tmp_path / "runs"
    with measured(root, index_cache, more=(some_records,), metrics=watched) as found:
        yield found


@pytest.fixture
def watched() -> tuple[str, ...]:
    """Metrics of servers that the pages show; a test with a server has another fixture."""
    return ()


@pytest.fixture
def opened(chromium: Any, live: Measured) -> Iterator[Open]:
    """Opens a page in a browser with a session, and fails if anything was blocked or asked of
    another server."""
    problems: list[str] = []
    contexts: list[Any] = []
    origin = f"http://127.0.0.1:{live.client.port}"
    name, _, value = live.client.cookie.partition("=")

    def note(request: Any) -> None:
        if not request.url.startswith((f"{origin}/", "data:")):
            problems.append(request.url)

    def page(path: str, **options: Any) -> Any:
        context = chromium.new_context(**({"viewport": WIDE} | options))
        contexts.append(context)
        context.add_cookies([{"name": name, "value": value, "url": origin}])
        context.on("request", note)
        context.on("console", lambda message: problems.append(message.text))
        context.on("weberror", lambda error: problems.append(str(error.error)))
        found = context.new_page()
        found.set_default_timeout(1000 * LIMIT_S)
        found.goto(f"{origin}{path}")
        return found

    yield page
    for context in contexts:
        context.close()
    assert problems == []
