"""From a sweep's records to its summary and its reports."""

import json
import re

import pytest

from jissoku.cli.frame import ExitCode
from jissoku.cli.reports import report_code
from jissoku.inference import summarise_sweep
from jissoku.model import Axis, CoreAssignment, MeasurementStatus, SweepSummary, TrialKind
from jissoku.model.updated import updated
from jissoku.report import sweep_to_html, sweep_to_text, to_json
from jissoku.report.sweep import sweep_figures
from tests.inference import factories as campaigns
from tests.report import drawing
from tests.sweep import factories
from tests.sweep.factories import LEVELS, Truth

TRUTH = Truth(contention=0.05, coherency=1e-3, noise=0.02)


@pytest.fixture(scope="module")
def summary() -> SweepSummary:
    return summarise_sweep(
        factories.run("one"), factories.sweep(at=(200,)), factories.trials("one", TRUTH)
    )


def test_a_model_is_fitted_and_its_peak_reported(summary: SweepSummary) -> None:
    (target,) = summary.targets
    assert target.status is MeasurementStatus.MEASURED
    assert [result.level for result in target.results] == list(LEVELS)
    assert all(result.is_fitted for result in target.results)
    assert target.model is not None
    assert target.model.peak is not None
    assert "highest at 3" in target.sentence


def test_generator_bound_levels_are_not_fitted() -> None:
    trials = factories.trials("one", TRUTH, busy=0.85)
    (target,) = summarise_sweep(factories.run("one"), factories.sweep(), trials).targets
    assert target.model is None
    assert "0 levels can be fitted" in target.reason
    assert "the load generator was near its limit in 6 of 6 blocks" in target.results[0].remarks


def test_a_generator_that_other_programs_delay_is_not_blamed() -> None:
    trials = factories.trials("one", TRUTH, busy=0.85, waits=0.3)
    summary = summarise_sweep(factories.run("one"), factories.sweep(), trials)
    (target,) = summary.targets
    assert target.results[0].remarks == (
        "other programs took the load generator's core in 6 of 6 blocks",
    )
    assert target.sentence.startswith("one: measured, without a fitted model: 0 levels can be")
    assert report_code(summary) is ExitCode.OK, "a whole table was measured"
    nothing = updated(summary, targets=(updated(target, results=()),))
    assert report_code(nothing) is ExitCode.UNDECIDED


def test_a_level_with_too_few_blocks_is_left_out() -> None:
    trials = [t for t in factories.trials("one", TRUTH) if t.level != 64 or t.block < 2]
    (target,) = summarise_sweep(factories.run("one"), factories.sweep(), trials).targets
    assert target.model is not None
    assert 64 not in target.model.levels


def test_shared_cores_have_no_law() -> None:
    shared = factories.run("one", cores=CoreAssignment(server=(0,), generator=(0,), shared=True))
    (target,) = summarise_sweep(shared, factories.sweep(), factories.trials("one", TRUTH)).targets
    assert target.model is None
    assert "shared cores" in target.reason


def test_workers_beyond_the_cores_are_measured_and_not_fitted() -> None:
    run = factories.run("one", cores=CoreAssignment(server=tuple(range(64)), generator=(64,)))
    (target,) = summarise_sweep(
        run, factories.sweep(Axis.WORKERS), factories.trials("one", TRUTH)
    ).targets
    assert target.model is not None
    assert target.model.levels == LEVELS[:-1]
    assert target.results[-1].rate_rps is not None
    assert "more workers than the 64 cores" in target.results[-1].remarks[0]


def test_over_rates_the_highest_that_was_sustained_is_reported() -> None:
    levels = (1000, 2000, 3000, 4000, 5000, 6000)
    trials = factories.paced("one", 3500, levels)
    sweep = factories.sweep(Axis.RATE, levels=levels, blocks=3)
    summary = summarise_sweep(factories.run("one"), sweep, trials)
    (target,) = summary.targets
    assert target.sustained_rps == 3000
    assert target.model is None
    assert "up to 3,000/s, and not at 4,000/s" in target.sentence
    assert "up to 3,000/s" in sweep_to_text(summary)


def test_a_target_that_never_started_is_reported_with_its_reason() -> None:
    broken = tuple(
        updated(campaigns.failed(TrialKind.CLOSED_LOOP, "one"), level=level, index=index)
        for index, level in enumerate(LEVELS)
    )
    summary = summarise_sweep(factories.run("one"), factories.sweep(), broken)
    (target,) = summary.targets
    assert target.status is MeasurementStatus.FAILED
    assert "ended with status 1" in target.sentence
    assert "address in use" in sweep_to_html(summary)


def test_the_same_records_give_the_same_bytes(summary: SweepSummary) -> None:
    again = summarise_sweep(
        summary.run, summary.sweep, tuple(reversed(factories.trials("one", TRUTH)))
    )
    for write in (sweep_to_text, to_json, sweep_to_html):
        assert write(summary) == write(again)


def test_every_format_says_the_same(summary: SweepSummary) -> None:
    (target,) = summary.targets
    found = json.loads(to_json(summary))
    assert found["targets"][0]["sentence"] == target.sentence
    for text in (
        sweep_to_text(summary),
        sweep_to_html(summary).replace("\N{NO-BREAK SPACE}", " "),
    ):
        assert target.sentence in " ".join(text.split())


@pytest.mark.parametrize("width", [80, 100])
def test_a_terminal_shows_every_level_with_units_and_headers(
    summary: SweepSummary, width: int
) -> None:
    text = sweep_to_text(summary, width=width)
    assert max(map(len, text.splitlines())) <= width
    (head,) = [line for line in text.splitlines() if "CPU/req" in line]
    names = ["connections", "rate", "CPU/req", "p50", "p99", "bound", "blocks", "fitted"]
    assert head.split() == names[: 8 if width > 80 else 7]
    rows = [line for line in text.splitlines() if line.split()[:1] == ["64"]]
    assert len(rows) == 1
    assert re.search(r"[\d,]+/s .\d+%  +[\d.]+ .s .\d+%  +[\d.]+ .s  +[\d.]+ .s  +server", rows[0])
    assert "peak at" in text
    assert "coherency, per million" in text
    assert not re.search(r"\de[+-]\d", text)


def test_nothing_is_concluded_from_a_sweep_that_was_interrupted() -> None:
    trials = [t for t in factories.trials("one", TRUTH) if t.block == 0 and (t.level or 0) < 8]
    run, sweep = factories.run("one"), factories.sweep()
    found = summarise_sweep(run, sweep, trials, unfinished="it was interrupted")
    (target,) = found.targets
    assert target.sentence == "one: the sweep is not finished: it was interrupted"
    text = sweep_to_text(found)
    assert "can be fitted" not in text
    assert "are needed" not in text
    nothing = summarise_sweep(factories.run("one"), factories.sweep(), ())
    assert "connections over no level yet, " in sweep_to_text(nothing)


def test_a_narrow_terminal_has_whole_columns(summary: SweepSummary) -> None:
    text = sweep_to_text(summary, width=40)
    assert max(map(len, text.splitlines())) <= 40
    assert "connections" in text
    assert re.search(r"^ +64 +[\d,]+/s .\d+%$", text, re.MULTILINE)


def test_a_name_that_is_markup_stays_text() -> None:
    name = "<b>x</b>"
    summary = summarise_sweep(factories.run(name), factories.sweep(), factories.trials(name, TRUTH))
    assert name not in sweep_to_html(summary)


def test_the_page_has_a_plot_of_the_law(summary: SweepSummary) -> None:
    page = sweep_to_html(summary)
    assert 'aria-labelledby="rates-title rates-description"' in page
    rates = next(figure for figure in sweep_figures(summary) if figure.name == "rates")
    (curve,) = drawing.curves(rates).values()
    assert len(curve) > 10
    assert len(drawing.marks(rates)) == len(LEVELS)
