"""`js->chart` of a handler: every field, the same drawing as Python's, and the example."""

import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote
from xml.etree import ElementTree as ET

import pytest

from jissoku import chart
from tests.c_handlers.conftest import SOURCES, port_of, served_as_asked
from tests.serving.server_process import PATIENCE_S, ask, connect, spawn

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
SVG = "{http://www.w3.org/2000/svg}"
KINDS = {1: "line", 2: "bar", 3: "histogram", 4: "sparkline", 5: "ring"}


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Iterator[int]:
    source = shutil.copy(SOURCES / "charts.c", tmp_path_factory.mktemp("charts"))
    with served_as_asked(Path(source), pytestconfig, "--libs", "-lm") as (_, port):
        yield port


def drawn(port: int, path: str) -> ET.Element:
    connection = connect(port)
    connection.request("GET", path, headers={"Connection": "close"})
    response = connection.getresponse()
    body = response.read()
    assert (response.status, response.headers["Content-Type"]) == (200, "image/svg+xml"), body
    return ET.fromstring(body)  # noqa: S314 - ours


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_drawn_with_all_of_its_fields(port: int, kind: int) -> None:
    title = "</title><script>'&\""
    root = drawn(port, f"/?kind={kind}&title={quote(title)}")
    assert root.get("class") == f"jsk-chart {KINDS[kind]}"
    assert root.get("viewBox") == "0 0 500 300"
    assert root.findtext(f"{SVG}title") == title
    assert (root.findtext(f"{SVG}desc") or "").startswith("Values in requests. ")
    texts = {found.text for found in root.iter(f"{SVG}text")}
    expected = {
        1: {"today", "2", "a", "b <&>", "seconds", "requests", "20"},
        2: {"today", "2", "a", "b <&>", "seconds", "requests", "20"},
        3: {"seconds", "requests", "3", "8"},
        4: set[str](),
        5: {"a 19 %", "b <&> 31 %", "d 50 %", "16", "requests"},
    }
    assert expected[kind] <= texts


def test_c_and_python_have_the_same_drawing(port: int) -> None:
    status, body = ask(port, "/?kind=1&title=T&positions=1")
    assert status == 200
    series: dict[str, list[float | None]] = {"today": [3, 5, None, 8], "": [4, 4]}
    assert body.decode() == chart.line(
        series,
        positions=[-30, -20, -10, 0],
        reach=(0, 20),
        title="T",
        description="four points",
        unit="requests",
        x_title="seconds",
        size=(500, 300),
    )


def test_what_cannot_be_drawn_has_a_reason(port: int) -> None:
    assert ask(port, "/?kind=9") == (400, b"there is no kind 9 of charts")
    status, body = ask(port, f"/?kind=1&title={'x' * 1001}")
    assert (status, body) == (400, b"a text of a chart has at most 1000 bytes, not 1001")


def test_the_example_draws_the_requests_of_its_server(tmp_path: Path) -> None:
    for name in ("requests.c", "requests.toml"):
        shutil.copy(EXAMPLES / name, tmp_path)
    flags = ["--config", str(tmp_path / "requests.toml"), "--listen", "127.0.0.1:0"]
    server = spawn(*flags, XDG_CACHE_HOME=str(tmp_path / ".cache"))
    try:
        port = port_of(server)
        deadline = time.monotonic() + PATIENCE_S
        # The second that has not ended is not drawn.
        while "highest 0" in (description := requests_drawn(port)):
            assert ask(port) == (200, b"Hello, World!\n")
            assert time.monotonic() < deadline
    finally:
        server.end()
    assert "over 60 values, lowest 0" in description


def requests_drawn(port: int) -> str:
    root = drawn(port, "/requests.svg")
    assert root.findtext(f"{SVG}title") == "Requests per second"
    return root.findtext(f"{SVG}desc") or ""
