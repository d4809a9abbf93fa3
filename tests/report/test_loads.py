"""Reports of several loads: tables, the curve over the rate, grids, checks."""

import re
from itertools import pairwise

import pytest

from jissoku.model import MeasurementStatus, Metric, Summary, Verdict
from jissoku.model.summary import ArmSummary
from jissoku.model.updated import updated
from jissoku.report import charts, method, plots, tables, to_html, to_text
from jissoku.report.svg import Chart
from jissoku.request import ComparisonRequest
from tests.report import drawing, fixture
from tests.report.factories import ARMS


def drawn(summary: Summary) -> Chart:
    figure = charts.costs(summary)
    assert figure is not None
    return figure


def test_a_load_has_a_table_of_those_who_reach_it_cheapest_first() -> None:
    light, middle, heavy = tables.at_loads(fixture.race())
    assert [row[1] for row in light.table.rows][-3:] == ["node", "go", "tornado"]
    assert [row[1] for row in middle.table.rows][-2:] == ["go", "node"]
    assert heavy.remarks == ("node and tornado do not reach 50,000 requests/s (heavy load).",)
    assert [known.is_main for known in (light, middle, heavy)] == [False, True, False]


def test_an_arm_without_a_figure_at_a_load_is_named() -> None:
    lost = ArmSummary(arm=ARMS["python"], status=MeasurementStatus.MEASURED)
    summary = fixture.two()
    summary = updated(summary, arm_summaries=(*summary.arm_summaries, lost))
    assert tables.at_loads(summary)[0].remarks == (
        "No figure, too few trials at this load are valid: python.",
    )


def test_a_load_that_a_limited_time_did_not_reach_says_so() -> None:
    summary = fixture.every_rate()
    lost = summary.loads[-1]
    arms = tuple(
        updated(
            known,
            points=tuple(point for point in known.points if point.load != lost),
            unreached=(),
        )
        for known in summary.arm_summaries
    )
    run = updated(summary.run, request=ComparisonRequest(time_limit=20.0))
    (*_, last) = tables.at_loads(updated(summary, arm_summaries=arms, run=run))
    assert last.remarks[0].startswith("Not measured, the time was over: ")


def test_the_curve_has_a_line_per_arm_over_the_rates_that_it_reached() -> None:
    figure = drawn(fixture.race())
    lines = drawing.curves(figure)
    assert len(lines["jissoku"]) == 3
    assert [x for x, _ in lines["node"]] == [x for x, _ in lines["jissoku"]][:2]
    steps = [after - before for (before, _), (after, _) in pairwise(lines["jissoku"])]
    assert steps[0] == pytest.approx(steps[1], abs=0.002), "2k to 10k to 50k on a logarithmic axis"
    # 2k and light, then 10k and middle: a load's name stands below its rate.
    texts = drawing.labels(figure, "tick")
    assert texts[-7:] == ["2k", "light", "10k", "medium", "50k", "heavy", "requests per second"]


def test_every_point_of_the_curve_has_its_interval_and_shows_its_values() -> None:
    bars = [
        (float(bar.get("y2", "0")) - float(bar.get("y1", "0")))
        for bar in drawing.of_class(drawn(fixture.race()), "interval")
    ]
    text = [mark.tooltip for mark in drawing.marks(drawn(fixture.race()))]
    assert len(bars) == len(text) == 3 * 5 + 2 + 1
    assert min(bars) > 0
    assert re.fullmatch(r"go: [\d.]+ .s \[[\d.]+ .s, [\d.]+ .s\] at 2,000/s, light", text[12])


def test_labels_at_the_ends_of_lines_do_not_touch() -> None:
    (ends,) = drawing.of_class(drawn(fixture.race()), "ends")
    found = {
        label.text: float(end.get("y", "0")) + float(label.get("y", "0"))
        for end in ends.iter("svg")
        for label in end.iter("text")
    }
    assert set(found) == {"floor", "jissoku", "nginx", "nginx-tuned", "go", "node", "tornado"}
    places = sorted(found[name] for name in ("floor", "jissoku", "nginx", "nginx-tuned", "go"))
    gaps = [lower - upper for upper, lower in pairwise(places)]
    assert min(gaps) > plots.LABEL_DISTANCE - 0.2


def test_one_load_has_no_curve() -> None:
    assert charts.costs(fixture.two()) is None
    assert "costs" not in {figure.name for figure in charts.charts(fixture.two())}


def test_a_check_that_disagrees_is_marked_with_both_figures() -> None:
    summary = fixture.race()
    (found,) = (c for c in summary.comparisons if tables.disagreements(c))
    (doubt,) = tables.disagreements(found)
    assert doubt.startswith(tables.WARNING)
    assert "time-sliced 2.04" in doubt
    assert "each alone 1.63" in doubt
    for text in (to_text(summary), to_html(summary)):
        assert "each alone 1.63" in text.replace("\N{NO-BREAK SPACE}", " ")
    cells = {name: row for grid in tables.grids(summary)[:1] for name, row in grid.rows}
    assert [cell.disputed for cell in cells["go"]] == [False, False, True]


def test_many_loads_are_shortened_for_the_terminal() -> None:
    text = to_text(fixture.every_rate())
    assert "Measured at 2,000/s, 5,000/s, 20,000/s and 50,000/s, too" in text
    assert "50,000 requests/s (heavy load)" not in text


@pytest.mark.parametrize("metric", Metric)
def test_more_is_worse_but_of_capacity(metric: Metric) -> None:
    expected = "better" if metric is Metric.CAPACITY else "worse"
    assert tables.tone(metric, Verdict.HIGHER) == expected
    assert tables.tone(metric, Verdict.EQUAL) == "same"


def test_cpu_is_never_called_fast_or_slow() -> None:
    text = " ".join((to_text(fixture.race()), *method.describe_method(fixture.race()))).lower()
    assert "faster" not in text
    assert "slower" not in text


def test_proven_has_one_meaning() -> None:
    paragraphs = " ".join(method.describe_method(fixture.race()))
    assert paragraphs.count("Proven means") == 1
    assert "the targets are different programs" in paragraphs
    assert "slices of 100 ms" in paragraphs
