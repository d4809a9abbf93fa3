"""The report of one screen: what was found, what is undecided, and nothing else."""

import pytest

from jissoku.model import Metric, Summary, Verdict
from jissoku.model.updated import updated
from jissoku.report.brief import brief
from jissoku.report.text import plain
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


def test_a_pair_without_an_answer_says_how_many_blocks_it_lacks() -> None:
    summary = fixture.two()
    (cost,) = summary.by(Metric.COST)
    unknown = updated(cost, verdict=Verdict.INCONCLUSIVE, proven=False, blocks_needed=12)
    others = tuple(one for one in summary.comparisons if one is not cost)
    lines = shown(updated(summary, comparisons=(unknown, *others)))
    at = lines.index("Undecided by CPU per request:")
    assert "12 more blocks" in lines[at + 1]
    proven = updated(cost, proven=True)
    assert "Undecided" not in "\n".join(shown(updated(summary, comparisons=(proven, *others))))
