"""The table in docs/ERROR-RATES.md belongs to this code."""

from pathlib import Path

import numpy as np
import pytest

from jissoku.model.updated import updated
from tests.simulation import counts as kept, table
from tests.simulation.counts import Count, simulated
from tests.simulation.scenarios import SCENARIOS

DOCUMENT = (Path(__file__).parents[2] / "docs" / "ERROR-RATES.md").read_text()
EXPECTED = [
    (scenario, name, bound) for scenario in SCENARIOS for name, bound in scenario.bounds.items()
]


def test_the_quoted_rows_are_the_scenarios_of_the_code() -> None:
    quoted = table.quoted(DOCUMENT)
    complete = {
        scenario.key: Count(scenario.long, dict.fromkeys(scenario.bounds, (0, 1)))
        for scenario in SCENARIOS
    }
    whole = table.rows(SCENARIOS, complete)
    assert [(*row[:4], row[5]) for row in quoted] == [(*row[:4], row[5]) for row in whole], (
        "make simulate SIMULATE=--write quotes it anew"
    )


@pytest.mark.parametrize(
    ("place", "expected"),
    list(enumerate(EXPECTED)),
    ids=[f"{scenario.key}: {name}" for scenario, name, _ in EXPECTED],
)
def test_the_quoted_shares_lie_in_their_bounds(place: int, expected: tuple) -> None:  # type: ignore[type-arg]
    scenario, _, bound = expected
    share = float(table.quoted(DOCUMENT)[place][4])
    assert bound.allows(share, scenario.long)


def test_no_scenario_is_there_twice() -> None:
    assert len({scenario.key for scenario in SCENARIOS}) == len(SCENARIOS)


def test_a_campaign_is_the_same_in_every_run() -> None:
    scenario = SCENARIOS[0]
    assert simulated(scenario, 2).seen == simulated(scenario, 2).seen
    first, second = (scenario.random(campaign).random() for campaign in (0, 1))
    assert first != second
    other = updated(scenario, setting="another")
    assert not np.allclose(other.random(0).random(3), scenario.random(0).random(3))


def test_what_was_counted_is_continued(tmp_path: Path) -> None:
    scenario = updated(SCENARIOS[0], long=3)
    first = simulated(scenario, 2)
    path = tmp_path / "kept" / "counts.json"
    assert kept.read(path) == {}
    kept.write(path, {scenario.key: first})
    counts = kept.read(path)
    assert counts == {scenario.key: first}
    assert kept.left([scenario], counts) == [scenario]
    counts[scenario.key].add(scenario)
    assert counts[scenario.key] == simulated(scenario, 3)
    assert kept.left([scenario], counts) == []


def test_a_table_is_put_between_its_markers() -> None:
    document = f"before\n{table.BEGIN}\nold\n{table.END}\nafter\n"
    scenario = SCENARIOS[0]
    counts = {scenario.key: Count(7, dict.fromkeys(scenario.bounds, (1, 4)))}
    whole = table.replaced(document, table.text([scenario], counts))
    assert whole.startswith("before\n") and whole.endswith("\nafter\n")  # noqa: PT018
    rows = table.quoted(whole)
    assert [row[3] for row in rows] == list(scenario.bounds)
    assert {row[4] for row in rows} == {"0.250"}
    assert rows[0][:3] == (scenario.name, scenario.setting, "7")
