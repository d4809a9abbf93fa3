"""The report of one screen: what was found, what is undecided, and nothing else."""

import pytest

from jissoku.model import Estimate, Metric, Summary, Verdict
from jissoku.model.summary import ReportWarning, Severity
from jissoku.model.updated import updated
from jissoku.report.format import TIMES, ratio as ratio_text, significant
from jissoku.report.terminal import brief, plain, to_text
from tests.report import fixture

WIDTH, HEIGHT = 80, 40


def shown(summary: Summary) -> list[str]:
    return plain(brief(summary), width=WIDTH).splitlines()


@pytest.mark.parametrize("summary", [fixture.race(), fixture.two(), fixture.every_rate()])
def test_it_fits_one_screen(summary: Summary) -> None:
    lines = shown(summary)
    assert len(lines) < HEIGHT
    assert max(map(len, lines)) <= WIDTH


def test_every_arm_has_a_row_with_its_rank_and_ratio() -> None:
    summary = fixture.race()
    lines = shown(summary)
    for known in summary.arm_summaries:
        assert any(line.startswith(f" {known.arm.name} ") for line in lines), known.arm.name
    text = "\n".join(lines)
    assert summary.headline.split(";", maxsplit=1)[0][:60] in text
    assert "\N{PLUS-MINUS SIGN}" in text


def test_the_time_of_an_arm_agrees_with_its_ratio() -> None:
    summary = fixture.two()
    (cost,) = summary.by(Metric.COST)
    assert cost.ratio is not None
    base = {one.arm.name: one.at(summary.main_load) for one in summary.arm_summaries}[cost.against]
    assert base is not None
    assert base.cost_ns is not None
    ratio = updated(cost.ratio, value=2 * cost.ratio.value)
    others = tuple(one for one in summary.comparisons if one is not cost)
    lines = shown(updated(summary, comparisons=(updated(cost, ratio=ratio), *others)))
    (row,) = (line for line in lines if line.startswith(f" {cost.arm} "))
    microseconds = base.cost_ns.value * ratio.value / 1e3
    assert f" {significant(microseconds)} " in row


def test_a_pair_without_an_answer_says_what_would_decide() -> None:
    summary = fixture.two()
    (cost,) = summary.by(Metric.COST)
    others = tuple(one for one in summary.comparisons if one is not cost and one.is_decided)

    def text(**changes: object) -> str:
        given = {"verdict": Verdict.INCONCLUSIVE, "proven": False, **changes}
        unknown = updated(cost, **given)  # type: ignore[arg-type]
        return "\n".join(shown(updated(summary, comparisons=(unknown, *others))))

    pair = f"{cost.arm} / {cost.against} at 20,000/s"
    assert f"what would decide:\n{pair} 12 more blocks" in text(blocks_needed=12)
    assert f"{pair} about 1 min 10 s more" in text(blocks_needed=12, seconds_needed=61.0)
    ratio = cost.ratio and updated(cost.ratio, low=0.99, high=1.04)
    close = text(blocks_needed=99, is_out_of_reach=True, ratio=ratio)
    assert f"small a difference:\n{pair} differ by less than 4 %, or not at all" in close
    assert "equal" not in close.partition("Not decided")[2].partition("\n\n")[0]
    assert f"figure:\n{pair} (failed)" in text(ratio=None, verdict=Verdict.FAILED)
    proven = updated(cost, proven=True)
    assert "Undecided" not in "\n".join(shown(updated(summary, comparisons=(proven, *others))))


def test_a_capacity_says_it_too() -> None:
    summary = fixture.race()
    capacities = [
        updated(one, verdict=Verdict.INCONCLUSIVE, proven=False, blocks_needed=3, seconds_needed=9)
        for one in summary.by(Metric.CAPACITY)
    ]
    first = f"{capacities[0].arm} / {capacities[0].against} at capacity about 10 s more"
    assert first in " ".join(shown(updated(summary, comparisons=tuple(capacities))))


def test_p99_says_on_how_many_requests_it_rests() -> None:
    assert "p99 at 10,000/s, of 45,000 requests" in " ".join(shown(fixture.race()))


def test_a_load_without_any_figure_has_no_column() -> None:
    summary = fixture.every_rate()
    lost = summary.loads[-1]
    arms = tuple(
        updated(known, points=tuple(point for point in known.points if point.load != lost))
        for known in summary.arm_summaries
    )
    mark = f" {lost.rate_rps:,}/s "
    assert any(mark in line for line in shown(summary)[:4])
    assert not any(mark in line for line in shown(updated(summary, arm_summaries=arms))[:4])


def test_the_answer_is_the_last_thing_on_the_screen() -> None:
    summary = fixture.race()
    assert " ".join(shown(summary)).endswith(summary.headline)


def test_an_interval_that_says_nothing_is_not_shown_as_figures() -> None:
    summary = fixture.two()
    (cost,) = summary.by(Metric.COST)
    assert cost.ratio is not None
    ratio = updated(cost.ratio, value=1.29, low=0.001, high=15_571_645.4)
    known = updated(cost, ratio=ratio, verdict=Verdict.INCONCLUSIVE, proven=False)
    found = updated(
        summary,
        comparisons=(known,),
        arm_summaries=tuple(
            updated(one, capacity_rps=one.capacity_rps and updated(ratio, value=26_000.0))
            for one in summary.arm_summaries
        ),
    )
    text = "\n".join(shown(found)).partition(summary.headline[:20])[0]
    assert " ? " in text
    assert "? not known yet: from the least to the most" in " ".join(text.split())
    assert "26k" not in text
    whole = to_text(found).partition("CPU per request, against")[2]
    assert "not known yet" in whole
    assert "15571645" not in to_text(found)


def test_a_wide_interval_beyond_one_says_from_where_it_begins() -> None:
    more = Estimate(value=30, low=2.5, high=400, blocks=3, sd_log=1)
    assert ratio_text(more) == f"more than 2.5 {TIMES}"
    assert ratio_text(more.inverse) == f"less than 0.4 {TIMES}"


def test_a_warning_says_in_its_line_what_differs_and_what_to_do() -> None:
    warning = ReportWarning(
        severity=Severity.WARNING,
        title="go answers 12 bytes, nginx 13 bytes",
        text="",
        remedy="Do.",
    )
    text = "\n".join(shown(updated(fixture.two(), warnings=(warning,))))
    assert "warning: go answers 12 bytes, nginx 13 bytes\n  Do." in text


def test_without_any_figure_there_is_the_reason_alone() -> None:
    summary = fixture.race()
    arms = tuple(
        updated(known, points=(), capacity_rps=None)
        if known.arm.name != summary.run.floor
        else known
        for known in summary.arm_summaries
    )
    warning = ReportWarning(severity=Severity.PROBLEM, title="a failed", text="It answers 404.")
    found = shown(updated(summary, arm_summaries=arms, comparisons=(), warnings=(warning,)))
    assert found[:3] == ["", "problem: a failed", "  It answers 404."]
