"""`jissoku.chart`: what its functions draw and refuse."""

import math
import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from hypothesis import given, strategies as st

from jissoku import chart
from tests.serving.server_process import PATIENCE_S, ask, spawn

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
SVG = "{http://www.w3.org/2000/svg}"

NUMBERS = st.lists(
    st.one_of(st.floats(), st.integers(), st.none(), st.floats(-100, 100)), max_size=30
)
DRAW: dict[str, Callable[..., str]] = {
    "line": chart.line,
    "bar": chart.bar,
    "histogram": chart.histogram,
    "sparkline": chart.sparkline,
}


def read(drawing: str) -> ET.Element:
    root = ET.fromstring(drawing)  # noqa: S314 - ours
    assert (root.tag, root.get("role")) == (f"{SVG}svg", "img")
    return root


def texts(drawing: str) -> list[str]:
    return [found.text or "" for found in read(drawing).iter(f"{SVG}text")]


def numbers(root: ET.Element) -> list[float]:
    names = ("x", "y", "width", "height", "cx", "cy", "r", "d", "stroke-dasharray")
    found = " ".join(one.get(name, "") for one in root.iter() for name in names)
    return [float(word) for word in re.split(r"[ MHh]+", found) if word]


@pytest.mark.parametrize("kind", DRAW)
@given(values=NUMBERS, title=st.text(max_size=40))
def test_any_numbers_and_texts_are_drawn(kind: str, values: list[float | None], title: str) -> None:
    root = read(DRAW[kind](values, title=title, unit=title))
    assert all(0 <= one <= 640 for one in numbers(root))
    # Expat reads what XML cannot contain as what is written in its place.
    plain = re.sub(r"[\0-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]", "\ufffd", title)
    assert root.findtext(f"{SVG}title") == re.sub(r"[\t\n\r]", " ", plain) or kind
    assert root.findtext(f"{SVG}desc")


@given(parts=st.dictionaries(st.text(max_size=9), st.floats(0), max_size=12))
def test_any_parts_are_a_ring(parts: dict[str, float]) -> None:
    assert all(0 <= one <= 2000 for one in numbers(read(chart.ring(parts))))


def test_texts_are_text() -> None:
    hostile = "</title><script>alert(1)</script>\"'&"
    for draw in DRAW.values():
        drawing = draw([1, 2], title=hostile, description=hostile, x_title=hostile)
        assert "<script" not in drawing
        assert read(drawing).findtext(f"{SVG}desc") == hostile
    assert hostile in texts(chart.bar([1], labels=["a"], title=hostile))


def test_series_have_a_legend_and_labels_stand_below() -> None:
    days = {"today": [3, None, 5], "yesterday": (4, 4, 4)}
    shown = texts(chart.line(days, labels=["9:00", "10:00"], unit="requests"))
    assert {"today", "yesterday", "9:00", "10:00", "requests"} <= set(shown)
    shown = texts(chart.bar(days, labels=["a", "b", "c"]))
    assert {"today", "yesterday", "a", "b", "c"} <= set(shown)
    assert texts(chart.sparkline([1, 2], title="no text is visible")) == []


def test_arrays_and_large_integers_are_values() -> None:
    values = np.array([1.5, np.nan, 3.0])
    assert chart.line(values) == chart.line([1.5, None, 3]) == chart.line([1.5, math.nan, 3])
    assert chart.line([1, 10**400]) == chart.line([1, math.inf])
    assert chart.line(value for value in (1, 2)) == chart.line(np.arange(1, 3))


def test_positions_and_the_reach_of_the_axis() -> None:
    drawing = chart.line([1, 2], positions=[-60, 0], reach=(0, 10))
    assert {"-60", "-40", "-20", "0", "10"} <= set(texts(drawing))


def test_a_page_has_the_style_sheet_itself() -> None:
    assert chart.style_sheet() in chart.line([1])
    drawing = chart.line([1], title="in the page", in_page=True)
    assert "style" not in drawing
    assert texts(drawing).count("in the page") == 0
    assert not re.search(r"[\s\"';]on\w+=|javascript:|https?://(?!www\.w3\.org/2000/svg)", drawing)


def test_the_size_is_that_of_the_kind_or_as_asked() -> None:
    assert read(chart.ring({"a": 1})).get("viewBox") == "0 0 480 240"
    assert read(chart.sparkline([1], size=(60, 16))).get("viewBox") == "0 0 60 16"


@pytest.mark.parametrize(
    ("draw", "words"),
    [
        (lambda: chart.line([1] * 100_001), "at most 100000 values"),
        (lambda: chart.line({str(n): [1] for n in range(17)}), "at most 16 series"),
        (lambda: chart.bar([1] * 401), "at most 400 bars"),
        (lambda: chart.bar([1, 2], labels=["a"]), "1 labels for 2 values"),
        (lambda: chart.ring({str(n): 1 for n in range(13)}), "at most 12 parts"),
        (lambda: chart.ring({"a": 1, "b": -1}), "part 2 of the ring is negative"),
        (lambda: chart.histogram([1], bins=0), "1 to 200 bins"),
        (lambda: chart.histogram([1], bins=201), "at most 200 bins"),
        (lambda: chart.line([1], size=(10, 10)), "160 x 144 to 4096 x 4096"),
        (lambda: chart.line([1], size=(-1, 10)), "cannot have a size"),
        (lambda: chart.line([1, 2], positions=[2, 1]), "position 2 is lower"),
        (lambda: chart.line([1, 2], positions=[2]), "1 positions for 2 values"),
        (lambda: chart.line([1], title="x" * 1001), "at most 1000 bytes"),
    ],
)
def test_what_cannot_be_drawn_is_one_sentence(draw: Callable[[], str], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        draw()


def test_wrong_types_are_errors_of_types() -> None:
    with pytest.raises(TypeError, match="a line has no option 'colour'"):
        chart.line([1], colour="red")  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        chart.line([[1]])  # type: ignore[list-item]
    with pytest.raises(TypeError):
        chart.line([1], title=5)  # type: ignore[arg-type]


def test_the_example_draws_the_requests_of_its_server(tmp_path: Path) -> None:
    for name in ("requests_chart.py", "requests_chart.toml"):
        shutil.copy(EXAMPLES / name, tmp_path)
    config = str(tmp_path / "requests_chart.toml")
    served = spawn("--config", config, "--app-dir", str(tmp_path), "--listen", "127.0.0.1:0")
    try:
        port = int(served.wait_for(r"http://127\.0\.0\.1:([0-9]+)/")[1])
        deadline = time.monotonic() + PATIENCE_S
        # The second that has not ended is not drawn.
        while "highest 0" in (description := requests_drawn(port)):
            assert ask(port) == (200, b"Hello, World!\n")
            assert time.monotonic() < deadline
    finally:
        served.end()
    assert "over 60 values, lowest 0" in description


def requests_drawn(port: int) -> str:
    status, drawing = ask(port, "/requests.svg")
    assert (status, texts(drawing.decode())[0]) == (200, "Requests per second")
    return read(drawing.decode()).findtext(f"{SVG}desc") or ""
