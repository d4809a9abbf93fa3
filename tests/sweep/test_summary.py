"""From a sweep's records to its answer, and from that to the reports."""

import json
from dataclasses import replace

import pytest

from jissoku.model import Axis, Cores, Kind, Status, SweepSummary
from jissoku.report import sweep_to_html, sweep_to_json, sweep_to_markdown, sweep_to_text
from jissoku.stats import summarise_sweep
from tests.stats import made as campaigns
from tests.sweep import made
from tests.sweep.made import LEVELS, Truth

TRUTH = Truth(contention=0.05, coherency=1e-3, noise=0.02)


@pytest.fixture(scope="module")
def summary() -> SweepSummary:
    return summarise_sweep(made.run("one"), made.sweep(at=(200,)), made.trials("one", TRUTH))


def test_a_law_is_fitted_and_its_peak_told(summary: SweepSummary) -> None:
    (climb,) = summary.climbs
    assert climb.status is Status.MEASURED
    assert [rung.level for rung in climb.rungs] == list(LEVELS)
    assert all(rung.fitted for rung in climb.rungs)
    assert climb.law is not None
    assert climb.law.peak is not None
    assert "highest at 3" in climb.sentence


def test_levels_that_the_stopwatch_bound_are_left_out() -> None:
    trials = made.trials("one", TRUTH, busy=0.85)
    (climb,) = summarise_sweep(made.run("one"), made.sweep(), trials).climbs
    assert climb.law is None
    assert "0 levels can be fitted" in climb.reason
    assert "the stopwatch was near its limit in 6 of 6 blocks" in climb.rungs[0].remarks


def test_a_level_with_too_few_blocks_is_left_out() -> None:
    trials = [t for t in made.trials("one", TRUTH) if t.level != 64 or t.block < 2]
    (climb,) = summarise_sweep(made.run("one"), made.sweep(), trials).climbs
    assert climb.law is not None
    assert 64 not in climb.law.levels


def test_shared_cores_have_no_law() -> None:
    shared = made.run("one", cores=Cores(server=(0,), stopwatch=(0,), shared=True))
    (climb,) = summarise_sweep(shared, made.sweep(), made.trials("one", TRUTH)).climbs
    assert climb.law is None
    assert "shared cores" in climb.reason


def test_workers_beyond_the_cores_are_measured_and_not_fitted() -> None:
    run = made.run("one", cores=Cores(server=tuple(range(64)), stopwatch=(64,)))
    (climb,) = summarise_sweep(run, made.sweep(Axis.WORKERS), made.trials("one", TRUTH)).climbs
    assert climb.law is not None
    assert climb.law.levels == LEVELS[:-1]
    assert climb.rungs[-1].rate_rps is not None
    assert "more workers than the 64 cores" in climb.rungs[-1].remarks[0]


def test_over_rates_the_highest_that_was_answered_is_told() -> None:
    levels = (1000, 2000, 3000, 4000, 5000, 6000)
    trials = made.paced("one", 3500, levels)
    sweep = made.sweep(Axis.RATE, levels=levels, blocks=3)
    summary = summarise_sweep(made.run("one"), sweep, trials)
    (climb,) = summary.climbs
    assert climb.sustained_rps == 3000
    assert climb.law is None
    assert "up to 3,000/s, and not at 4,000/s" in climb.sentence
    assert "up to 3,000/s" in sweep_to_text(summary)


def test_a_target_that_never_started_is_told_with_its_reason() -> None:
    broken = tuple(
        replace(campaigns.failed(Kind.SOLO_RATE, "one"), level=level, index=index)
        for index, level in enumerate(LEVELS)
    )
    summary = summarise_sweep(made.run("one"), made.sweep(), broken)
    (climb,) = summary.climbs
    assert climb.status is Status.FAILED
    assert "ended with status 1" in climb.sentence
    assert "address in use" in sweep_to_html(summary, library="")


def test_the_same_records_give_the_same_bytes(summary: SweepSummary) -> None:
    again = summarise_sweep(summary.run, summary.sweep, tuple(reversed(made.trials("one", TRUTH))))
    for write in (sweep_to_text, sweep_to_json, sweep_to_markdown, sweep_to_html):
        assert write(summary) == write(again)


def test_every_format_tells_the_same(summary: SweepSummary) -> None:
    (climb,) = summary.climbs
    found = json.loads(sweep_to_json(summary))
    assert found["climbs"][0]["sentence"] == climb.sentence
    for text in (
        sweep_to_text(summary),
        sweep_to_markdown(summary).replace("\\", ""),
        sweep_to_html(summary, library="").replace("\N{NO-BREAK SPACE}", " "),
    ):
        assert climb.sentence in " ".join(text.split())


def test_a_name_that_is_markup_stays_text() -> None:
    name = "<b>x</b>"
    summary = summarise_sweep(made.run(name), made.sweep(), made.trials(name, TRUTH))
    assert name not in sweep_to_html(summary, library="")
    assert name not in sweep_to_markdown(summary)


def test_the_page_has_a_plot_of_the_law(summary: SweepSummary) -> None:
    page = sweep_to_html(summary, library="")
    assert 'id="plot-rates"' in page
    data = json.loads(page.partition('id="data">')[2].partition("</script>")[0])
    rates = next(f for f in data["figures"] if f["name"] == "rates")
    assert [trace["mode"] for trace in rates["plot"]["data"]] == ["lines", "markers"]
