"""What a first view sends, compressed as a browser accepts it, and how large reports are."""

import gzip
import http.client
import re
from contextlib import closing
from pathlib import Path

import pytest

from jissoku.measure.reports import experiment_text, report_text
from jissoku.ui.render import static_files
from tests.ui.conftest import LIMIT_S, RECORDS, Client

# In bytes: of a page with all that it loads, of its scripts, and of reports: of an experiment, and
# of a quick run of seven targets.
VIEW_MAX, SCRIPTS_MAX, EXPERIMENT_MAX, QUICK_MAX = 40_000, 20_000, 300_000, 120 * 1024

QUICK = sorted(path.parent for path in RECORDS.glob("repeatability/*/run.json"))
EXPERIMENTS = sorted(path.parent for path in RECORDS.glob("*/experiment.json"))


@pytest.mark.parametrize("path", ["/", "/start", "/board", "/machines"])
def test_a_first_view_is_small(client: Client, path: str) -> None:
    page = sent(client, path)
    text = gzip.decompress(page).decode()
    loaded = re.findall(r'(?:href|src)="(/static/[^"]+)"', text)
    assert len(loaded) == 4
    assert len(page) + sum(len(sent(client, one)) for one in loaded) <= VIEW_MAX


def test_the_scripts_are_small() -> None:
    scripts = [content for content, kind in static_files().values() if "javascript" in kind]
    assert scripts
    assert sum(map(len, scripts)) <= SCRIPTS_MAX


@pytest.mark.parametrize("path", ["/", "/static/ui.css"])
def test_a_client_that_accepts_no_compression_gets_none(client: Client, path: str) -> None:
    answer = client.get(path)
    assert "content-encoding" not in answer.headers
    assert "accept-encoding" in answer.headers["vary"].lower()
    assert gzip.decompress(sent(client, path)).decode() == answer.text


def sent(client: Client, path: str) -> bytes:
    """The body as it is transferred to a browser."""
    connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=LIMIT_S)
    with closing(connection):
        headers = {"Cookie": client.cookie, "Accept-Encoding": "gzip, deflate, br"}
        connection.request("GET", path, headers=headers)
        response = connection.getresponse()
        assert response.status == 200
        assert response.getheader("content-encoding") == "gzip"
        return response.read()


@pytest.mark.slow
@pytest.mark.parametrize("folder", EXPERIMENTS, ids=lambda folder: folder.name)
def test_reports_of_experiments_are_small(folder: Path) -> None:
    assert len(experiment_text(folder).encode()) <= EXPERIMENT_MAX


@pytest.mark.slow
@pytest.mark.parametrize("folder", QUICK, ids=lambda folder: folder.name)
def test_reports_of_seven_targets_are_small(folder: Path) -> None:
    assert len(report_text(folder, "html").encode()) <= QUICK_MAX
