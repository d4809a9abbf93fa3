"""Campaigns of the lab's self-test, kept in records/self-test: which bounds they keep.

`python -m tests.test_self_test_records` prints the table of records/README.md, made from them.
"""

import sys
from functools import cache
from pathlib import Path

import pytest

from jissoku import inference, records
from jissoku.inference.self_test import BoundCheck, BoundState, check_detection
from jissoku.measure.self_test import CampaignResult, SeriesResults, bound_checks
from jissoku.model import Load, LoadLevel, Metric

RECORDS = Path(__file__).parent.parent / "records"
FOLDER = RECORDS / "self-test"
BEGIN, END = "<!-- self-test -->\n", "<!-- /self-test -->\n"

# The first test that needs the records reads all of them.
pytestmark = pytest.mark.slow

LOAD = Load(rate_rps=5_000, level=LoadLevel.MEDIUM)

# Campaigns of standard mode, which `self-test` does not run. Those with +2 % ended at a
# half-width of 1 %, those with +1 % at 0.5 %, as standard mode does.
STANDARD = {
    "standard-1": "+1 % injected, paired, standard mode",
    "standard-2": "+2 % injected, paired, standard mode",
}


def test_every_bound_is_kept() -> None:
    assert [row for row in _rows() if row.state is not BoundState.PASS] == []


def test_the_table_is_made_of_the_records() -> None:
    text = (RECORDS / "README.md").read_text(encoding="utf-8")
    _, _, rest = text.partition(BEGIN)
    assert rest.partition(END)[0] == table()


def table() -> str:
    """A row for each bound."""
    lines = ["| series | campaigns | found | bound |", "|---|---|---|---|"]
    standard = [
        row
        for folder, name in STANDARD.items()
        for row in check_detection(name, [one.comparison for one in _campaigns(folder)])
    ]
    rows = (*_rows(), *standard)
    lines += [f"| {r.series} | {r.campaigns} | {r.result} | {r.bound} |" for r in rows]
    return "\n".join(lines) + "\n"


@cache
def _rows() -> tuple[BoundCheck, ...]:
    series = SeriesResults(
        load=LOAD,
        paired=_campaigns("like-arms-medium"),
        paired_injected=_campaigns("like-arms-injected-medium"),
        time_sliced=_campaigns("time-sliced-medium"),
        unlike=_campaigns("unlike-medium"),
        unlike_injected=_campaigns("unlike-injected-medium"),
    )
    return tuple(bound_checks(series))


def _campaigns(name: str) -> list[CampaignResult]:
    summaries = [
        inference.summarise(*records.read(folder)) for folder in sorted((FOLDER / name).iterdir())
    ]
    return [
        CampaignResult(comparison=summary.by(Metric.COST)[0], cost_ns=None, steal=None)
        for summary in summaries
    ]


if __name__ == "__main__":
    sys.stdout.write(table())
