"""Why two arms are decided or not: interval, threshold, conditions, and what would decide."""

import pytest

from jissoku.model import Metric, Summary, Verdict
from jissoku.model.trial import Condition
from jissoku.model.updated import updated
from jissoku.report.terminal import why_text
from tests.report import fixture


def changed(**changes: object) -> tuple[Summary, str, str]:
    summary = fixture.two()
    (cost,) = summary.by(Metric.COST)
    found = updated(cost, **changes)  # type: ignore[arg-type]
    return updated(summary, comparisons=(found,)), cost.arm, cost.against


def test_an_undecided_pair_says_what_would_decide() -> None:
    (cost,) = fixture.two().by(Metric.COST)
    ratio = cost.ratio and updated(cost.ratio, value=1.01, low=0.98, high=1.04)
    summary, arm, against = changed(
        verdict=Verdict.INCONCLUSIVE,
        proven=False,
        ratio=ratio,
        p_holm=0.4,
        blocks_needed=12,
        seconds_needed=90.0,
        condition=Condition.BUSY,
        other_programs=0.07,
    )
    text = why_text(summary, arm, against)
    assert text == why_text(summary, against, arm)
    for part in (
        "Interval: 0.980 to 1.040, from 9 blocks.",
        "Threshold: 2 %; a ratio from 0.980 to 1.020 is practically equal.",
        "contains 1 and goes beyond the threshold",
        "p = 0.4 with all comparisons",
        "other programs used 7 % of the cores.",
        "12 more blocks would decide it, in about 1 min 30 s: --for gives a run more time.",
    ):
        assert part in text, text


def test_a_decided_pair_and_one_without_a_value_say_so() -> None:
    summary, arm, against = changed(proven=True)
    assert "It is decided" in why_text(summary, arm, against)
    summary, arm, against = changed(ratio=None, remarks=("It failed",), verdict=Verdict.FAILED)
    assert why_text(summary, arm, against).endswith("\n  It failed\n")
    assert why_text(summary, arm, "another") == ""


@pytest.mark.parametrize(
    ("needed", "seconds", "text"),
    [
        (None, None, "at this spread more than 1,000 more blocks would be needed"),
        (500, 4000.0, "500 more blocks would be needed, about 67 min, which is more than an hour"),
        (
            40,
            120.0,
            "40 more blocks would be needed, about 2 min, and this run ends before: --blocks 49",
        ),
        (400, None, "400 more blocks would be needed, and this run ends before."),
    ],
)
def test_out_of_reach_says_which_and_what_to_do(
    needed: int | None, seconds: float | None, text: str
) -> None:
    undecided = {"verdict": Verdict.INCONCLUSIVE, "proven": False, "is_out_of_reach": True}
    found = changed(**undecided, blocks_needed=needed, seconds_needed=seconds)
    assert f"Out of reach: {text}" in why_text(*found)


def test_it_may_be_unknown() -> None:
    assert "is unknown" in why_text(*changed(verdict=Verdict.INCONCLUSIVE, proven=False))
