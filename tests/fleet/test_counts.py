"""Costs of targets from counters at instants, with slices whose CPU time is known."""

from typing import Any

import pytest

from jissoku.fleet.clock import ClockBound, Translation
from jissoku.fleet.counts import NotRead, Spans, observation
from jissoku.fleet.wire import Counters
from jissoku.measure.observation import ArmObservation, HostObservation

MS = 1_000_000
OPEN_NS = 5_000 * MS
SLICE_NS, PAUSE_NS = 100 * MS, 1 * MS
OFFSET_NS = 3_600_000 * MS

# When the window's first slice begins, after the start of the load.
START_NS = 250 * MS


def began_ns(arm: int, arms: int, rotation: int, *, starts_reversed: bool) -> int:
    """When an arm's slice of a rotation began, after the start of the load, with pauses before."""
    place = arms - 1 - arm if starts_reversed is (rotation % 2 == 0) else arm
    return START_NS + (rotation * arms + place) * (SLICE_NS + PAUSE_NS)


def slice_of(began: int, rotation_ns: int) -> dict[str, Any]:
    return {
        "began_ns": began,
        "requests": 10,
        "duration_ns": SLICE_NS,
        "wait_ns": None,
        "runs": None,
        "generator_wait_ns": 7,
        "rotation_ns": rotation_ns,
        "rotation_cpu_ns": None,
        "rotation_foreign_ns": None,
    }


def report(arms: int, rotations: int, *, starts_reversed: bool = False) -> dict[str, Any]:
    rotation_ns = arms * (SLICE_NS + PAUSE_NS)
    targets = []
    for arm in range(arms):
        began = (
            began_ns(arm, arms, number, starts_reversed=starts_reversed)
            for number in range(rotations)
        )
        slices = [slice_of(one, rotation_ns) for one in began]
        targets.append({"slices": slices, "duration_ns": rotations * rotation_ns})
    return {"targets": targets}


def own_ns(slices: list[dict[str, Any]], at_ns: int) -> int:
    """How long an arm had been under load by an instant."""
    into_ns = at_ns - OPEN_NS + START_NS
    return sum(min(max(0, into_ns - one["began_ns"]), SLICE_NS) for one in slices)


def translation(error_ns: int = 40_000) -> Translation:
    bounds = [
        ClockBound(at_ns=at_ns, offset_ns=OFFSET_NS, error_ns=error_ns, round_trip_ns=2 * error_ns)
        for at_ns in (OPEN_NS - 500 * MS, OPEN_NS + 3_000 * MS)
    ]
    return Translation(before=bounds[0], after=bounds[1])


def counters(cpu: list[list[int]], **changes: Any) -> Counters:
    count = len(cpu[0])
    host = HostObservation(
        arms=(ArmObservation(),) * len(cpu), steal_fraction=0, foreign_fraction=0, major_faults=0
    )
    known: dict[str, Any] = {
        "host": host,
        "cpu_ns": tuple(map(tuple, cpu)),
        "beyond_ns": (0,) * len(cpu),
        "wait_ns": ((0,) * count,) * len(cpu),
        "runs": ((0,) * count,) * len(cpu),
        "idle_ns": (0,) * count,
        "kernel_ns": (0,) * count,
        "gap_ns": MS,
        "cores": 1,
    }
    return Counters(**(known | changes))


@pytest.mark.parametrize("arms", [1, 2, 3, 4])
@pytest.mark.parametrize("starts_reversed", [True, False])
def test_slices_have_the_cpu_time_of_their_arm(arms: int, *, starts_reversed: bool) -> None:
    said = report(arms, rotations=4, starts_reversed=starts_reversed)
    spans = Spans.of(said, OPEN_NS, OPEN_NS + 1, (OPEN_NS, OPEN_NS))
    rates = [2, 3, 5, 7][:arms]
    cpu = [
        [
            rate * own_ns(said["targets"][arm]["slices"], at_ns) // 10
            for at_ns in spans.instants_ns()
        ]
        for arm, rate in enumerate(rates)
    ]
    found = observation(said, spans, counters(cpu), translation(), 0)
    for rate, measured in zip(rates, found.measured, strict=True):
        assert measured["slice_cpu_ns"] == (rate * SLICE_NS // 10,) * 4
        assert measured["cpu_ns"] == 4 * rate * SLICE_NS // 10
        slices = measured["slices"]
        assert isinstance(slices, tuple)
        assert sum(one["rotation_cpu_ns"] for one in slices) == measured["cpu_ns"]
        assert {one["generator_wait_ns"] for one in slices} == {7}


def test_other_work_is_what_is_neither_idle_nor_a_targets() -> None:
    said = report(2, rotations=2)
    spans = Spans.of(said, OPEN_NS, OPEN_NS + 1, (OPEN_NS, OPEN_NS))
    at_ns = spans.instants_ns()
    busy = [[(one - OPEN_NS) // 10 for one in at_ns] for _ in range(2)]
    idle = tuple((one - OPEN_NS) // 2 for one in at_ns)
    found = observation(said, spans, counters(busy, idle_ns=idle), translation(), 0)
    slices = found.measured[0]["slices"]
    assert isinstance(slices, tuple)
    rotation_ns = 2 * (SLICE_NS + PAUSE_NS)
    assert slices[0]["rotation_foreign_ns"] == pytest.approx(0.3 * rotation_ns, abs=3)
    shared = observation(said, spans, counters(busy, cores=0), translation(), 0)
    slices = shared.measured[0]["slices"]
    assert isinstance(slices, tuple)
    assert slices[0]["rotation_foreign_ns"] is None


def test_the_bound_of_the_edges_is_recorded_and_moves_no_ratio() -> None:
    """An error of the clock moves both arms' CPU time by the same factor at constant rates."""
    said = {"targets": [{"slices": None, "duration_ns": 1_000 * MS}] * 2}
    spans = Spans.of(said, OPEN_NS, OPEN_NS + 1_000 * MS, (OPEN_NS - 150 * MS, OPEN_NS))
    ratios = []
    for error_ns in (-5 * MS, 0, 5 * MS):
        late = [one - OPEN_NS + error_ns + 200 * MS for one in spans.instants_ns()]
        cpu = [[2 * one // 10 for one in late], [3 * one // 10 for one in late]]
        found = observation(said, spans, counters(cpu), translation(), 2_000)
        one, two = (measured["cpu_ns"] for measured in found.measured)
        assert isinstance(one, int)
        assert isinstance(two, int)
        ratios.append(two / one)
        assert found.measured[0]["idle_cpu_ns_per_s"] == 200 * MS
        assert found.conditions["clock_error_ns"] == 40_000
        assert found.conditions["edge_error_ns"] == 40_000 + 2_000 + MS
    assert max(ratios) - min(ratios) < 1e-6


def test_a_process_that_ended_unnoticed_leaves_no_cpu_time() -> None:
    said = {"targets": [{"slices": None, "duration_ns": MS}]}
    spans = Spans.of(said, OPEN_NS, OPEN_NS + MS, (OPEN_NS, OPEN_NS))
    found = observation(said, spans, counters([[0, 5]], beyond_ns=(None,)), translation(), 0)
    assert found.measured[0]["cpu_ns"] is None
    found = observation(
        said, spans, counters([[0, 5]], beyond_ns=(3,), wait_ns=None, runs=None), translation(), 0
    )
    assert found.measured[0]["cpu_ns"] == 8
    assert found.conditions["target_wait_fraction"] is None


def test_edges_at_which_nothing_was_read_have_no_cpu_time() -> None:
    """As of an agent that was stopped: a straight line over two seconds says nothing."""
    said = {"targets": [{"slices": None, "duration_ns": 800 * MS}]}
    spans = Spans.of(said, OPEN_NS, OPEN_NS + 800 * MS, (OPEN_NS, OPEN_NS))
    for gap_ns in (0, 200 * MS):
        observation(said, spans, counters([[0, 5]], gap_ns=gap_ns), translation(), 0)
    with pytest.raises(NotRead, match="was not read for 201 ms of a window of 800 ms"):
        observation(said, spans, counters([[0, 5]], gap_ns=201 * MS), translation(), 0)
