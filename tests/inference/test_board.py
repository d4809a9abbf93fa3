"""Which run of each target a board shows."""

from collections.abc import Mapping

import pytest

from jissoku.inference.board import board_runs
from jissoku.model.history import IndexedRun
from jissoku.model.updated import updated
from tests.history.factories import ROW, arm

KINDS = {"nginx": "server", "go": "server", "node": "server", "floor": "server"}


def kind_of(target: str) -> str:
    return KINDS.get(target, "application server")


def run(
    key: str, day: int, *targets: str, verb: str = "compare", experiment: str = ""
) -> IndexedRun:
    row = updated(
        ROW,
        run=key,
        started_utc=f"2026-11-{day:02}T10:00:00+00:00",
        verb=verb,
        experiment=experiment,
    )
    folder = f"runs/{experiment}/{key}"
    return IndexedRun(row=row, arms=tuple(arm(name) for name in targets), folder=folder)


def shown(
    *runs: IndexedRun, closed: tuple[str, ...] = (), without: tuple[str, ...] = ()
) -> Mapping[str, list[tuple[str, tuple[str, ...], list[str]]]]:
    """By kind (run, its targets, other runs of them); costs of some runs are of a closed loop."""
    costs = {
        one.row.run: {a.arm: one.row.run not in closed for a in one.arms if a.arm not in without}
        for one in runs
    }
    return {
        kind: [(it.run.row.run, it.targets, [r.row.run for r in it.again]) for it in found]
        for kind, found in board_runs(runs, costs, kind_of).items()
    }


def test_a_target_is_shown_by_its_newest_run_and_others_are_linked() -> None:
    found = shown(run("b", 2, "nginx", "go"), run("a", 1, "nginx", "go"), run("c", 3, "go", "node"))
    assert found == {"server": [("c", ("go", "node"), []), ("b", ("nginx",), ["a"])]}


@pytest.mark.parametrize(
    ("older", "newer", "closed"),
    [
        (("nginx", "go"), ("nginx",), ()),
        (("nginx", "go"), ("nginx", "go"), ("newer",)),
        (("nginx", "go"), ("nginx", "uvicorn", "granian"), ()),
    ],
    ids=["beside others", "at a rate", "beside its kind"],
)
def test_an_older_run_shows_more_of_a_target(
    older: tuple[str, ...], newer: tuple[str, ...], closed: tuple[str, ...]
) -> None:
    found = shown(run("older", 1, *older), run("newer", 2, *newer), closed=closed)
    assert [one[0] for one in found["server"] if "nginx" in one[1]] == ["older"]


def test_the_first_workload_shows_an_experiment() -> None:
    runs = [run(key, day, "nginx", "go", experiment="x") for day, key in enumerate("pqr", 2)]
    found = shown(run("older", 1, "nginx", "go"), *runs)
    assert found == {"server": [("p", ("go", "nginx"), ["r", "q", "older"])]}


def test_self_tests_controls_and_arms_without_a_cost_are_not_shown() -> None:
    control = run("control", 1, "nginx", "go")
    arms = (*control.arms, arm("uvicorn", is_control=True))
    found = shown(
        updated(control, arms=arms),
        run("s", 2, "nginx", "go", verb="self-test"),
        run("d", 2, "nginx", "go", verb="doctor"),
        run("n", 3, "node"),
        without=("node",),
    )
    assert found == {"server": [("control", ("go", "nginx"), [])]}
