"""Comparisons of two runs, on constructed records with known costs."""

import random
from typing import Any

import msgspec
import pytest

from jissoku.inference.across_runs import (
    breaks,
    difference,
    observed_tau,
    obstacles,
    occasions,
    race,
    run_difference,
    unchanged_arms,
)
from jissoku.inference.pooling import next_machine, pair_ratio
from jissoku.inference.run_rows import comparison, run_rows
from jissoku.inference.series import machine_ratios
from jissoku.measure.selection import workload as requested
from jissoku.model import (
    ConnectionMode,
    Load,
    LoadLevel,
    Origin,
    RawRequest,
    Transport,
    Workload,
)
from jissoku.model.history import Control, IndexedRun, Tau
from jissoku.model.updated import updated
from jissoku.request import ComparisonRequest, command_line
from jissoku.request.options import is_complete
from tests.history.factories import LOAD, ROW, arm, indexed, target_history
from tests.inference import factories

COSTS = {"a": 1.0, "floor": 0.0, "go": 0.7, "node": 1.4}
TAU = Tau(value=0.01, pairs=0)
NEW = {"a": "2.0"}


def test_the_same_question_on_the_same_machine_is_comparable() -> None:
    rng = random.Random(1)
    assert obstacles(indexed(COSTS, rng), indexed(COSTS, rng, number=1)) == ()


@pytest.mark.parametrize(
    ("field", "value", "word"),
    [
        ("workload", "x", "workloads"),
        ("machine", "x", "machines"),
        ("server_cores", 2, "cores"),
        ("shared", True, "cores"),
        ("method", "paired", "methods"),
    ],
)
def test_another_question_is_not(field: str, value: object, word: str) -> None:
    rng = random.Random(1)
    (reason,) = obstacles(indexed(COSTS, rng), indexed(COSTS, rng, number=1, **{field: value}))  # type: ignore[arg-type]
    assert word in reason


def test_another_rate_is_not() -> None:
    rng = random.Random(1)
    first, second = indexed(COSTS, rng), indexed(COSTS, rng, number=1)
    moved = {updated(LOAD, rate_rps=5_000): second.logs[LOAD]}
    assert obstacles(first, updated(second, logs=moved)) == ("they have no load in common",)


def test_what_else_changed_is_named() -> None:
    rng = random.Random(1)
    first, second = indexed(COSTS, rng), indexed(COSTS, rng, number=1, kernel="6.18")
    assert breaks(first, second) == ("kernel 6.12 -> 6.18",)


def test_unchanged_arms_have_one_program_and_are_no_controls() -> None:
    rng = random.Random(1)
    first, second = indexed(COSTS, rng), indexed(COSTS, rng, number=1, programs=NEW)
    again = (*second.arms, arm("go again", "go", is_control=True), updated(arm("url"), program=""))
    second = updated(second, arms=again)
    assert unchanged_arms(first, second) == (("floor", "floor"), ("go", "go"), ("node", "node"))


@pytest.mark.parametrize("tau", [0.0, 0.01, 0.03])
def test_a_change_is_covered_and_false_suspicions_are_rare(tau: float) -> None:
    rng = random.Random(round(tau * 1000))
    known = Tau(value=tau, pairs=0)
    hits = suspected = moved = 0
    for _ in range(300):
        first = indexed(COSTS, rng, tau=tau)
        second = indexed(COSTS, rng, tau=tau, number=1, programs=NEW)
        found = difference(first, second, "a", LOAD, known)
        assert found is not None
        hits += found.change.low <= 0 <= found.change.high
        suspected += found.is_suspected
        moved += found.control is Control.MOVED
    assert 0.91 <= hits / 300 <= 0.985
    assert suspected / 300 <= 0.03
    assert moved / 300 <= 0.09


def test_a_real_change_is_suspected() -> None:
    rng = random.Random(5)
    found = []
    for _ in range(100):
        first = indexed(COSTS, rng, tau=0.005)
        second = indexed(COSTS | {"a": 1.05}, rng, tau=0.005, number=1, programs=NEW)
        found.append(difference(first, second, "a", LOAD, Tau(value=0.005, pairs=0)))
    assert sum(one is not None and one.is_suspected for one in found) >= 90


def test_an_unchanged_program_is_never_suspected() -> None:
    rng = random.Random(6)
    first, second = indexed(COSTS, rng), indexed(COSTS | {"a": 1.5}, rng, number=1)
    found = difference(first, second, "a", LOAD, TAU)
    assert found is not None
    assert found.is_same
    assert not found.is_suspected


def test_runs_whose_unchanged_arms_moved_have_no_verdict() -> None:
    rng = random.Random(2)
    moved = COSTS | {"a": 1.2, "node": 1.8}
    first, second = indexed(COSTS, rng), indexed(moved, rng, number=1, programs=NEW)
    found = difference(first, second, "a", LOAD, TAU)
    assert found is not None
    assert found.control is Control.MOVED
    assert not found.is_suspected


def test_with_one_unchanged_arm_a_change_is_unchecked() -> None:
    rng = random.Random(2)
    pair = {"a": 1.0, "go": 0.7}
    found = difference(
        indexed(pair, rng), indexed(pair, rng, number=1, programs=NEW), "a", LOAD, TAU
    )
    assert found is not None
    assert found.control is Control.ABSENT


def test_without_an_unchanged_arm_runs_are_not_comparable() -> None:
    rng = random.Random(2)
    changed = {name: f"{name} 2" for name in COSTS}
    first, second = indexed(COSTS, rng), indexed(COSTS, rng, number=1, programs=changed)
    found = run_difference(first, second, TAU)
    assert found.obstacles == ("no arm is the same program in both",)
    assert found.changes == ()
    assert command_line(found.race) == "jissoku compare a go node"


def test_a_race_asks_what_the_last_run_was_asked_but_for_its_bounds() -> None:
    request = ComparisonRequest(
        arms=("a=granian@2.7",),
        cmd=("go=./go --port {port}",),
        path="/42",
        closed_loop=True,
        server_cores="0",
        label=(("commit", "abc"),),
        fail_if=("cost(go) > cost(a)",),
        confirm=True,
    )
    run = indexed(COSTS, random.Random(2), request=msgspec.json.encode(request).decode())
    expected = updated(request, arms=("a=granian@2.7", "node"), fail_if=(), confirm=False, label=())
    assert race([run]) == expected
    assert race([run], {"a"}) == updated(expected, arms=("a=granian@2.7",), cmd=())
    other = indexed(COSTS, random.Random(2))
    assert race([run, other]).arms == ("a", "go", "node")
    assert race([other, run]).arms == ("a=granian@2.7", "node")


@pytest.mark.parametrize(
    ("workload", "options"),
    [
        (Workload(), ""),
        (Workload(path="/42", connections=8, rate_rps=2000), "--path /42 -c 8 -R 2000"),
        (Workload(connection_mode=ConnectionMode.CLOSE), "--no-keepalive"),
        (Workload(pipeline=4, transport=Transport.UNIX), "--pipeline 4 --unix"),
        (
            Workload(method="POST", headers=(("A", "b c"),), body=b"it's"),
            """-m POST -H 'A: b c' --body 'it'"'"'s'""",
        ),
        (Workload(websocket=True, body=b"\xff"), "--body @FILE --websocket"),
        (Workload(body=b"@x"), "--body @FILE"),
        (Workload(raw_requests=(RawRequest(name="a", text=b"GET"),) * 2), "--raw FILE --raw FILE"),
    ],
)
def test_an_older_run_is_asked_for_by_its_header(workload: Workload, options: str) -> None:
    run = updated(factories.sliced(["a", "b"]), workload=workload, request=None)
    (row,) = run_rows("key", run, ()).runs
    assert command_line(row.asked) == f"jissoku compare a b {options}".strip()
    assert is_complete(row.asked) is ("FILE" not in options)
    if "FILE" not in options:
        assert requested(row.asked) == workload


def test_an_older_header_has_no_urls_and_no_commands_with_paths() -> None:
    run = factories.sliced(["a", "b", "c", "d"])
    changes: tuple[dict[str, Any], ...] = (
        {},
        {"origin": Origin.COMMAND, "command": ("…/server", "{port}")},
        {"origin": Origin.COMMAND, "command": ("./server", "a b", "{port}")},
        {"origin": Origin.URL},
    )
    arms = tuple(updated(arm, **one) for arm, one in zip(run.arms, changes, strict=True))
    found = comparison(updated(run, arms=arms), ())
    assert found.arms == ("a",)
    assert found.cmd == ("b=COMMAND", "c=./server 'a b' '{port}'")
    assert found.url == ("d=URL",)
    assert not is_complete(found)


def test_the_request_of_a_run_is_what_was_asked() -> None:
    given = ComparisonRequest(arms=("a", "b"), closed_loop=True, time_limit=90, blocks=9)
    run = updated(factories.sliced(["a", "b"]), request=given)
    (row,) = run_rows("key", run, ()).runs
    assert row.asked == given


def test_names_with_spaces_are_quoted_in_a_race() -> None:
    run = indexed({"a": 1.0, "go +5%": 0.7}, random.Random(2))
    arms = tuple(updated(one, target=one.arm.partition(" ")[0]) for one in run.arms)
    assert command_line(race([updated(run, arms=arms)])) == "jissoku compare a 'go +5%=go'"


def test_occasions_end_with_a_boot_and_with_a_pause() -> None:
    rng = random.Random(2)

    starts = ((1, "x"), (3, "x"), (4, "y"), (12, "y"))
    runs = [
        indexed(COSTS, rng, boot=boot, started_utc=f"2026-11-01T{hour:02}:00:00+00:00")
        for hour, boot in starts
    ]
    assert [len(one) for one in occasions(runs)] == [2, 1, 1]


def test_tau_is_observed_over_many_occasions() -> None:
    rng = random.Random(11)
    runs = [indexed(COSTS, rng, tau=0.02, number=number) for number in range(60)]
    found = observed_tau(runs)
    assert found.pairs == 177  # 59 neighbours, three pairs of four arms each
    assert found.value == pytest.approx(0.02, rel=0.3)


def test_a_series_tests_where_the_version_changed() -> None:
    rng = random.Random(5)
    runs = [indexed(COSTS, rng, tau=0.003, number=number) for number in range(6)]
    runs += [
        indexed(COSTS | {"a": 1.10}, rng, tau=0.003, number=number, programs=NEW)
        for number in range(6, 9)
    ]
    (series,) = target_history(runs, "a")
    assert [point.since is not None for point in series.points] == [False] * 6 + [
        True,
        False,
        False,
    ]
    since = series.points[6].since
    assert since is not None
    assert since.is_suspected
    assert since.versions == ("1.0", "2.0")
    assert since.occasions == (6, 3)
    assert series.anchor == "floor"
    assert series.pooled is not None
    assert series.pooled.occasions == 3
    assert series.pooled.is_confirmed


def test_a_series_is_not_pooled_over_a_break() -> None:
    rng = random.Random(4)
    runs = [
        indexed(COSTS, rng, number=number, kernel="6.12" if number < 3 else "6.18")
        for number in range(5)
    ]
    (series,) = target_history(runs, "a")
    assert [point.breaks for point in series.points][3] == ("kernel 6.12 -> 6.18",)
    assert series.pooled is not None
    assert series.pooled.occasions == 2


def test_an_aa_control_has_no_series() -> None:
    rng = random.Random(4)

    def with_control(run: IndexedRun) -> IndexedRun:
        control = arm("a again", "a", target="a", is_control=True)
        return updated(run, arms=(*(one for one in run.arms if one.arm != "a again"), control))

    costs = COSTS | {"a again": 1.0}
    runs = [with_control(indexed(costs, rng, number=number)) for number in range(3)]
    (series,) = target_history(runs, "a")
    assert (series.arm, len(series.points)) == ("a", 3)


def test_a_run_that_ended_early_is_in_no_series() -> None:
    rng = random.Random(4)
    runs = [indexed(COSTS, rng, number=number) for number in range(3)]
    stopped = updated(runs[1], unfinished="it was interrupted in block 4")
    (series,) = target_history([runs[0], stopped, runs[2]], "a")
    assert [point.runs for point in series.points] == [("run0000",), ("run0002",)]
    assert target_history([stopped], "a") == ()


def test_a_point_has_runs_of_the_same_surroundings_only() -> None:
    """Of one boot, an hour apart: for tau they are one occasion, and in a series two points."""
    rng = random.Random(4)
    runs = [
        indexed(
            COSTS,
            rng,
            number=number,
            boot="b",
            started_utc=f"2026-11-01T{10 + number}:00:00+00:00",
            governor=governor,
        )
        for number, governor in enumerate(("performance", "powersave", "performance"))
    ]
    assert len(occasions(runs)) == 1
    (series,) = target_history(runs, "a")
    assert [len(point.runs) for point in series.points] == [2, 1]
    assert series.points[1].breaks == ("governor performance -> powersave",)
    assert series.pooled is None


def test_the_command_for_another_occasion_measures_the_anchor_too() -> None:
    """The newest run of the target has neither the anchor nor the load of the series."""
    rng = random.Random(4)
    given = Load(rate_rps=20_000, level=LoadLevel.GIVEN)
    runs = [indexed({"a": 1.0, "node": 0.5}, rng, number=number) for number in (0, 1)]
    runs = [updated(run, logs={given: run.logs[LOAD]}) for run in runs]
    runs.append(indexed({"a": 1.0, "go": 0.2}, rng, number=2))
    (series,) = target_history(runs, "a")
    assert series.anchor == "node"
    assert series.race.arms == ("a", "node")


def test_series_of_nothing_raise_no_suspicion() -> None:
    """Each run has another version: 20 changes of version in each series, and no change."""
    alarms = 0
    for seed in range(20):
        rng = random.Random(seed)
        runs = [
            indexed(COSTS, rng, tau=0.005, number=number, programs={"a": f"{number}"})
            for number in range(20)
        ]
        (series,) = target_history(runs, "a")
        alarms += any(point.since and point.since.is_suspected for point in series.points)
    assert alarms <= 2


def test_machines_have_a_row_each() -> None:
    rng = random.Random(4)
    runs = [
        indexed(COSTS | {"a": 1 + number / 10}, rng, number=number, machine=f"m{number}")
        for number in range(4)
    ]
    (ratios,) = machine_ratios(target_history(runs, "a"))
    assert len(ratios.rows) == 4
    assert ratios.next_machine is not None
    assert ROW.machine == "m"


def test_equal_rates_are_one_load_whatever_their_name() -> None:
    rng = random.Random(1)
    first, second = indexed(COSTS, rng), indexed(COSTS, rng, number=1, programs=NEW)
    given = updated(LOAD, level=LoadLevel.GIVEN)
    renamed = updated(second, logs={given: second.logs[LOAD]})
    plain = run_difference(first, second, TAU)
    found = run_difference(first, renamed, TAU)
    assert [one.change for one in found.changes] == [one.change for one in plain.changes]
    assert found.obstacles == ()
    assert {one.load for one in found.changes} == {given}


@pytest.mark.parametrize("occasions_count", [2, 8])
def test_the_freedom_of_tau_is_that_of_its_estimate(occasions_count: int) -> None:
    """An estimate of a variance with n degrees of freedom has a relative variance of 2 / n."""
    rng = random.Random(occasions_count)
    costs = dict.fromkeys("abcdefg", 0.0)
    squares, freedoms = [], set()
    for _ in range(300):
        runs = [
            indexed(costs, rng, tau=0.05, sd=1e-4, number=number, blocks=3)
            for number in range(occasions_count)
        ]
        tau = observed_tau(runs)
        squares.append(tau.value**2)
        freedoms.add(tau.freedom)
    (freedom,) = freedoms
    mean = sum(squares) / len(squares)
    assert mean == pytest.approx(0.05**2, rel=0.1)
    spread = sum((one - mean) ** 2 for one in squares) / (len(squares) - 1)
    assert spread / mean**2 == pytest.approx(2 / freedom, rel=0.3)


def test_a_prediction_for_another_machine_uses_the_measured_errors() -> None:
    rng = random.Random(4)
    runs = [
        indexed(COSTS, rng, number=number, blocks=3, machine=f"m{number}") for number in range(5)
    ]
    series = target_history(runs, "a")
    (found,) = machine_ratios(series)
    values = [pair_ratio(run, LOAD, "a", found.anchor) for run in runs]
    assert found.next_machine is not None
    expected = next_machine([one for one in values if one is not None])
    assert expected is not None
    assert found.next_machine.low == pytest.approx(expected.low)
    assert found.next_machine.is_confirmed == expected.is_confirmed
