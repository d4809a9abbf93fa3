"""Work injected into Go and Node, in records/injected: whether the lab finds as much.

`python -m tests.test_injected_records` writes the table of records/README.md, made of the records.
"""

from functools import cache
from pathlib import Path

import pytest

from jissoku import inference, records
from jissoku.model import Comparison, Estimate, Metric, Summary
from jissoku.model.summary import CrossCheckName
from tests import records_table

RECORDS = Path(__file__).parents[1] / "records"
README = RECORDS / "README.md"

# Both recipes in tests/injected read the clock for so long.
INJECTED_NS = 1_600
PAIRS = {"go-injected": "go", "node-injected": "node"}

# The ratio to another server has to move by so much, and as much as that of targets measured alone.
EXPECTED, TOLERANCE = 0.05, 0.015


@cache
def _summary() -> Summary:
    return inference.summarise(*records.read(RECORDS / "injected"))


def _against(arm: str, against: str) -> Comparison:
    return next(
        one for one in _summary().by(Metric.COST) if (one.arm, one.against) == (arm, against)
    )


def _injected(arm: str) -> float:
    """The injected part of the CPU time per request of an arm without it."""
    summary = _summary()
    found = next(one for one in summary.arm_summaries if one.arm.name == arm)
    point = found.at(summary.main_load)
    assert point is not None
    assert point.cost_ns is not None
    return INJECTED_NS / point.cost_ns.value


def _alone(comparison: Comparison) -> Estimate:
    """The ratio of targets that were measured alone, in the same blocks."""
    checks = (one for one in comparison.cross_checks if one.name is CrossCheckName.ALONE)
    ratio = next(checks).ratio
    assert ratio is not None
    return ratio


def _moved(arm: str, without: str) -> float:
    """By how much the ratio to nginx-tuned moved: 0.05 for 5 %."""
    before, after = (_against(one, "nginx-tuned").ratio for one in (without, arm))
    assert before is not None
    assert after is not None
    return after.value / before.value - 1


def table() -> str:
    """A row for each server."""
    head = [
        "target",
        "nginx-tuned = 1",
        "with injected work",
        "ratio of the two",
        "each alone",
        "injected time",
    ]
    rows = []
    for arm, without in PAIRS.items():
        direct = _against(arm, without)
        ratios = (
            _against(without, "nginx-tuned").ratio,
            _against(arm, "nginx-tuned").ratio,
            direct.ratio,
            _alone(direct),
        )
        texts = [one.text if one else "" for one in ratios]
        rows.append([without, *texts, f"+{100 * _injected(without):.1f} %"])
    return records_table.table_of(head, rows)


def made() -> str:
    """The README with the table of the run."""
    return records_table.fill(README, "injected", table())


# The first test that needs the records reads all of them.
pytestmark = pytest.mark.slow


def test_the_ratio_to_another_server_moves_by_the_injected_part() -> None:
    for arm, without in PAIRS.items():
        assert abs(_moved(arm, without) - EXPECTED) < TOLERANCE, f"{arm}: {_moved(arm, without)}"


def test_as_much_is_found_as_by_targets_measured_alone() -> None:
    for arm, without in PAIRS.items():
        found = _against(arm, without)
        assert found.ratio is not None
        assert found.proven, arm
        assert abs(found.ratio.value - _alone(found).value) < TOLERANCE, found.ratio.text


def test_the_table_is_made_of_the_records() -> None:
    assert made() == README.read_text("utf-8"), "run `python -m tests.test_injected_records`"


if __name__ == "__main__":
    README.write_text(made(), "utf-8")
