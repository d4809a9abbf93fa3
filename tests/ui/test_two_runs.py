"""What a page of two runs shows of them."""

import random

from jissoku.inference.across_runs import run_difference
from jissoku.model import Load, LoadLevel
from jissoku.model.history import Tau
from jissoku.model.updated import updated
from jissoku.report.history import difference_text
from jissoku.ui.page_data import changes_table, pair_facts
from tests.history.factories import LOAD, indexed

COSTS = {"a": 1.0, "floor": 0.0, "go": 0.7}
TAU = Tau(value=0.01, pairs=0)


def test_loads_and_an_early_end_are_properties_of_a_run() -> None:
    rng = random.Random(1)
    first, second = indexed(COSTS, rng), indexed(COSTS, rng, number=1, turbo="on")
    light = Load(rate_rps=5_000, level=LoadLevel.LIGHT)
    first = updated(first, logs={light: first.logs[LOAD]} | first.logs)
    second = updated(second, unfinished="it was interrupted in block 4")
    found = run_difference(first, second, TAU)
    facts = dict(pair_facts(found))
    assert facts["loads"] == ("5,000/s, 20,000/s", "20,000/s")
    assert facts["incomplete"] == ("-", "it was interrupted in block 4")
    assert facts["turbo"] == ("off", "on")
    assert "label" not in facts, "neither has one"
    assert "  incomplete: it was interrupted in block 4\n" in difference_text(found)


def test_another_program_of_the_same_version_is_named() -> None:
    rng = random.Random(1)
    first, second = indexed(COSTS, rng), indexed(COSTS, rng, number=1, programs={"a": "1.0"})
    found = run_difference(first, second, TAU)
    versions = {row[0]: row[4] for row in changes_table(found).rows}
    assert versions == {"a": "1.0, another program", "floor": "1.0", "go": "1.0"}
    text = difference_text(found)
    assert "a (another program of the same version), 20,000/s" in text
    assert "floor, 20,000/s" in text
