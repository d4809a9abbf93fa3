"""Names and texts of a record are text on every page, whatever they contain."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from jissoku.model.updated import updated
from jissoku.ui.server import UiConfig, pages_in_thread
from tests.history.factories import write_run
from tests.inference import factories
from tests.inference.factories import TrueValues
from tests.ui.conftest import Client, client_of
from tests.ui.test_pages import PAGES, read

EVIL = """</title><script>alert(1)</script><img src=x onerror=alert(2)>'">{{ 7*7 }}"""

# Of a run's header: the way to a text, which is replaced.
TEXTS = (
    ("experiment",), ("machine_label",), ("verb",), ("jissoku",), ("labels",),
    ("machine", "kernel"), ("machine", "governor"), ("machine", "cpu_model"),
    ("workload", "path"),
)  # fmt: skip


def record(folder: Path, day: int, version: str, cost_ns: float) -> None:
    """A run in which every name and text is hostile."""
    truths = {
        "floor": TrueValues(cost_ns=5_000),
        EVIL: TrueValues(cost_ns=cost_ns),
        f"go {EVIL}": TrueValues(cost_ns=8_000),
    }
    versions = {name: version if name == EVIL else "1.0" for name in truths}
    arms = tuple(
        updated(
            factories.arm(name),
            version=f"{versions[name]} {EVIL}",
            description=EVIL,
            binary_sha256=f"{name} {versions[name]}",
        )
        for name in truths
    )
    write_run(folder, truths, arms, seed=day, day=day)
    header = json.loads((folder / "run.json").read_text())
    for *above, last in TEXTS:
        place = header
        for key in above:
            place = place[key]
        place[last] = {EVIL: EVIL} if last == "labels" else EVIL
    (folder / "run.json").write_text(json.dumps(header))


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    """Two of them, between which a program became a third dearer."""
    root = tmp_path / f"runs {EVIL.replace('/', '')}"
    record(root / "one", 1, "0.1.0", 7_000)
    record(root / "two", 2, "0.2.0", 9_500)
    config = UiConfig(listen="127.0.0.1", port=0, roots=(root,), cache=tmp_path / "cache")
    with pages_in_thread(config) as link:
        yield client_of(link)


@pytest.mark.slow
def test_no_page_contains_it_as_markup(client: Client) -> None:
    keys = re.findall(r'name="run" value="([\w-]+)"', client.get("/").text)
    assert len(keys) == 2
    runs = [f"/runs/{key}" for key in keys]
    target = f"/target?name={quote(EVIL)}"
    asked = [
        f"/diff?run={keys[0]}&run={keys[1]}",
        f"/start?path={quote(EVIL)}&target={quote(EVIL)}&rate={quote(EVIL)}",
        f"/?text={quote(EVIL)}&command={quote(EVIL)}&machine={quote(EVIL)}",
    ]
    for path in [*PAGES, *runs, target, *asked]:
        answer = client.get(path)
        read(answer)
        assert "<script>alert" not in answer.text, path
        assert "<img" not in answer.text, path
    changes = client.get("/changes").text
    assert "a change is suspected" in changes
    assert "Race them now" in changes, "its command names it"
    assert "&lt;script&gt;alert" in client.get(target).text


def test_data_are_no_page(client: Client) -> None:
    answer = client.get("/?format=json")
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("application/json")
    assert answer.headers["x-content-type-options"] == "nosniff"
