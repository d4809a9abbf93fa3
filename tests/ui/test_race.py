"""A real measurement, started from its form, followed, and shown as the terminal shows it."""

import re
from pathlib import Path

import pytest

from jissoku.cli.ui import _check
from jissoku.measure.reports import report_text
from jissoku.ui.server import UiConfig, pages_in_thread
from tests.ui.conftest import client_of
from tests.ui.measurement import Stream, post, wait_for

pytestmark = pytest.mark.race


def test_a_comparison_from_the_form_to_the_report(tmp_path: Path) -> None:
    root = tmp_path / "runs"
    config = UiConfig(
        listen="127.0.0.1", port=0, roots=(root,), cache=tmp_path / "cache", check=_check
    )
    with pages_in_thread(config) as link:
        client = client_of(link)
        fields = (("target", "jissoku"), ("rate", "2000"), ("blocks", "1"), ("connections", "4"))
        job = post(client, "/start/compare", *fields)
        wait_for(lambda: "Running." in client.get(job).text)
        with Stream(client, f"{job}/stream?state=running") as stream:
            # The first trial may be that of the floor.
            kind, _, text = stream.next(lambda text: "jissoku" in text)
            assert kind == "progress"
            assert " trials" in text
            assert stream.next(lambda text: text == "ended")[0] == "reload"
        page = client.get(job).text
        found = re.search(r'class="result" href="(/runs/[\w-]+)"', page)
        assert found, page
        wait_for(lambda: client.get(found[1]).status == 200)
        (folder,) = (path.parent for path in root.glob("*/run.json"))
        assert client.get(f"{found[1]}/report.txt").text == report_text(folder, "txt")
