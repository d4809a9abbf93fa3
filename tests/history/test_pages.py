"""Static pages of constructed runs: complete, escaped, the same bytes each time."""

import random
import re
from pathlib import Path
from typing import Any

import pytest

from jissoku.errors import InputError
from jissoku.inference.series import machine_ratios
from jissoku.measure.history import open_history
from jissoku.measure.publishing import write_history
from jissoku.model.history import IndexedRun
from jissoku.model.updated import updated
from jissoku.report.history import (
    boards,
    history_text,
    machines_text,
    report_file,
    runs_html,
    series_figure,
    series_sentences,
    target_file,
    target_html,
)
from tests.history.factories import indexed, target_history
from tests.history.test_index import record
from tests.report.drawing import of_class

COSTS = {"a": 1.0, "floor": 0.0, "go": 0.7, "node": 1.4}
COMMAND = "jissoku history --html DIR"


def some_runs(name: str = "a") -> list[IndexedRun]:
    """Four occasions; from the third on `name` is another version that costs 10 % more."""
    rng = random.Random(1)
    costs = {name: 1.0} | {arm: cost for arm, cost in COSTS.items() if arm != "a"}
    runs = [indexed(costs, rng, number=number) for number in range(2)]
    dearer = costs | {name: 1.1}
    runs += [indexed(dearer, rng, number=number, programs={name: "2.0"}) for number in (2, 3)]
    return runs


def test_a_target_page_shows_every_occasion_and_the_suspicion() -> None:
    runs = some_runs()
    series = target_history(runs, "a")
    page = target_html("a", series, runs, COMMAND)
    assert page.count("2026-01-0") >= 4
    assert "a change is suspected" in page
    assert "To confirm: jissoku compare a floor" not in page  # The floor is always beside it.
    assert "To confirm: jissoku compare a" in page
    assert target_html("a", target_history(some_runs(), "a"), runs, COMMAND) == page


def test_the_index_has_a_board_and_links() -> None:
    runs = some_runs()
    series = [one for name in COSTS for one in target_history(runs, name)]
    page = runs_html(runs, series, COMMAND)
    assert 'href="target-a.html"' in page
    for run in runs:
        assert f'href="{report_file(run.row.run)}"' in page
    assert COMMAND in page


def test_a_board_is_one_question_though_others_have_the_same_text() -> None:
    """Of another workload, and another method."""
    rng = random.Random(1)
    changed: list[dict[str, Any]] = [{}, {"workload": "x"}, {"method": "paired"}]
    runs = [indexed(COSTS, rng, number=number, **one) for number, one in enumerate(changed)]
    found = boards([one for name in ("a", "go", "node") for one in target_history(runs, name)])
    title = "GET /, 64 connections, 20,000/s, medium, multiple of floor (EPYC, 2 cores)"
    assert sorted(one.title for one in found) == [
        f"{title}, 1.0, paired trials",
        f"{title}, 1.0, time-sliced trials, 1",
        f"{title}, 1.0, time-sliced trials, 2",
    ]
    for one in found:
        assert sorted(row.arm for row in one.series) == ["a", "go", "node"]
    assert [one.title for one in boards(target_history(runs[:1], "a"))] == [title]


def test_anchors_of_one_name_that_are_other_programs_share_no_board() -> None:
    rng = random.Random(1)
    first = indexed({"a": 1.0, "floor": 0.0}, rng)
    second = indexed({"b": 1.0, "floor": 0.0}, rng, number=1, programs={"floor": "2"})
    series = [one for name in "ab" for one in target_history([first, second], name)]
    assert [one.anchor for one in series] == ["floor", "floor"]
    titles = [one.title for one in boards(series)]
    assert [title.partition("cores), ")[2] for title in titles] == [
        "1.0, time-sliced trials",
        "2, time-sliced trials",
    ]


def test_hostile_names_are_text_and_files_of_their_own() -> None:
    name = '<img src=x onerror="alert(1)">/../x'
    runs = some_runs(name)
    series = target_history(runs, name)
    for page in (target_html(name, series, runs, COMMAND), runs_html(runs, series, COMMAND)):
        assert "<img" not in page
    assert re.fullmatch(r"target-[A-Za-z0-9.-]+\.html", target_file(name))
    assert target_file("a/b") != target_file("a-b")


def test_the_text_says_the_same() -> None:
    series = target_history(some_runs(), "a")
    text = history_text("a", series)
    assert "a 1.0 -> 2.0, 20,000/s, medium: +" in text
    assert "to confirm: jissoku compare a" in text
    assert "No run compares x" in history_text("x", ())
    assert machines_text(machine_ratios(series)).startswith("The target was measured on one class")


def test_machines_are_rows_of_a_text() -> None:
    rng = random.Random(1)
    runs = [
        updated(run, row=updated(run.row, machine_text=f"machine {number}"))
        for number in range(4)
        for run in [indexed(COSTS, rng, number=number, machine=f"m{number}")]
    ]
    (ratios,) = machine_ratios(target_history(runs, "a"))
    text = machines_text((ratios,))
    assert text.count("machine ") >= 4
    assert "  more than floor on 4 of 4 machines\n  another machine: " in text
    three = machines_text((updated(ratios, rows=ratios.rows[:3], next_machine=None),))
    assert "on 3 of 3 machines\n  3 machines: no statement about another one\n" in three


def test_a_change_besides_the_target_is_drawn_and_named() -> None:
    rng = random.Random(1)
    kernels = ("6.12", "6.12", "6.18", "6.18", "6.19", "6.20", "6.21")
    runs = [
        indexed(COSTS, rng, number=number, kernel=kernel) for number, kernel in enumerate(kernels)
    ]
    (series,) = target_history(runs, "a")
    figure = series_figure(series, 0)
    lines = [one.get("y1", "") for one in of_class(figure, "reference")]
    assert len(lines) == 4
    assert lines == sorted(lines, key=float)
    assert "kernel 6.12 -&gt; 6.18" in str(figure.drawing)
    assert "A dotted line: something besides the target changed." in figure.caption
    (sentence,) = (one for one in series_sentences(series) if "besides the target" in one)
    assert "kernel 6.18 -> 6.19 (" in sentence
    assert sentence.endswith(", and 1 more before.")
    (unbroken,) = target_history(some_runs(), "a")
    assert of_class(series_figure(unbroken, 0), "reference") == []
    assert not any("besides the target" in one for one in series_sentences(unbroken))


@pytest.mark.slow
def test_pages_of_records_are_written(tmp_path: Path) -> None:
    record(tmp_path / "runs" / "one")
    (tmp_path / "runs" / "one" / "report.html").write_text("as it is beside the records")
    record(tmp_path / "runs" / "two", seed=2, day=2)
    found = open_history([tmp_path / "runs"], lambda _: None, tmp_path / "cache")
    runs = found.headers()
    count = write_history(tmp_path / "html", found, COMMAND)
    names = {path.name for path in (tmp_path / "html").iterdir()}
    assert len(names) == count
    index = (tmp_path / "html" / "index.html").read_text()
    linked = set(re.findall(r'href="([^"#]+)"', index))
    assert linked <= names
    first, second = (tmp_path / "html" / report_file(run.row.run) for run in runs)
    assert first.read_text() == "as it is beside the records"
    assert "<svg" in second.read_text()
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        write_history(tmp_path / "file" / "x", found, COMMAND)
