"""Changes in a series: tests at known boundaries, search elsewhere, and few false alarms."""

import random
from collections import Counter
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest

from jissoku.inference import pooling
from jissoku.inference.pooling import OCCASIONS_MIN, LogRatio, find_steps
from jissoku.model.history import Control, IndexedRun, Series
from jissoku.report.history import suspicion_text, suspicions
from tests.history.factories import indexed, target_history

COSTS = {"a": 1.0, "floor": 0.0, "go": 0.7, "node": 1.4}
Places = tuple[int, ...]


def series(shift: Callable[[int], float], count: int = 30, seed: int = 1) -> tuple[IndexedRun, ...]:
    """Occasions of which `a` costs `shift(number)` more."""
    rng = random.Random(seed)
    return tuple(
        indexed(COSTS | {"a": 1.0 + shift(number)}, rng, tau=0.005, number=number)
        for number in range(count)
    )


def suspected(found: Series) -> Places:
    return tuple(
        place
        for place, point in enumerate(found.points)
        if point.since and point.since.is_suspected
    )


def places(shift: Callable[[int], float], seeds: range, count: int = 30) -> Counter[Places]:
    return Counter(suspected(target_history(series(shift, count, seed), "a")[0]) for seed in seeds)


@pytest.mark.slow
def test_a_step_without_a_known_cause_is_found_where_it_is() -> None:
    found = places(lambda number: 0.03 * (number >= 15), range(20))
    assert sum(found[15 + near,] for near in (-1, 0, 1)) >= 19


@pytest.mark.slow
def test_a_step_down_is_a_change_as_well() -> None:
    found = places(lambda number: -0.03 * (number >= 20), range(10))
    assert found[20,] >= 9


@pytest.mark.slow
def test_a_stretch_has_two_steps() -> None:
    found = places(lambda number: 0.04 * (10 <= number < 20), range(10))
    assert found[10, 20] >= 9


@pytest.mark.slow
def test_nothing_is_found_where_nothing_changed() -> None:
    found = places(lambda _: 0.0, range(60))
    assert found[()] >= 58


def test_one_occasion_alone_is_no_step() -> None:
    """It is an outlier: rule 6 asks for two."""
    found = places(lambda number: 0.05 * (number == 15), range(10))
    assert found[()] == 10


def test_the_size_and_what_is_known_are_named() -> None:
    (found,) = target_history(series(lambda number: 0.03 * (number >= 15)), "a")
    (one,) = suspicions([found])
    assert one.change.occasions == (15, 15)
    assert one.change.control is Control.UNMOVED
    assert one.change.change.low < 0.03 < one.change.change.high
    text = suspicion_text(one)
    assert "a change of the same program is suspected" in text
    assert "over 15 and 15 occasions" in text
    assert "between 2026-01-15 10:00 and 2026-01-16 10:00: no known cause" in text
    assert "cannot be measured together; another occasion: jissoku compare a" in text


def test_a_change_of_the_kernel_is_a_boundary_and_nothing_is_joined_over_it() -> None:
    """The test of the boundary finds the step, and the search does not report it again."""
    rng = random.Random(3)
    runs = [
        indexed(
            COSTS | {"a": 1.0 + 0.05 * (number >= 15)},
            rng,
            tau=0.005,
            number=number,
            kernel="6.12" if number < 15 else "6.18",
        )
        for number in range(30)
    ]
    (found,) = target_history(runs, "a")
    (one,) = suspicions([found])
    assert suspected(found) == (15,)
    assert one.is_known
    assert one.cause.endswith("kernel 6.12 -> 6.18")
    assert one.change.occasions == (1, 1)


def test_machines_of_other_labels_are_another_boundary() -> None:
    rng = random.Random(3)
    runs = [
        indexed(COSTS, rng, number=number, machine_label="left" if number < 2 else "right")
        for number in range(4)
    ]
    (found,) = target_history(runs, "a")
    assert found.points[2].breaks == ("machine left -> right",)


@pytest.mark.parametrize("field", ["machine", "workload", "method"])
def test_runs_that_are_not_comparable_share_no_series(field: str) -> None:
    """The difference between them is 50 %, and no change may be reported (rules 1 and 7)."""
    rng = random.Random(3)
    runs = [
        indexed(
            COSTS | {"a": 1.0 + 0.5 * (number >= 10)},
            rng,
            number=number,
            tau=0.0,
            **cast("Any", {field: "x" if number < 10 else "y"}),
        )
        for number in range(20)
    ]
    found = target_history(runs, "a")
    assert [len(one.points) for one in found] == [10, 10]
    assert suspicions(found) == ()


def test_without_an_unchanged_arm_nothing_is_said() -> None:
    rng = random.Random(3)
    runs = [
        indexed(
            COSTS | {"a": 1.0 + 0.5 * (number >= 10)},
            rng,
            number=number,
            programs={name: f"{name}{number}" for name in COSTS},
        )
        for number in range(20)
    ]
    assert all(len(one.points) == 1 for one in target_history(runs, "a"))


def test_an_anchor_that_moved_is_seen_by_the_control() -> None:
    """The floor's cost steps although its program is the same: no change of `a` is claimed."""
    rng = random.Random(3)
    runs = [
        indexed(COSTS | {"floor": 0.05 * (number >= 15)}, rng, tau=0.005, number=number)
        for number in range(30)
    ]
    (found,) = target_history(runs, "a")
    assert found.anchor == "floor"
    assert found.points[15].since is not None
    assert found.points[15].since.control is Control.MOVED
    assert suspected(found) == ()


def test_few_occasions_are_not_searched() -> None:
    values = [LogRatio(float(number >= 6), 1e-6, 8) for number in range(OCCASIONS_MIN - 1)]
    assert find_steps(values, 0.001, 0.01) == ()
    values.append(values[-1])
    assert [step.place for step in find_steps(values, 0.001, 0.01)] == [6]


def test_precise_occasions_weigh_more() -> None:
    """A step of occasions with a hundredfold error is not one."""
    rng = random.Random(5)

    def found(error: float) -> tuple[int, ...]:
        values = [
            LogRatio(rng.gauss(0.03 if number >= 12 else 0, error), error**2, 8)
            for number in range(24)
        ]
        return tuple(step.place for step in find_steps(values, 0.001, 0.01))

    assert found(0.002) == (12,)
    assert found(0.2) == ()


def test_lengths_that_cannot_reach_a_step_are_left_out() -> None:
    """The p-value is the same as of a search of all lengths."""
    rng = random.Random(7)
    for step in (0.0, 0.01, 0.03):
        values = np.array([rng.gauss(step * (number >= 20), 0.007) for number in range(40)])
        weights = np.array([rng.uniform(0.5, 2) for _ in values])
        values -= weights @ values / weights.sum()
        height, _ = pooling._best(values, weights)
        order = np.random.default_rng(1)
        places = order.permuted(np.tile(np.arange(40), (200, 1)), axis=1).T
        every = [pooling._best(values[column], weights[column])[0] >= height for column in places.T]
        assert pooling._exceeding(values[places], weights[places], height) == sum(every)
