import itertools
import random

from jissoku.inference.tool_values import sample_values
from jissoku.model.calibration import CalibrationCheck, Samples, Scenario
from jissoku.model.updated import updated

WANTED = Samples(file="raw.csv", start="due_ns", end="done_ns", where={"kind": "ok"})


def test_percentiles_are_those_of_the_sorted_samples() -> None:
    lines = [f"{place},{place * 2},ok" for place in range(1000, 0, -1)]
    found = sample_values(WANTED, ["due_ns,done_ns,kind", *lines, "0,999999,timeout"])
    assert found["raw_count"] == 1000
    assert found["raw_sum_ns"] == 500_500
    assert (found["raw_min_ns"], found["raw_max_ns"]) == (1, 1000)
    assert (found["raw_p50_ns"], found["raw_p99_ns"], found["raw_p999_ns"]) == (500, 990, 999)
    assert found["raw_p9999_ns"] == 1000


def test_due_times_are_held_against_an_exponential_distribution() -> None:
    rng = random.Random(1)
    even = [place * 1000 for place in range(1000)]
    drawn = list(itertools.accumulate(round(rng.expovariate(1e-3)) for _ in range(1000)))
    wanted = Samples(file="raw.csv", start="due_ns", end="done_ns", due="due_ns")
    found = []
    for due in (even, drawn):
        lines = ["due_ns,done_ns", *(f"{at},{at + 1}" for at in due)]
        found.append(sample_values(wanted, lines)["raw_due_ks"])
    assert found[0] > 10
    assert found[1] < 1.63


def test_a_log_without_a_request_has_no_percentiles() -> None:
    lines = ["due_ns,done_ns,kind"]
    assert sample_values(WANTED, lines) == {"raw_count": 0, "raw_sum_ns": 0}


def test_a_session_has_the_set_ups_of_its_kind() -> None:
    setup = (
        Scenario(name="a", ask={"duration_s": 5}, quick={"duration_s": 1}, long={"duration_s": 9}),
        Scenario(name="b", when="standard", ask={}),
        Scenario(name="c", when="long", ask={}),
        Scenario(name="d", when="quick", ask={}, quick={}),
    )
    check = CalibrationCheck(id="C1", title="A test", why="A test.", setup=setup)
    for mode, names, seconds in (("quick", "ad", 1), ("standard", "ab", 5), ("long", "ac", 9)):
        found = check.variant(mode)
        assert "".join(it.name for it in found.setup) == names
        assert found.setup[0].ask == {"duration_s": seconds}
    assert not updated(check, setup=setup[1:3]).variant("quick").setup
