"""What tests look at in an open page."""

from collections.abc import Callable
from typing import Any

import pytest

WIDE, NARROW = {"width": 1280, "height": 900}, {"width": 320, "height": 640}

# Opens a path of the pages, with the options of a browser's context.
Open = Callable[..., Any]


def some_run(page: Any) -> str:
    found = page.locator("table.runs tbody th a").first.get_attribute("href")
    assert isinstance(found, str)
    return found


def path_of(page: Any) -> str:
    return "/" + str(page.url).split("/", 3)[3]


def check_page(page: Any) -> None:
    axe_api = pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason="pip install axe-playwright-python"
    )
    found = axe_api.Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
    width = page.evaluate("document.documentElement.scrollWidth")
    assert width <= page.viewport_size["width"], "the page scrolls sideways"
