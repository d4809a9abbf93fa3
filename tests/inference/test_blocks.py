"""Trials that count, what ran beside them, and calm rotations."""

import math
import random
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, strategies as st

from jissoku.inference import cost_verdicts, lacks_calm, summarise
from jissoku.inference.blocks import (
    ComparisonInput,
    calm_part,
    calm_rotations,
    loads_of,
    log_cost,
    log_ratios,
    neighbours,
    valid_trials,
)
from jissoku.inference.bounds import bound_results
from jissoku.model import (
    ArmMeasurement,
    Comparison,
    Condition,
    Load,
    LoadLevel,
    Method,
    Metric,
    Run,
    TimeSlice,
    Trial,
    TrialKind,
    Workload,
)
from jissoku.model.summary import CrossCheckName
from jissoku.model.updated import updated
from tests.inference import factories
from tests.inference.factories import TURNS, TrueValues

LIGHT = Load(rate_rps=1_000, level=LoadLevel.LIGHT)
CLOSE = {"a": TrueValues(cost_ns=5000), "b": TrueValues(cost_ns=6000)}


def test_the_first_trial_of_a_block_counts() -> None:
    run = factories.sliced("ab")
    trials = factories.trials(run, CLOSE, blocks=2, check_blocks=0, solo_blocks=0)
    again = updated(trials[0], index=99)
    found = valid_trials([again, *trials]).paired(TrialKind.TIME_SLICED, "a", "b")
    assert [trial.index for trial in found.values()] == [0, 1]
    disturbed = [factories.rejected(trials[0]), again, trials[1]]
    found = valid_trials(disturbed).paired(TrialKind.TIME_SLICED, "a", "b")
    assert [found[block].index for block in (0, 1)] == [99, 1]


def test_housekeeping_is_not_charged_to_requests() -> None:
    measurement = factories.arm_measurement(
        cpu_ns=120_000_000,
        duration_ns=3_000_000_000,
        active_duration_ns=1_000_000_000,
        slice_cpu_ns=(100_000_000,),
        idle_cpu_ns_per_s=5_000_000,
    )
    cost = log_cost(factories.trial(TrialKind.TIME_SLICED, measurement), "a")
    assert cost is not None
    assert math.exp(cost) == pytest.approx(110_000_000 / 20_000)


@pytest.mark.parametrize("changes", [{"cpu_ns": None}, {"cpu_ns": 0}, {"requests": 0}])
def test_what_was_not_seen_has_no_cost(changes: dict[str, Any]) -> None:
    assert (
        log_cost(factories.trial(TrialKind.TIME_SLICED, factories.arm_measurement(**changes)), "a")
        is None
    )


def test_a_ratio_needs_both_arms() -> None:
    trial = factories.trial(
        TrialKind.TIME_SLICED,
        factories.arm_measurement("a"),
        factories.arm_measurement("b", cpu_ns=None),
    )
    assert log_ratios({0: trial}, "b", "a") == {}


def test_a_run_in_slices_is_read_in_turns_of_its_own_length() -> None:
    run = factories.sliced("ab", loads=(LIGHT, factories.MIDDLE))
    trials = factories.trials(run, CLOSE)
    evidence = ComparisonInput(run, valid_trials(trials), {}, run.loads)
    found = evidence.at(LIGHT).trials
    assert {trial.load_rps for trial in found} == {1_000}
    assert {trial.slice_ns for trial in found if trial.kind is TrialKind.TIME_SLICED} == {
        factories.TURN_NS
    }
    assert len([trial for trial in found if trial.kind is TrialKind.TIME_SLICED]) == 9


def test_a_run_of_paired_trials_is_evaluated_without_its_sliced_cross_check() -> None:
    run = factories.run(
        "ab", method=Method.PAIRED, loads=(factories.MIDDLE,), slice_ns=factories.TURN_NS
    )
    trials = factories.trials(run, CLOSE)
    assert any(trial.kind is TrialKind.TIME_SLICED for trial in trials)
    found = ComparisonInput(run, valid_trials(trials), {}, run.loads).at(factories.MIDDLE).trials
    assert {trial.kind for trial in found} == {TrialKind.PAIRED, TrialKind.FIXED_RATE}


def test_loads_of_an_older_record_are_the_rates_at_which_arms_met() -> None:
    pairs = [
        factories.trial(
            TrialKind.PAIRED,
            factories.arm_measurement("a"),
            factories.arm_measurement("b"),
            workload=Workload(rate_rps=rate),
        )
        for rate in (10_000, 500)
    ]
    alone = factories.trial(TrialKind.CLOSED_LOOP, factories.arm_measurement("a"))
    found = loads_of(factories.run("ab"), (*pairs, alone))
    assert [(load.rate_rps, load.level) for load in found] == [
        (1_000, LoadLevel.GIVEN),
        (20_000, LoadLevel.GIVEN),
    ]
    assert loads_of(factories.sliced("ab"), (*pairs, alone)) == (factories.MIDDLE,)


FAR = {"a": TrueValues(cost_ns=5000), "b": TrueValues(cost_ns=9000)}


def seen(**changes: object) -> Trial:
    trial = factories.trial(TrialKind.FIXED_RATE, factories.arm_measurement())
    return updated(trial, conditions=updated(factories.QUIET, **changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "condition"),
    [
        ({}, Condition.QUIET),
        ({"foreign_fraction": None}, Condition.QUIET),
        ({"foreign_fraction": 0.06}, Condition.QUIET),  # a tick of 10 ms is rounding
        ({"foreign_fraction": 0.07}, Condition.SHARED),
        ({"foreign_fraction": 0.40}, Condition.SHARED),
        ({"foreign_fraction": 0.42}, Condition.BUSY),
        ({"foreign_fraction": 1.8}, Condition.BUSY),
        ({"generator_wait_fraction": 0.3}, Condition.SHARED),
        ({"generator_wait_fraction": 0.3, "generator_busy_polls": False}, Condition.QUIET),
        ({"steal_fraction": 0.3, "server_cores_busy_fraction": 0.5}, Condition.QUIET),
        ({"steal_fraction": 0.3, "server_cores_busy_fraction": 0.95}, Condition.SHARED),
    ],
)
def test_the_share_of_others_is_the_condition(
    changes: dict[str, object], condition: Condition
) -> None:
    assert neighbours([seen(**changes)]).condition is condition


def test_no_share_is_more_than_all() -> None:
    assert neighbours([seen(foreign_fraction=1.8)]).share == 1.0
    assert neighbours([]).share == 0.0


def test_a_run_beside_a_busy_program_has_its_verdict_and_says_so() -> None:
    run = factories.sliced("ab")
    trials = [factories.beside(trial, 0.48) for trial in factories.trials(run, FAR)]
    found = summarise(run, trials)
    (cost,) = found.by(Metric.COST)
    assert cost.proven
    assert (cost.condition, cost.other_programs) == (Condition.BUSY, 0.48)
    assert cost.sentence.endswith("(proven), beside other programs that used 48 % of the cores")
    assert "beside other programs that used 48 % of the cores" in found.headline
    assert (found.condition, found.other_programs) == (Condition.BUSY, 0.48)
    titles = [warning.title for warning in found.warnings]
    assert titles.count("Other programs ran beside the measurement") == 1
    assert not any("rejected" in title for title in titles)


def test_a_quiet_run_does_not_speak_of_it() -> None:
    run = factories.sliced("ab")
    found = summarise(run, factories.trials(run, FAR))
    assert found.condition is Condition.QUIET
    assert "beside" not in found.headline


def test_a_disturbed_cross_check_is_a_missing_one() -> None:
    run = factories.sliced("ab")
    truths = FAR | {"b": updated(FAR["b"], alone=0.4)}
    trials = factories.trials(run, truths)
    (against,) = summarise(run, trials).by(Metric.COST)
    assert not against.proven
    noisy = [
        factories.beside(trial, 0.5) if trial.kind is TrialKind.FIXED_RATE else trial
        for trial in trials
    ]
    (found,) = summarise(run, noisy).by(Metric.COST)
    assert [check.name for check in found.cross_checks] == [CrossCheckName.OTHER_SLICE]
    assert found.proven


SLICE_NS = 125_000_000
CALM = (False,) * TURNS


def one(requests: int = 2500, cpu_ns: int = 12_500_000, **changes: object) -> TimeSlice:
    whole = TimeSlice(
        requests=requests,
        duration_ns=SLICE_NS,
        wait_ns=300_000,
        runs=2500,
        generator_wait_ns=50_000,
        rotation_ns=2 * SLICE_NS,
        rotation_cpu_ns=cpu_ns,
    )
    return updated(whole, **changes)  # type: ignore[arg-type]


def in_rotations(trial: Trial, disturbed: Sequence[bool], drawn: float = 1.0) -> Trial:
    """The same trial with these rotations, in which the more expensive arms cost `drawn` times."""
    if trial.kind is not TrialKind.TIME_SLICED:
        return trial
    least = min(measurement.cpu_ns or 0 for measurement in trial.measurements)

    def measured(measurement: ArmMeasurement) -> ArmMeasurement:
        cpu_ns = (measurement.cpu_ns or 0) // len(disturbed)
        factor = drawn if (measurement.cpu_ns or 0) > 1.2 * least else 1.0
        used = [round(cpu_ns * factor) if is_disturbed else cpu_ns for is_disturbed in disturbed]
        slices = [
            one(measurement.requests // len(disturbed), cpu, generator_wait_ns=wait)
            for cpu, is_disturbed in zip(used, disturbed, strict=True)
            for wait in [SLICE_NS // 4 if is_disturbed else 50_000]
        ]
        return updated(
            measurement, cpu_ns=sum(used), slice_cpu_ns=tuple(used), slices=tuple(slices)
        )

    return updated(trial, measurements=tuple(map(measured, trial.measurements)))


def beside_bursts(
    run: Run,
    calm_blocks: int = 9,
    drawn: float = 0.7,
    truths: Mapping[str, TrueValues] = FAR,
) -> tuple[Trial, ...]:
    """Trials of which half of the rotations are disturbed, and all in the last blocks."""
    half = (True, False) * (TURNS // 2)
    return tuple(
        factories.beside(
            in_rotations(trial, half if trial.block < calm_blocks else (True,) * TURNS, drawn), 0.3
        )
        for trial in factories.trials(run, truths)
    )


def interval(found: Comparison) -> tuple[float, float, float]:
    assert found.ratio is not None
    return found.ratio.value, found.ratio.low, found.ratio.high


@pytest.mark.parametrize(
    ("changes", "is_calm"),
    [
        ({}, True),
        ({"wait_ns": SLICE_NS // 2}, False),
        ({"generator_wait_ns": SLICE_NS // 50}, False),
        ({"rotation_foreign_ns": SLICE_NS // 4}, True),  # of the kernel, and a tick of 10 ms
        ({"rotation_foreign_ns": SLICE_NS}, False),
        ({"rotation_foreign_ns": None}, True),
        ({"wait_ns": 0, "generator_wait_ns": 0}, True),
    ],
)
def test_a_rotation_is_calm_if_nothing_waited(changes: dict[str, int], *, is_calm: bool) -> None:
    slices = (one(), one(**changes))
    measured = factories.arm_measurement(
        cpu_ns=25_000_000, slice_cpu_ns=(12_500_000,) * 2, slices=slices
    )
    trial = factories.trial(TrialKind.TIME_SLICED, measured, updated(measured, arm="b"))
    assert calm_rotations(trial) == (True, is_calm)


def test_a_target_that_waited_disturbs_the_rotation_of_all() -> None:
    run = factories.sliced("ab")
    (trial, *_) = factories.trials(run, FAR)
    calm = in_rotations(trial, CALM)
    ours, theirs = calm.measurements
    waited = updated(theirs.slices[3], wait_ns=SLICE_NS // 2)
    slices = (*theirs.slices[:3], waited, *theirs.slices[4:])
    part = calm_part(updated(calm, measurements=(ours, updated(theirs, slices=slices))))
    assert part is not None
    for whole, kept in zip(calm.measurements, part.measurements, strict=True):
        assert kept.requests == whole.requests * 7 // 8
        assert kept.slices == whole.slices[:3] + whole.slices[4:]
        assert kept.duration_ns == 7 * 2 * SLICE_NS


@given(
    disturbed=st.lists(st.booleans(), min_size=TURNS, max_size=TURNS),
    costs=st.lists(st.integers(1, 10**9), min_size=2 * TURNS, max_size=2 * TURNS),
)
def test_the_choice_does_not_depend_on_costs(disturbed: list[bool], costs: list[int]) -> None:
    run = factories.sliced("ab")
    trial = in_rotations(factories.trials(run, FAR)[0], disturbed)
    mine = iter(costs)

    def costly(measurement: ArmMeasurement) -> ArmMeasurement:
        used = tuple(next(mine) for _ in measurement.slices)
        slices = [
            updated(one, rotation_cpu_ns=cpu)
            for one, cpu in zip(measurement.slices, used, strict=True)
        ]
        return updated(measurement, cpu_ns=sum(used), slice_cpu_ns=used, slices=tuple(slices))

    other = updated(trial, measurements=tuple(map(costly, trial.measurements)))
    assert calm_rotations(other) == calm_rotations(trial) == tuple(not one for one in disturbed)
    part = calm_part(other)
    assert (part is None) == (sum(calm_rotations(other)) < 2)
    if part is not None:
        assert len({len(measurement.slices) for measurement in part.measurements}) == 1
        for measurement in part.measurements:
            assert measurement.cpu_ns == sum(measurement.slice_cpu_ns)


def test_what_is_not_counted_is_unknown() -> None:
    (trial, *_) = factories.trials(factories.sliced("ab"), FAR)
    assert calm_rotations(trial) == ()
    known = in_rotations(trial, CALM)
    ours, theirs = known.measurements
    last = ours.slices[-1]
    for unknown in (
        updated(last, wait_ns=None),
        updated(last, generator_wait_ns=None),
        updated(last, rotation_cpu_ns=None),
    ):
        less = updated(ours, slices=(*ours.slices[:-1], unknown))
        assert calm_rotations(updated(known, measurements=(less, theirs))) == ()
    # Processes that began in the window are in no rotation.
    more = updated(ours, cpu_ns=(ours.cpu_ns or 0) * 11 // 10)
    assert calm_part(updated(known, measurements=(more, theirs))) is None


def test_where_disturbed_rotations_are_biased_the_calm_ones_are_right() -> None:
    run = factories.sliced("ab")
    (cost,) = summarise(run, beside_bursts(run)).by(Metric.COST)
    assert cost.is_calm
    assert cost.calm_fraction == 0.5
    assert cost.ratio is not None
    assert cost.other_ratio is not None
    assert cost.ratio.low < 1.8 < cost.ratio.high
    assert cost.other_ratio.high < 1.7
    assert cost.condition is Condition.SHARED
    assert cost.sentence.endswith("(proven), in time slices in which no other program delayed it")
    assert any("of all rotations" in remark for remark in cost.remarks)


@pytest.mark.parametrize(
    ("calm_blocks", "ending"),
    [
        (9, "; all of it in time slices in which no other program delayed it."),
        (2, "; all of it beside other programs that used 30 % of the cores."),
    ],
)
def test_the_headline_of_several_targets_has_the_condition(calm_blocks: int, ending: str) -> None:
    run = factories.sliced("abc")
    truths = FAR | {"c": TrueValues(cost_ns=12_000)}
    found = summarise(run, beside_bursts(run, calm_blocks, truths=truths))
    assert found.headline.endswith(ending)


def test_with_too_few_calm_blocks_the_sentence_has_the_condition() -> None:
    run = factories.sliced("ab")
    found = summarise(run, beside_bursts(run, calm_blocks=5))
    (cost,) = found.by(Metric.COST)
    assert not cost.is_calm
    assert cost.ratio is not None
    assert cost.ratio.high < 1.7
    assert cost.other_ratio is not None
    assert cost.other_ratio.low < 1.8 < cost.other_ratio.high
    assert cost.sentence.endswith("beside other programs that used 30 % of the cores")
    assert any("of the calm rotations alone" in remark for remark in cost.remarks)
    (warning,) = [w for w in found.warnings if "Other programs" in w.title]
    assert "28 % at 20,000 requests/s" in warning.text


@pytest.mark.parametrize("disturbed", [CALM, (True,) * TURNS, (True, False) * (TURNS // 2)])
@pytest.mark.parametrize("horizon", [0, 9])
def test_a_quiet_run_is_decided_by_all_rotations_with_the_whole_error(
    disturbed: Sequence[bool], horizon: int
) -> None:
    """With many arms few rotations are calm on the quietest machine."""
    run = updated(factories.sliced("ab"), horizon=horizon)
    plain = factories.trials(run, FAR)
    (found,) = summarise(run, tuple(in_rotations(trial, disturbed) for trial in plain)).by(
        Metric.COST
    )
    (expected,) = summarise(run, plain).by(Metric.COST)
    assert not found.is_calm
    assert interval(found) == pytest.approx(interval(expected))
    assert found.p_value == pytest.approx(expected.p_value, rel=1e-4)
    assert found.sentence == expected.sentence


def test_what_is_quiet_at_first_is_decided_by_all_rotations_to_its_end() -> None:
    """Both would be looked at else, and the error has not been halved at the first looks."""
    run = updated(factories.sliced("ab"), horizon=9)
    quiet, busy = factories.trials(run, FAR), beside_bursts(run)
    trials = tuple(q if q.block < 3 else b for q, b in zip(quiet, busy, strict=True))
    (found,) = summarise(run, trials).by(Metric.COST)
    assert not found.is_calm
    assert found.condition is not Condition.QUIET
    assert not lacks_calm(found)


def test_two_estimates_that_are_looked_at_in_turn_share_the_error() -> None:
    run = updated(factories.sliced("ab"), horizon=9)
    early = beside_bursts(run, drawn=1.0)
    late = tuple(
        in_rotations(trial, (True,) * TURNS) if trial.block == 1 else trial for trial in early
    )
    (whole,) = summarise(run, early).by(Metric.COST)
    (half,) = summarise(run, late).by(Metric.COST)
    assert whole.is_calm
    assert half.is_calm
    assert whole.ratio is not None
    assert half.ratio is not None
    assert (whole.ratio.blocks, half.ratio.blocks) == (9, 8)
    assert half.ratio.half_width > 1.05 * whole.ratio.half_width


def test_too_few_calm_blocks_to_prove_anything_give_way_to_all_rotations() -> None:
    """The interval of three blocks is several times as wide as that of nine."""
    run = updated(factories.sliced("ab"), horizon=9)
    near = {"a": TrueValues(cost_ns=5000), "b": TrueValues(cost_ns=5300)}
    rng = random.Random(2)
    few = tuple(
        noisy(trial if trial.block % 3 == 2 else in_rotations(trial, (True,) * TURNS), rng)
        for trial in beside_bursts(run, truths=near)
    )
    (found,) = summarise(run, few).by(Metric.COST)
    assert found.proven
    assert not found.is_calm
    assert found.other_ratio is not None
    assert found.other_ratio.blocks == 3
    assert found.sentence.endswith("beside other programs that used 30 % of the cores")


def test_more_blocks_may_have_calm_rotations_if_some_had() -> None:
    run = factories.sliced("ab")
    lacks = [
        lacks_calm(one)
        for trials in (
            beside_bursts(run, calm_blocks=5),
            beside_bursts(run, calm_blocks=0),
            beside_bursts(run),
            factories.trials(run, FAR),
        )
        for one in summarise(run, trials).by(Metric.COST)
    ]
    assert lacks == [True, False, False, False]


@pytest.mark.slow
def test_equal_arms_are_rarely_called_different_at_any_look() -> None:
    """Also where calm rotations become enough after some looks at all of them."""
    rng, wrong, campaigns = random.Random(7), 0, 300
    run = updated(factories.sliced("ab"), horizon=9)
    equal = {"a": TrueValues(cost_ns=5000), "b": TrueValues(cost_ns=5000)}
    load = factories.MIDDLE
    for campaign in range(campaigns):
        trials = []
        plain = factories.trials(run, equal, seed=campaign, check_blocks=0, solo_blocks=0)
        for trial in plain:
            is_calm = rng.random() < 0.4
            disturbed = [not is_calm or rng.random() < 0.3 for _ in range(TURNS)]
            trials.append(noisy(in_rotations(trial, disturbed), rng))
        found = [
            cost_verdicts(run, trials[:blocks]).get(("b", "a", load)) for blocks in range(3, 10)
        ]
        wrong += any(one is not None and one.proven for one in found)
    assert wrong / campaigns < 0.05 + 2.5 * math.sqrt(0.05 * 0.95 / campaigns)


def noisy(trial: Trial, rng: random.Random) -> Trial:
    """With costs that differ from slice to slice."""

    def measured(measurement: ArmMeasurement) -> ArmMeasurement:
        used = [round(cpu * math.exp(rng.gauss(0, 0.03))) for cpu in measurement.slice_cpu_ns]
        slices = [
            updated(one, rotation_cpu_ns=cpu)
            for one, cpu in zip(measurement.slices, used, strict=True)
        ]
        return updated(
            measurement, cpu_ns=sum(used), slice_cpu_ns=tuple(used), slices=tuple(slices)
        )

    return updated(trial, measurements=tuple(map(measured, trial.measurements)))


@pytest.mark.parametrize("horizon", [0, 9])
def test_a_bound_rests_on_the_same_interval_as_the_verdict(horizon: int) -> None:
    """Also where two estimates share the error, because the first blocks are not calm."""
    run = updated(factories.sliced(["a", "b"]), horizon=horizon)
    trials = [
        trial if trial.block else in_rotations(trial, (True,) * TURNS)
        for trial in beside_bursts(run)
    ]
    (shown,) = cost_verdicts(run, trials).values()
    (found,) = bound_results(run, trials, [f"cost({shown.arm}) > 1 x cost({shown.against})"])
    assert found.ratio is not None
    assert (found.ratio.value, found.ratio.low, found.ratio.high) == pytest.approx(interval(shown))
