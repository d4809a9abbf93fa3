"""The documentation site: it has every page of the reference, and no link or file is lost."""

import json
import re
from collections.abc import Iterator
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest
from playwright.sync_api import sync_playwright

from jissoku.cli.commands import HEADINGS, commands_below
from tests.browser import CHROMIUM
from tests.documentation import keys, pages
from tests.documentation.__main__ import build, reference
from tests.documentation.fields import SCHEMAS


class Page(HTMLParser):
    """What a page refers to, what it loads, and the anchors that it has."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.loaded: set[str] = set()
        self.anchors: set[str] = set()
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value for name, value in attrs if value}
        target = found.get("href") or found.get("src") or found.get("data")
        if target is not None:
            (self.links if tag == "a" else self.loaded).add(target)
        self.anchors |= {found["id"]} if "id" in found else set()


@pytest.fixture(scope="module")
def written() -> dict[str, str]:
    return reference()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    for module in ("sphinx", "furo", "myst_parser"):
        pytest.importorskip(module, reason="`make docs` installs what builds the site")
    folder = tmp_path_factory.mktemp("site")
    assert build(folder) == 0
    return folder / "html"


@pytest.mark.slow
def test_the_reference_has_every_command_every_key_and_every_field(
    written: dict[str, str],
) -> None:
    verbs = [verb for heading in HEADINGS for verb in commands_below(heading)]
    assert {f"reference/commands/jissoku-{verb}.md" for verb in verbs} <= set(written)
    configuration = written["reference/configuration.md"]
    known = [*keys.top_level(), *re.findall(r"^([a-z-]+) = ", EXAMPLE, re.MULTILINE)]
    assert len(known) > 100
    assert [key for key in known if f"| `{key}` |" not in configuration] == []
    for path in SCHEMAS.glob("*.json"):
        text = written[f"reference/records/{path.stem}.md"]
        types = json.loads(path.read_text())["$defs"].values()
        fields = {name for one in types for name in one.get("properties", {})}
        assert [name for name in fields if f"| `{name}` |" not in text] == []


EXAMPLE = (pages.ROOT / "docs" / "gateway.toml").read_text()


def test_a_key_is_explained_or_its_section_is_named() -> None:
    assert keys.meanings_of("upstream")["balance"]
    assert keys.meanings_of("route")["head-time"]
    assert keys.mentioned("methods").endswith("gateway.md#routes)")


def html_pages(site: Path) -> Iterator[tuple[Path, Page]]:
    for path in sorted(site.rglob("*.html")):
        yield path, Page(path)


@pytest.mark.slow
def test_every_link_of_the_site_leads_somewhere(site: Path, written: dict[str, str]) -> None:
    found = dict(html_pages(site))
    expected = [*written, *pages.sources()]
    assert [name for name in expected if not (site / name).with_suffix(".html").is_file()] == []
    lost = []
    for path, page in found.items():
        for link in page.links | page.loaded:
            target, _, anchor = unquote(unescape(link)).partition("#")
            target = target.partition("?")[0]
            if ":" in target:
                continue
            file = (path.parent / target).resolve() if target else path
            is_lost = not file.exists() or (
                anchor and file in found and anchor not in found[file].anchors
            )
            if is_lost and not anchor.startswith("svg-"):
                lost.append(f"{path.relative_to(site)}: {link}")
    assert lost == []


@pytest.mark.slow
def test_the_site_loads_nothing_from_another_host(site: Path) -> None:
    for path, page in html_pages(site):
        assert not [one for one in page.loaded if "//" in one], path
    for sheet in site.rglob("*.css"):
        assert not re.findall(r"url\([\"']?(?:https?:)?//|@import", sheet.read_text()), sheet


@pytest.mark.slow
@pytest.mark.skipif(not CHROMIUM, reason="needs chromium")
def test_a_browser_searches_files_and_needs_no_scrolling_sideways(site: Path) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 390, "height": 800})
        for name in ("index", "gateway", "ERROR-RATES", "reference/configuration"):
            page.goto((site / f"{name}.html").as_uri())
            assert page.evaluate("document.documentElement.scrollWidth") <= 390, name
        page.goto((site / "search.html").as_uri() + "?q=drain-timeout")
        page.wait_for_selector("#search-results a[href*='cmdoption-jissoku-serve-drain-timeout']")
        browser.close()


def test_a_document_without_a_place_is_in_the_navigation() -> None:
    text = pages.navigation(["index", "install", "new", "decisions/index", "decisions/0001-one"])
    assert "\nInstall </install>\n/new\n" in text
    assert "/index>" in text
    assert "0001" not in text


def test_links_change_outside_of_code_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.md").touch()
    (tmp_path / "docs" / "page.toml").touch()
    document = tmp_path / "docs" / "new.md"
    document.write_text(
        "[`a`](page.toml) [README.md](../README.md#x) [code](../crates/a.rs) [b](#b)\n\n"
        "    f[0](../README.md)\n\n`f[1](page)`\n\n```python\nf[2](page)\n```\n[c](page.toml)\n"
    )
    monkeypatch.setattr(pages, "ROOT", tmp_path)
    assert pages.rewritten(document, tmp_path / "site") == (
        "[`a`](page.toml) [](index.md#x) code [b](#b)\n\n"
        "    f[0](../README.md)\n\n`f[1](page)`\n\n```python\nf[2](page)\n```\n[c](page.toml)\n"
    )
    assert (tmp_path / "site" / "page.toml").is_file()
