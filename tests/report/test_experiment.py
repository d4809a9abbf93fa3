"""Reports of a constructed experiment, byte for byte, and its charts."""

import pytest

from jissoku.model.experiment import ClaimStatus
from jissoku.model.updated import updated
from jissoku.report import experiment
from tests.report import drawing
from tests.report.drawing import Mark
from tests.report.outcome import CLAIMS, outcome
from tests.report.test_golden import compare_golden


def test_a_report_is_byte_for_byte_what_it_was(pytestconfig: pytest.Config) -> None:
    compare_golden("experiment.txt", experiment.to_text(outcome()), pytestconfig)


def test_claims_are_in_every_form() -> None:
    for write in (experiment.to_text, experiment.to_markdown, experiment.to_html):
        text = write(outcome())
        assert all(str(known.status) in text for known in outcome().claims)


def test_an_interrupted_one_has_one_screen_with_what_is_known() -> None:
    text = experiment.brief_text(updated(outcome(), is_finished=False))
    first, *others = text.splitlines()
    assert first.startswith("Not run to its end. Of 8 claims: 4 hold, 1 does not hold,")
    assert others == [
        "a  holds: Cheap costs less.",
        "b  holds: It is nearly twice as fast.",
        "c  does not hold: It is four times as fast.",
        "d  holds: Two <are> alike & the dear one is last.",
        "f  holds: It reads once.",
        "Without an answer: e, g, h.",
    ]


def test_all_answers_are_met() -> None:
    assert {known.status for known in outcome().claims} == set(ClaimStatus)


def drawn(name: str) -> tuple[list[str], list[Mark]]:
    """Names of the rows, and the marks in them."""
    figure = {"claims": experiment.claims_chart, "published": experiment.published_chart}[name](
        outcome()
    )
    assert figure is not None
    return drawing.labels(figure, "name"), drawing.marks(figure)


def bound(name: str) -> float:
    """Where the dotted line is."""
    figure = {"claims": experiment.claims_chart, "published": experiment.published_chart}[name](
        outcome()
    )
    assert figure is not None
    (line,) = drawing.of_class(figure, "reference")
    return drawing.place(line, "x1")


def test_a_claim_holds_to_the_right_of_its_bound() -> None:
    names, marks = drawn("claims")
    assert names == ["a", "b", "c", "d (1)", "d (2)", "d (3)", "e"]
    by_style = {style: [m for m in marks if m.style == style] for style in {m.style for m in marks}}
    assert all(mark.low is not None and mark.low > bound("claims") for mark in by_style["holds"])
    assert all(mark.high is not None and mark.high < bound("claims") for mark in by_style["fails"])
    assert [mark.row for mark in by_style["fails"]] == ["c"]
    assert [mark.row for mark in by_style["undecided"]] == ["e"]
    shapes = {style: {mark.shape for mark in found} for style, found in by_style.items()}
    assert shapes == {
        "holds": {"dot"},
        "fails": {"crossed"},
        "undecided": {"dot open"},
        "published": {"diamond open"},
    }


def test_published_ratios_stand_where_the_claim_speaks_of_them() -> None:
    _, marks = drawn("claims")
    found = {mark.row: mark for mark in marks if mark.style == "published"}
    assert set(found) == {"b", "c", "d (3)"}
    # 30 over 10 against 1.7 and against 4; 10 below 15.
    at = bound("claims")
    assert [found[name].x > at for name in ("b", "c", "d (3)")] == [True, False, True]
    assert (found["b"].x - at) / (found["d (3)"].x - at) == pytest.approx(
        (3 / 1.7 - 1) / (1.5 - 1), rel=0.01
    )


def test_published_ratios_stand_beside_ours() -> None:
    names, marks = drawn("published")
    assert names == ["then: cheap", "then: like"]
    tooltips = [mark.tooltip for mark in marks]
    assert [text for text in tooltips if text.startswith("published")] == [
        "published: 3.00", "published: 1.50",
    ]  # fmt: skip
    ours = [mark for mark in marks if mark.tooltip.startswith("ours: ")]
    assert [round(float(mark.tooltip.split()[1])) for mark in ours] == [2, 2]


def test_without_a_figure_there_is_no_plot_and_no_script() -> None:
    bare = updated(outcome(CLAIMS[5:7]), published=())
    assert experiment.claims_chart(bare) is None
    assert experiment.published_chart(bare) is None
    assert "<script" not in experiment.to_html(bare)
