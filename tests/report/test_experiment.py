"""Reports of a made-up experiment, byte for byte, and what its plots show."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from jissoku.model.experiment import Answered, Outcome
from jissoku.report import experiment, experiment_chart as chart
from tests.report.outcome import CLAIMS, outcome
from tests.report.test_golden import GOLDEN, LIBRARY

WRITERS: dict[str, Callable[[Outcome], str]] = {
    "txt": experiment.to_text,
    "md": experiment.to_markdown,
    "html": lambda known: experiment.to_html(known, library=LIBRARY),
}


@pytest.mark.parametrize("suffix", WRITERS)
def test_a_report_is_byte_for_byte_what_it_was(suffix: str, pytestconfig: pytest.Config) -> None:
    path = GOLDEN / f"experiment.{suffix}"
    shown = WRITERS[suffix](outcome()).encode()
    if pytestconfig.getoption("--golden", default=False):
        path.write_bytes(shown)
    assert path.exists(), "python -m pytest tests/report --golden writes it"
    assert shown == path.read_bytes(), f"{path.name} differs; if it should: pytest --golden"


def test_all_answers_are_met() -> None:
    assert {known.answer for known in outcome().claims} == set(Answered)


def drawn(name: str) -> tuple[list[str], dict[str, dict[str, Any]]]:
    """Names of the rows, and the plot's dots by what the legend calls them."""
    figure = {"claims": chart.claims, "published": chart.published}[name](outcome())
    assert figure is not None
    plot: dict[str, Any] = figure.plot
    names = [row["name"] for row in plot["layout"]["meta"]["rows"]]
    return names, {trace["name"]: trace for trace in plot["data"]}


def test_a_claim_holds_to_the_right_of_its_bound() -> None:
    names, dots = drawn("claims")
    assert names == ["a", "b", "c", "d (1)", "d (2)", "d (3)", "e"]
    holds, fails, open_ = (dots[one] for one in ("holds", "does not hold", "undecided"))
    assert all(
        x - less > 1 for x, less in zip(holds["x"], holds["error_x"]["arrayminus"], strict=True)
    )
    assert all(x + more < 1 for x, more in zip(fails["x"], fails["error_x"]["array"], strict=True))
    assert [names[y] for y in fails["y"]] == ["c"]
    assert [names[y] for y in open_["y"]] == ["e"]
    assert holds["marker"]["symbol"] != fails["marker"]["symbol"]


def test_published_ratios_stand_where_the_claim_speaks_of_them() -> None:
    names, dots = drawn("claims")
    found = dict(
        zip((names[y] for y in dots["published"]["y"]), dots["published"]["x"], strict=True)
    )
    # 30 over 10 against 1.9 and against 4; 10 below 15.
    assert found == {"b": pytest.approx(3 / 1.9), "c": pytest.approx(0.75), "d (3)": 1.5}


def test_published_ratios_stand_beside_ours() -> None:
    names, dots = drawn("published")
    assert names == ["then: cheap", "then: like"]
    assert list(dots["published"]["x"]) == [3, 1.5]
    assert list(dots["ours"]["x"]) == pytest.approx([2, 2], rel=0.1)


def test_without_a_figure_there_is_no_plot_and_no_script() -> None:
    bare = replace(outcome(CLAIMS[5:7]), beside=())
    assert chart.claims(bare) is None
    assert chart.published(bare) is None
    assert "<script" not in experiment.to_html(bare)
