"""Static drawings: complete without a script, reproducible, and small."""

import math
import re
from xml.etree import ElementTree as ET

import pytest

from jissoku.report import charts, experiment, plots, svg, to_html
from jissoku.report.svg import Chart, even_labels, scale, ticks
from tests.report import drawing, fixture
from tests.report.outcome import outcome

FIGURES = {
    **{f"{name}: {f.name}": f for name, make in fixture.ALL.items() for f in charts.charts(make())},
    **{
        f"experiment: {f.name}": f
        for f in (experiment.claims_chart(outcome()), experiment.published_chart(outcome()))
        if f is not None
    },
}
figures = pytest.mark.parametrize("figure", FIGURES.values(), ids=FIGURES)

PAGE = to_html(fixture.race())


@figures
def test_every_mark_has_a_title(figure: Chart) -> None:
    def untitled(at: ET.Element) -> list[str]:
        if at.find("title") is not None:
            return []
        own = [at.tag] if at.tag in drawing.MARKS or "interval" in drawing.classes(at) else []
        return own + [tag for child in at for tag in untitled(child)]

    assert untitled(drawing.element(figure)) == []


@figures
def test_a_plot_is_an_image_with_a_title_and_a_description(figure: Chart) -> None:
    plot = drawing.element(figure)
    assert plot.get("role") == "img"
    names = plot.get("aria-labelledby")
    assert names == f"{figure.name}-title {figure.name}-description"
    description = plot.find("desc")
    assert description is not None
    assert description.get("id") == f"{figure.name}-description"
    assert description.text


@figures
def test_text_is_text_and_colours_are_the_style_sheets(figure: Chart) -> None:
    text = str(figure.drawing)
    assert not re.search(r'(fill|stroke|style)="', text)
    assert "#" not in text.replace('href="#', "")
    assert drawing.element(figure).findall(".//text")


@figures
def test_the_numbers_stand_beside(figure: Chart) -> None:
    assert figure.numbers.rows


@figures
def test_nothing_is_drawn_outside_of_the_plot(figure: Chart) -> None:
    assert all(0 <= mark.x <= 1 for mark in drawing.marks(figure))
    for line in drawing.curves(figure).values():
        assert len(line) <= plots.POINTS_MAX
        assert all(0 <= x <= 1 and 0 <= y <= plots.INSIDE for x, y in line)


def test_every_class_and_shape_is_known() -> None:
    style = PAGE.partition("<style>")[2].partition("</style>")[0]
    body = PAGE.partition("<main>")[2]
    used = {name for found in re.findall(r'class="([^"]*)"', body) for name in found.split()}
    plain = {"rows", "note", "none", "load", "plot", "legend"}
    assert {name for name in used - plain if f".{name}" not in style} == set()
    known = set(re.findall(r'<g id="(\w+)">', PAGE))
    assert set(re.findall(r'href="#(\w+)"', body)) <= known == set(svg.SHAPES)


def test_ids_are_unique_and_references_lead_somewhere() -> None:
    ids = re.findall(r' id="([^"]+)"', PAGE)
    assert len(ids) == len(set(ids))
    for names in re.findall(r'aria-labelledby="([^"]+)"', PAGE):
        assert set(names.split()) <= set(ids)


def test_the_policy_allows_no_code_and_no_style_but_the_pages_own() -> None:
    policy = PAGE.partition('Content-Security-Policy" content="')[2].partition('"')[0]
    assert re.fullmatch(
        r"default-src 'none'; style-src 'sha256-[\w+/]+=*'; script-src 'sha256-[\w+/]+=*'", policy
    )
    script = PAGE.partition("<script>")[2].partition("</script>")[0]
    assert len(script) <= 3000


def test_a_race_of_seven_is_small() -> None:
    assert len(PAGE.encode()) < 120_000


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (1, 1000, [1, 10, 100, 1000]),
        (15, 300, [20, 50, 100, 200]),
        (1, 10, [1, 2, 5, 10]),
        (12, 60, [15, 20, 30, 50]),
    ],
)
def test_ticks_of_a_logarithmic_axis_are_1_2_5(
    low: float, high: float, expected: list[float]
) -> None:
    assert ticks(low, high, log=True) == expected


def test_a_small_plot_keeps_a_few_ticks() -> None:
    for values in ([1, 2, 3, 9], [1, 1e4], [3, 90], [0.98, 1.01]):
        found = scale(values, str)
        assert 2 <= sum(not tick.is_minor for tick in found.ticks) <= 5


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1.255, 1.315], ["1.26 x", "1.28 x", "1.30 x"]),
        ([0.7, 1.3], ["0.8 x", "1.0 x", "1.2 x"]),
        ([2, 14], ["2 x", "5 x", "10 x"]),
    ],
)
def test_labels_of_an_axis_have_the_same_number_of_decimals(
    values: list[float], expected: list[str]
) -> None:
    found = even_labels(scale(values, lambda value: f"{value:g} x", is_log=values[1] > 10))
    assert [tick.label for tick in found.ticks][: len(expected)] == expected


def test_a_curve_keeps_its_shape_with_few_points() -> None:
    curve = [(x / 999, 150 + 100 * math.sin(x / 80)) for x in range(1000)]
    kept = plots.simplified(curve)
    assert 20 < len(kept) <= plots.POINTS_MAX
    assert kept[0] == curve[0]
    assert kept[-1] == curve[-1]
    assert set(kept) <= set(curve)
    assert max(y for _, y in kept) == pytest.approx(250, abs=1)


def test_a_short_curve_is_kept_as_it_is() -> None:
    curve = [(0.0, 1.0), (0.5, 7.0), (1.0, 2.0)]
    assert plots.simplified(curve) == curve


def test_text_from_outside_stays_text() -> None:
    found = svg.titled("</title><b>", svg.text('"&<', "name"))
    assert found.startswith("<g><title>&lt;/title&gt;&lt;b&gt;</title>")
    assert found.endswith('<text class="name">&#34;&amp;&lt;</text></g>')
