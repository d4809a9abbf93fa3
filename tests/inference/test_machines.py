"""Verdicts over machines: by hand, against Student and a published implementation, simulated."""

import math
import random
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import stats  # type: ignore[import-untyped]
from statsmodels.stats.meta_analysis import combine_effects  # type: ignore[import-untyped]

from jissoku.inference.machines import (
    compare_machines,
    measured_machine,
    over_machines,
    settle,
)
from jissoku.model import LoadLevel, updated
from jissoku.model.machines import MachineOut, MachinesComparison, MachinesRun, MachinesVerdict
from jissoku.request import ComparisonRequest
from tests import machines_study as study
from tests.inference import factories

KEY = ("b", "a", LoadLevel.MEDIUM)
TRUTHS = {
    "a": factories.TrueValues(cost_ns=10_000.0),
    "b": factories.TrueValues(cost_ns=13_000.0),
}


def compared(
    means: Sequence[float],
    errors: Sequence[float],
    *,
    asked: int = 0,
    out: Sequence[MachineOut] = (),
) -> MachinesComparison:
    """The settled verdict of machines with these log ratios and errors, of nine blocks each."""
    ratios = [
        study.machine_ratio(number, mean, error, 9)
        for number, (mean, error) in enumerate(zip(means, errors, strict=True), 1)
    ]
    (found,) = settle([compare_machines(KEY, ratios, out, asked or len(ratios))])
    return found


def logs(found: MachinesComparison) -> tuple[float, float, float]:
    assert found.ratio is not None
    return math.log(found.ratio.low), math.log(found.ratio.value), math.log(found.ratio.high)


def test_a_hand_worked_example() -> None:
    """Machines of equal error 0.01 with means 0.25, 0.27, 0.32.

    Their mean is 0.28 and their variance 0.0013 = tau^2 + 0.0001: tau is 0.03464. The error of the
    mean is sqrt(0.0013 / 3) = 0.02082, and Student's t with 2 degrees of freedom 4.3027. Q is
    0.0026 / 0.0001 = 26, and I^2 (26 - 2) / 26.
    """
    found = compared([0.25, 0.27, 0.32], [0.01] * 3)
    low, mean, high = logs(found)
    assert mean == pytest.approx(0.28)
    assert found.tau == pytest.approx(0.034641, abs=1e-6)
    assert (mean - low, high - mean) == pytest.approx((0.089569, 0.089569), abs=1e-5)
    assert found.i_squared == pytest.approx(24 / 26)
    # By Welch: F = 13 / (1 + 2 / 8 * 3 (2 / 3)^2 / 8) with 2 and 8 / (3 * 1 / 6) = 16 degrees.
    assert found.p_differ == pytest.approx(float(stats.f.sf(13 / (1 + 1 / 24), 2, 16)))
    assert found.verdict is MachinesVerdict.HIGHER_ON_ALL
    assert found.next_machine is None, "three machines predict no fourth one"


@given(st.lists(st.floats(-0.5, 0.5), min_size=3, max_size=20), st.floats(1e-3, 0.1))
def test_with_equal_errors_it_is_students_interval_unless_machines_agree_too_well(
    means: list[float], error: float
) -> None:
    """Where machines differ less than their errors, those are the width: never a narrower one."""
    low, mean, high = logs(compared(means, [error] * len(means)))
    count = len(means)
    spread = max(float(np.std(means, ddof=1)), error) / math.sqrt(count)
    half = float(stats.t.ppf(0.975, count - 1)) * spread
    assert mean == pytest.approx(float(np.mean(means)), abs=1e-6)
    assert (mean - low, high - mean) == pytest.approx((half, half), rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_it_is_the_wider_interval_of_a_published_implementation(seed: int) -> None:
    rng = random.Random(seed)
    errors = [rng.uniform(0.002, 0.02) for _ in range(3 + 4 * seed)]
    means = [0.1 + rng.gauss(0, 0.02) + rng.gauss(0, error) for error in errors]
    low, mean, high = logs(compared(means, errors))
    # In thousandths: its tolerance for the variance between machines is absolute.
    scaled, variances = 1e3 * np.array(means), 1e6 * np.array(errors) ** 2
    known = combine_effects(scaled, variances, method_re="iterated", use_t=True)
    plain, hartung_knapp = (known.conf_int()[place] for place in (1, 3))
    half = max(float(np.diff(one)[0]) for one in (plain, hartung_knapp)) / 2
    assert 1e3 * mean == pytest.approx(known.mean_effect_re, abs=1e-3)
    assert 1e3 * (high - low) / 2 == pytest.approx(half, rel=1e-3)


@given(
    st.lists(
        st.tuples(st.floats(-0.5, 0.5), st.floats(1e-4, 0.2)), min_size=3, max_size=12, unique=True
    ),
    st.randoms(use_true_random=False),
)
def test_it_depends_on_no_order_of_machines_or_arms(
    machines: list[tuple[float, float]], rng: random.Random
) -> None:
    means, errors = zip(*machines, strict=True)
    low, mean, high = logs(compared(means, errors))
    assert low <= mean <= high
    assert min(means) - 1e-9 <= mean <= max(means) + 1e-9
    other = rng.sample(machines, len(machines))
    assert logs(compared(*zip(*other, strict=True))) == pytest.approx((low, mean, high), abs=1e-6)
    turned = logs(compared([-one for one in means], errors))
    assert turned == pytest.approx((-high, -mean, -low), abs=1e-6)


@pytest.mark.parametrize(
    ("means", "errors", "verdict"),
    [
        ([0.2], [0.01], MachinesVerdict.OF_ONE),
        ([0.2, 0.3], [0.01] * 2, MachinesVerdict.NOT_POOLED),
        ([0.2, 0.25, 0.3], [0.01] * 3, MachinesVerdict.HIGHER_ON_ALL),
        ([-0.2, -0.25, -0.3], [0.01] * 3, MachinesVerdict.LOWER_ON_ALL),
        ([0.08, 0.07, 0.09, 0.08, 0.1, 0.05], [0.04] * 6, MachinesVerdict.HIGHER_ON_AVERAGE),
        ([0.2, -0.2, 0.25, 0.3], [0.01] * 4, MachinesVerdict.DEPENDS),
        ([0.05, -0.05, 0.07, -0.06, 0.06, -0.05], [0.02] * 6, MachinesVerdict.INCONCLUSIVE),
        ([0.05, -0.05, 0.07, -0.06, 0.06] * 2, [0.02] * 10, MachinesVerdict.DEPENDS),
        ([0.001, -0.002, 0.0, 0.001], [0.002] * 4, MachinesVerdict.EQUAL),
        ([0.05, -0.01, 0.03], [0.05] * 3, MachinesVerdict.INCONCLUSIVE),
    ],
)
def test_verdicts(means: list[float], errors: list[float], verdict: MachinesVerdict) -> None:
    assert compared(means, errors).verdict is verdict


def test_an_undecided_mean_has_the_number_of_machines_that_would_decide() -> None:
    """With the spread of these, t sd / sqrt(k) falls below the distance to the minimum effect."""
    found = compared([0.05, 0.01, 0.03, 0.09], [0.001] * 4)
    assert found.verdict is MachinesVerdict.INCONCLUSIVE
    needed, spread = found.machines_needed, float(np.std([0.05, 0.01, 0.03, 0.09], ddof=1))
    assert needed is not None
    away = 0.045 - math.log1p(found.minimum_effect)

    def half(machines: int) -> float:
        return float(stats.t.ppf(0.975, machines - 1)) * spread / math.sqrt(machines)

    assert half(needed) < away <= half(needed - 1)
    assert f"{needed} machines may decide" in found.sentence


def test_a_further_machine_is_predicted_from_five_on_and_roughly_below_ten() -> None:
    means = [0.2, 0.21, 0.22, 0.2, 0.19, 0.2, 0.21, 0.2, 0.2, 0.21]
    assert compared(means[:4], [0.01] * 4).next_machine is None
    assert "next machine like these: roughly [" in compared(means[:5], [0.01] * 5).sentence
    assert "next machine like these: [" in compared(means, [0.01] * 10).sentence


def test_with_more_than_a_fifth_of_the_machines_out_it_is_incomplete() -> None:
    out = [MachineOut(machine=5, reason="it was cut off")]
    four = compared([0.2] * 4, [0.01] * 4, asked=5, out=out)
    assert four.verdict is MachinesVerdict.HIGHER_ON_ALL, "a fifth may be out"
    three = compared([0.2] * 3, [0.01] * 3, asked=4, out=out)
    assert three.verdict is MachinesVerdict.INCOMPLETE
    assert "incomplete without machine 5" in three.sentence


def test_a_difference_on_one_machine_is_corrected_for_the_number_of_machines() -> None:
    """Each alone is proven at 0.04, and of five that is what chance gives."""
    ratios = [study.machine_ratio(number, 0.05, 0.02, 9) for number in range(1, 6)]
    weak = [updated(one, own=updated(one.own, p_holm=0.04, proven=True)) for one in ratios]
    found = compare_machines(KEY, weak, (), 5)
    assert found.proven_higher == ()


def test_without_one_machine_the_others_are_pooled() -> None:
    means = [0.1, 0.12, 0.11, 0.4]
    found = compared(means, [0.01] * 4)
    assert [one.machine for one in found.leave_one_out] == [1, 2, 3, 4]
    without = math.log(found.leave_one_out[3].ratio.value)
    assert without == pytest.approx(0.11, abs=1e-6), "and shown, not dropped"
    assert found.ratio is not None
    assert math.log(found.ratio.value) > 0.15


def test_the_ratio_and_its_error_are_those_of_the_machines_own_verdict() -> None:
    run = factories.sliced(("a", "b"))
    machine = measured_machine(1, run, factories.trials(run, TRUTHS))
    assert machine.ratios
    for one in machine.ratios:
        assert one.own.ratio is not None
        assert one.mean == pytest.approx(math.log(one.own.ratio.value))
        half = one.own.ratio.half_width
        assert half == pytest.approx(float(stats.t.ppf(0.975, one.freedom)) * one.error)


def test_a_machine_with_too_few_blocks_is_out_by_that_rule() -> None:
    run = factories.sliced(("a", "b"))
    trials = factories.trials(run, TRUTHS)
    few = [trial for trial in trials if trial.block < 4]
    machines = [measured_machine(number, run, trials) for number in range(1, 6)]
    machines.append(measured_machine(6, run, few))
    request = ComparisonRequest(arms=("a", "b"))
    asked = MachinesRun(
        jissoku="jissoku of a test", started_utc="", seed=1, machines=6, request=request
    )
    found = over_machines(asked, machines)
    assert {len(one.ratios) for one in found.comparisons} == {5}
    assert all(one.out[0].reason.startswith("4 blocks are too few") for one in found.comparisons)
    assert found.headline.startswith("b uses 1.298 ")


@pytest.mark.parametrize("scenario", study.SCENARIOS[:2], ids=str)
def test_intervals_and_verdicts_hold_as_often_as_they_say(scenario: study.Scenario) -> None:
    """`python -m tests.machines_study` counts all scenarios."""
    assert study.counted(scenario, 150, seed=7).outside(150) == []
