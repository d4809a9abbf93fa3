"""Pages that only show: no form, link or request starts or changes anything."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from jissoku.ui.server import UiConfig, pages_in_thread
from tests.ui.conftest import Client, client_of
from tests.ui.suspicion import record
from tests.ui.test_pages import PAGES, read, runs_of

POSTED = ("/start/compare", "/start/publish", "/jobs/x/cancel", "/changes/x/dismiss")


@pytest.fixture(scope="module")
def shown(link: str, some_records: Path, index_cache: Path) -> Iterator[Client]:
    """Read-only pages, beside others that have the queue of the same folder."""
    del link
    config = UiConfig(
        listen="127.0.0.1", port=0, roots=(some_records,), cache=index_cache, is_read_only=True
    )
    with pages_in_thread(config) as found:
        yield client_of(found)


@pytest.mark.slow
@pytest.mark.parametrize("path", PAGES)
def test_every_link_leads_somewhere_and_no_form_changes_anything(shown: Client, path: str) -> None:
    for link in {path, *(link for link in read(shown.get(path)).links if link.startswith("/"))}:
        answer = shown.get(link)
        assert answer.status == 200, link
        assert not re.search('method="post"|href="/(start|jobs)', answer.text), link


def test_a_suspected_change_is_shown_without_its_forms(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    record(runs / "one", 1, "0.1.0", 7_000)
    record(runs / "two", 2, "0.2.0", 9_500)
    for is_read_only in (False, True):
        config = UiConfig(
            listen="127.0.0.1", port=0, roots=(runs,), cache=tmp_path, is_read_only=is_read_only
        )
        with pages_in_thread(config) as link:
            text = client_of(link).get("/changes").text
        assert "jissoku compare" in text
        assert ('method="post"' in text) is not is_read_only


@pytest.mark.parametrize("path", POSTED)
def test_what_would_change_something_is_refused(shown: Client, path: str) -> None:
    answer = shown.post(path, {"reason": "x"})
    assert (answer.status, answer.text) == (
        403,
        "These pages are read-only: nothing is started or changed here.\n",
    )


@pytest.mark.parametrize("path", ["/start", "/jobs"])
def test_there_is_no_queue(shown: Client, path: str) -> None:
    assert shown.get(path).status == 404


def test_only_pages_with_forms_offer_to_publish_a_run(shown: Client, client: Client) -> None:
    path = runs_of(shown)[0]
    assert "publish" not in shown.get(path).text.lower()
    assert "publish" in client.get(path).text.lower()
