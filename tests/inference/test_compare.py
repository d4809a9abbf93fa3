"""Pairs of simulated campaigns: the source of the ratio, the verdict, and whether it is enough."""

import math

import pytest

from jissoku.inference import contradicted, decision, half_widths, summarise
from jissoku.inference.blocks import ComparisonInput, loads_of, valid_trials
from jissoku.inference.compare import compare, comparison_input, observed_noise, pairs, ranked_arms
from jissoku.inference.decision import Decided
from jissoku.model import (
    Comparison,
    EvidenceSource,
    Load,
    LoadLevel,
    Method,
    Metric,
    Mode,
    Run,
    Trial,
    TrialKind,
    Verdict,
)
from jissoku.model.summary import CrossCheckName
from jissoku.model.updated import updated
from tests.inference import factories
from tests.inference.factories import QUIETEST, Noise, TrueValues

LIGHT = Load(rate_rps=1_000, level=LoadLevel.LIGHT)
HEAVY = Load(rate_rps=20_000, level=LoadLevel.HEAVY)


def compared(run: Run, trials: tuple[Trial, ...]) -> list[Comparison]:
    return list(compare(ComparisonInput(run, valid_trials(trials), {}, loads_of(run, trials))))


def costs(run: Run, trials: tuple[Trial, ...]) -> dict[tuple[str, str], Comparison]:
    found = [one for one in compared(run, trials) if one.metric is Metric.COST]
    return {(one.arm, one.against): one for one in found}


def truths(**costs_ns: float) -> dict[str, TrueValues]:
    return {name: TrueValues(cost_ns=cost) for name, cost in costs_ns.items()}


def test_every_pair_is_compared_once_and_the_floor_is_not_ranked() -> None:
    run = factories.sliced(["b", "a", "c", "floor"], floor="floor")
    assert pairs(run) == (("a", "b"), ("c", "b"), ("c", "a"))
    assert ranked_arms(factories.sliced(["a", "floor"], floor="floor")) == ("a", "floor")
    assert ranked_arms(factories.sliced(["floor", "a", "b"], floor="floor")) == ("floor", "a", "b")


def test_an_injected_effect_is_found_in_time_slices() -> None:
    run = factories.sliced(["a", "b"])
    pair = costs(run, factories.trials(run, truths(a=5000, b=5200)))["b", "a"]
    assert pair.source is EvidenceSource.TIME_SLICED
    assert pair.load == factories.MIDDLE
    assert pair.minimum_effect == 0.02
    assert pair.verdict in (Verdict.HIGHER, Verdict.SLIGHTLY_HIGHER)
    assert pair.proven
    assert pair.ratio is not None
    assert pair.ratio.low < 1.04 < pair.ratio.high
    assert pair.ratio.blocks == 9, "turns of another length, and each alone, are checks only"
    ratio = pair.ratio.text.replace(" [", " \N{MULTIPLICATION SIGN} [")
    assert pair.sentence.startswith(
        f"b uses {ratio} the CPU time per request of a at 20,000 requests/s (medium load): uses"
    )
    assert pair.sentence.endswith("(proven)")


def test_below_one_is_less() -> None:
    run = factories.sliced(["a", "b"])
    pair = costs(run, factories.trials(run, truths(a=5000, b=4000)))["b", "a"]
    assert pair.verdict is Verdict.LOWER
    assert pair.ratio is not None
    assert pair.ratio.high < 0.85


def test_what_a_whole_block_shares_cancels() -> None:
    run = factories.sliced(["a", "b"])
    wild = factories.trials(run, truths(a=5000, b=5500), noise=Noise(block=0.5, own=0.001))
    ratio = costs(run, wild)["b", "a"].ratio
    assert ratio is not None
    assert ratio.value == pytest.approx(1.1, rel=0.005)
    assert ratio.half_width < 0.004


def test_every_pair_of_a_rotation_meets_directly() -> None:
    run = factories.sliced(["a", "b", "c", "floor"], floor="floor")
    trials = factories.trials(run, truths(a=5000, b=6000, c=7000, floor=4000), blocks=40)
    found = costs(run, trials)
    assert {pair.source for pair in found.values()} == {EvidenceSource.TIME_SLICED}
    ratio = found["c", "b"].ratio
    assert ratio is not None
    assert ratio.value == pytest.approx(7 / 6, rel=0.01)
    assert ratio.sd_log == pytest.approx(0.007 * math.sqrt(2), rel=0.3), "one error, not two"


def test_arms_are_compared_at_loads_that_both_reach_and_nowhere_else() -> None:
    run = factories.sliced(["a", "slow"], loads=(LIGHT, HEAVY))
    known = truths(a=5000) | {"slow": TrueValues(cost_ns=8000, reach_rps=5_000)}
    found = compared(run, factories.trials(run, known))
    assert {one.load for one in found if one.metric is not Metric.CAPACITY} == {LIGHT}


def test_each_load_has_a_ratio_of_its_own() -> None:
    run = factories.sliced(["a", "b"], loads=(LIGHT, HEAVY))
    known = truths(a=5000) | {"b": TrueValues(cost_ns=6000, costs_ns={1_000: 4000})}
    found = compared(run, factories.trials(run, known))
    light, heavy = (one for one in found if one.metric is Metric.COST)
    assert (light.load, light.verdict) == (LIGHT, Verdict.LOWER)
    assert (heavy.load, heavy.verdict) == (HEAVY, Verdict.HIGHER)


def test_a_run_of_paired_trials_is_decided_by_them_and_checked_by_slices() -> None:
    run = factories.run(
        ["a", "b"], method=Method.PAIRED, loads=(HEAVY,), slice_ns=factories.TURN_NS
    )
    trials = factories.trials(run, truths(a=5000, b=5200))
    pair = costs(run, trials)["b", "a"]
    assert pair.source is EvidenceSource.PAIRED
    assert pair.minimum_effect == 0.01
    assert pair.ratio is not None
    assert pair.ratio.blocks == 9
    assert pair.proven
    assert [check.name for check in pair.cross_checks] == [
        CrossCheckName.TIME_SLICED,
        CrossCheckName.ALONE,
    ]


def test_less_than_one_per_cent_matters_between_like_arms_in_standard_mode() -> None:
    found = {}
    for mode in Mode:
        run = factories.run(["a", "b"], method=Method.PAIRED, mode=mode, loads=(HEAVY,))
        trials = factories.trials(run, truths(a=5000, b=5025), noise=QUIETEST)
        found[mode] = costs(run, trials)["b", "a"]
    assert found[Mode.QUICK].verdict is Verdict.EQUAL
    assert found[Mode.STANDARD].minimum_effect == 0.005
    assert found[Mode.STANDARD].proven


def test_like_arms_that_met_the_same_third_one_are_compared_by_two_paired_trials() -> None:
    run = factories.run(
        ["a", "b", "c"], method=Method.PAIRED, loads=(HEAVY,), slice_ns=factories.TURN_NS
    )
    trials = factories.trials(run, truths(a=5000, b=5200, c=5000))
    found = costs(run, trials)
    pair = found["c", "b"]
    assert (pair.source, pair.minimum_effect) == (EvidenceSource.TWO_PAIRED, 0.01)
    assert pair.ratio is not None
    assert pair.ratio.blocks == 9
    assert pair.ratio.low < 5000 / 5200 < pair.ratio.high
    assert found["b", "a"].ratio is not None
    direct = found["b", "a"].ratio
    assert direct is not None
    assert pair.ratio.sd_log > direct.sd_log, "two errors, not one"


def test_a_block_that_one_side_lacks_is_left_out() -> None:
    run = factories.sliced(["a", "b"])
    trials = factories.trials(run, truths(a=5000, b=6000))
    kept = tuple(t for t in trials if t.block != 4)
    ratio = costs(run, kept)["b", "a"].ratio
    assert ratio is not None
    assert ratio.blocks == 8


def test_wrong_answers_of_one_arm_leave_the_others_of_its_rotation() -> None:
    run = factories.sliced(["a", "b", "c"])
    trials = factories.trials(run, truths(a=5000, b=6000, c=7000))
    check = factories.invalid("c")
    spoilt = tuple(
        updated(t, failed_checks=(check,)) if t.kind is TrialKind.TIME_SLICED and t.block < 2 else t
        for t in trials
    )
    found = costs(run, spoilt)
    counted = {pair: one.ratio.blocks for pair, one in found.items() if one.ratio}
    assert counted == {("b", "a"): 9, ("c", "a"): 7, ("c", "b"): 7}


def test_failed_trials_give_no_number() -> None:
    run = factories.sliced(["a", "b"])
    trials = factories.trials(run, truths(a=5000, b=5500), solo_blocks=0)
    broken = factories.failed(
        TrialKind.TIME_SLICED, "b", "a", index=999, block=9, slice_ns=factories.TURN_NS
    )
    ratio = costs(run, (*trials, broken))["b", "a"].ratio
    assert ratio is not None
    assert ratio.blocks == 9


def test_each_alone_decides_where_arms_never_met() -> None:
    run = factories.run(["a", "b"], method=Method.SINGLE, loads=(HEAVY,))
    trials = factories.trials(run, truths(a=5000, b=6000), solo_blocks=9, noise=Noise(alone=0.01))
    pair = costs(run, trials)["b", "a"]
    assert (pair.source, pair.minimum_effect) == (EvidenceSource.SINGLE, 0.02)
    assert pair.verdict is Verdict.HIGHER
    assert pair.cross_checks == ()


def test_no_cpu_time_no_comparison() -> None:
    run = factories.sliced(["a", "b"])
    trials = factories.trials(run, truths(a=5000, b=6000))
    blind = tuple(
        updated(t, measurements=tuple(updated(x, cpu_ns=None) for x in t.measurements))
        for t in trials
    )
    assert costs(run, blind) == {}


def test_a_machine_that_shows_more_noise_raises_the_minimum_effect() -> None:
    run = factories.sliced(["a", "b"])
    trials = factories.trials(run, truths(a=5000, b=5150), noise=QUIETEST)
    assert costs(run, trials)["b", "a"].verdict is Verdict.HIGHER
    noisy = costs(updated(run, noise_floor=0.05), trials)["b", "a"]
    assert (noisy.minimum_effect, noisy.verdict) == (0.05, Verdict.EQUAL)


# name: (what b costs beside 5,000 of a; what it costs alone; in turns of the other length;
#        verdict; proven; checks that agree)
CHECKED = {
    "agreeing": (5500, 1.0, 1.0, Verdict.HIGHER, True, [True, True]),
    "another size alone": (5500, 1.2, 1.0, Verdict.HIGHER, True, [True, False]),
    "another size in other turns": (5500, 1.0, 1.2, Verdict.HIGHER, True, [False, True]),
    "another direction alone": (5500, 0.8, 1.0, Verdict.DISPUTED, False, [True, False]),
    "another direction in other turns": (5500, 1.0, 0.8, Verdict.DISPUTED, False, [False, True]),
    "both against it": (4500, 1.5, 1.5, Verdict.DISPUTED, False, [False, False]),
}


@pytest.mark.parametrize("name", CHECKED)
def test_a_check_takes_the_verdict_only_where_it_contradicts_the_direction(name: str) -> None:
    cost, alone, other_turn, verdict, proven, agree = CHECKED[name]
    run = factories.sliced(["a", "b"])
    known = truths(a=5000) | {"b": TrueValues(cost_ns=cost, alone=alone, other_turn=other_turn)}
    pair = costs(run, factories.trials(run, known, noise=QUIETEST))["b", "a"]
    assert (pair.verdict, pair.proven) == (verdict, proven)
    assert [check.name for check in pair.cross_checks] == [
        CrossCheckName.OTHER_SLICE,
        CrossCheckName.ALONE,
    ]
    assert [check.agrees for check in pair.cross_checks] == agree
    assert pair.remarks == (), "what disagrees is said by the check itself"
    assert pair.ratio is not None
    assert pair.ratio.value == pytest.approx(cost / 5000, rel=0.01), "the figure stays"


def test_a_check_of_one_block_contradicts_nothing() -> None:
    run = factories.sliced(["a", "b"])
    known = truths(a=5000) | {"b": TrueValues(cost_ns=5500, alone=0.5)}
    pair = costs(run, factories.trials(run, known, solo_blocks=1, noise=QUIETEST))["b", "a"]
    alone = pair.cross_checks[-1]
    assert (alone.name, alone.ratio, alone.agrees) == (CrossCheckName.ALONE, None, True)
    assert pair.verdict is Verdict.HIGHER


@pytest.mark.parametrize(("block", "agrees"), [(0.002, False), (0.1, True)])
def test_arms_alone_contradict_only_by_more_than_a_cost_changes_within_a_block(
    block: float, *, agrees: bool
) -> None:
    """The baseline has two trials in each block, so that the machine's moments are seen."""
    run = factories.sliced(["a", "b", "a again"], method=Method.PAIRED)
    known = truths(a=5000) | {"b": TrueValues(cost_ns=5100, alone=0.94)}
    known |= {"a again": known["a"]}
    noise = Noise(block=block, own=0.002, alone=0.001)
    pair = costs(run, factories.trials(run, known, solo_blocks=2, noise=noise))["b", "a"]
    (alone,) = (one for one in pair.cross_checks if one.name is CrossCheckName.ALONE)
    assert alone.agrees is agrees


def test_a_check_at_another_load_is_none() -> None:
    run = factories.sliced(["a", "b"])
    known = truths(a=5000) | {"b": TrueValues(cost_ns=5500, alone=0.5)}
    moved = tuple(
        updated(t, workload=updated(t.workload, rate_rps=5_000))
        if t.kind is TrialKind.FIXED_RATE
        else t
        for t in factories.trials(run, known, noise=QUIETEST)
    )
    names = [check.name for check in costs(run, moved)["b", "a"].cross_checks]
    assert names == [CrossCheckName.OTHER_SLICE]


def test_a_disputed_tie_is_a_tie() -> None:
    run = factories.sliced(["a", "b"])
    known = truths(a=5000) | {"b": TrueValues(cost_ns=5000, alone=1.3)}
    pair = costs(run, factories.trials(run, known, noise=QUIETEST))["b", "a"]
    assert pair.verdict is Verdict.EQUAL, "only a difference has a direction"
    assert [check.agrees for check in pair.cross_checks] == [True, False]


def test_a_check_is_as_strict_as_the_number_of_comparisons_asks() -> None:
    ours, theirs = [0.0, 0.01, -0.01, 0.005], [0.125, 0.135, 0.13]
    assert not decision.agrees(ours, theirs, 1)
    assert decision.agrees(ours, theirs, 100)


@pytest.mark.parametrize(
    ("ratio", "text"), [(1.5, "+50.0 %"), (0.04, "-96.0 %"), (9.9, "+890.0 %"), (5082, "5,082 x")]
)
def test_a_block_that_is_far_from_the_others_is_reported_as_a_change(
    ratio: float, text: str
) -> None:
    blank = Comparison(arm="b", against="a", verdict=Verdict.INCONCLUSIVE)
    ratios = [0.99, 1.0, 1.01, 1.0, 1.01, 0.99, ratio]
    found = decision.decide(blank, {i: math.log(value) for i, value in enumerate(ratios)})
    assert f"far from the other blocks, and kept: {text}" in found.found.remarks


def test_the_family_of_holm_counts_pairs_without_a_figure() -> None:
    run = factories.sliced(["a", "b", "c"])
    whole = [
        Decided(Comparison(arm=arm, against="a", verdict=Verdict.HIGHER, p_value=p))
        for arm, p in (("b", 0.03), ("c", None))
    ]
    alone, beside = decision.settle(whole[:1]), decision.settle(whole)
    assert [one.p_holm for one in alone] == [pytest.approx(0.03)]
    assert [one.p_holm for one in beside] == [pytest.approx(0.06), None]
    assert (alone[0].proven, beside[0].proven) == (True, False)
    trials = factories.trials(run, truths(a=5000, b=5050, c=7000))
    evidence = ComparisonInput(
        run, valid_trials(trials), {"c": (Verdict.FAILED, "c died")}, run.loads
    )
    found = [one for one in compare(evidence) if one.metric is Metric.COST]
    assert [one.p_value is None for one in found] == [False, True, True]
    assert found[0].p_value is not None
    assert found[0].p_holm == pytest.approx(min(1.0, 3 * found[0].p_value))


def test_every_metric_is_a_family_of_its_own() -> None:
    run = factories.sliced(["a", "b"], loads=(LIGHT, HEAVY), objective="p99<10ms")
    trials = factories.trials(run, truths(a=5000, b=5050), capacity_blocks=6, blocks=12)
    found = compared(run, trials)
    for metric, count in ((Metric.COST, 2), (Metric.P50, 2), (Metric.P99, 2), (Metric.CAPACITY, 1)):
        family = [one for one in found if one.metric is metric]
        assert len(family) == count, metric
        least = min(family, key=lambda one: one.p_value or 1.0)
        assert least.p_value is not None
        assert least.p_holm == pytest.approx(min(1.0, count * least.p_value)), metric


def test_latency_is_paired_by_block_at_each_load() -> None:
    run = factories.sliced(["a", "b"])
    known = {"a": TrueValues(cost_ns=5000), "b": TrueValues(cost_ns=5000, latency_ns=180_000)}
    found = compared(run, factories.trials(run, known))
    for metric in (Metric.P50, Metric.P99):
        (pair,) = (one for one in found if one.metric is metric)
        assert pair.ratio is not None
        assert pair.ratio.low < 1.5 < pair.ratio.high
        assert pair.ratio.half_width < 0.05
        assert (pair.verdict, pair.proven, pair.minimum_effect) == (Verdict.HIGHER, True, 0.05)
        assert "answers later (proven)" in pair.sentence


def test_two_like_arms_at_once_say_nothing_of_latency() -> None:
    run = factories.run(
        ["a", "b"], method=Method.PAIRED, loads=(HEAVY,), slice_ns=factories.TURN_NS
    )
    known = {"a": TrueValues(cost_ns=5000), "b": TrueValues(cost_ns=5000, latency_ns=900_000)}
    trials = factories.trials(run, known, check_blocks=0, solo_blocks=0)
    assert {one.metric for one in compared(run, trials)} == {Metric.COST}


@pytest.mark.parametrize(
    ("capacity", "verdict", "said"),
    [
        (57_000, Verdict.HIGHER, "takes more requests (proven)"),
        (19_000, Verdict.LOWER, "takes fewer requests (proven)"),
        (38_000, Verdict.EQUAL, "practically equal (proven)"),
    ],
)
def test_capacities_are_compared_by_block(capacity: int, verdict: Verdict, said: str) -> None:
    run = factories.sliced(["a", "b"], objective="p99<10ms")
    known = {
        "a": TrueValues(cost_ns=5000, capacity_rps=38_000),
        "b": TrueValues(cost_ns=5000, capacity_rps=capacity),
    }
    trials = factories.trials(run, known, capacity_blocks=9, noise=Noise(alone=0.015))
    (pair,) = (one for one in compared(run, trials) if one.metric is Metric.CAPACITY)
    assert pair.ratio is not None
    assert pair.ratio.low < capacity / 38_000 < pair.ratio.high
    assert (pair.verdict, pair.source) == (verdict, EvidenceSource.SINGLE)
    assert pair.sentence.endswith(said)


def test_a_search_that_met_its_objective_nowhere_has_no_capacity() -> None:
    run = factories.sliced(["a", "b"], objective="p99<10ms")
    trials = factories.trials(run, truths(a=5000, b=5000), capacity_blocks=6)
    never = tuple(
        updated(t, capacity=updated(t.capacity, rate_rps=None))
        if t.capacity and t.arms == ("b",)
        else t
        for t in trials
    )
    assert not [one for one in compared(run, never) if one.metric is Metric.CAPACITY]


def test_identical_searches_have_an_interval_of_their_step() -> None:
    run = factories.sliced(["a", "b"], objective="p99<10ms")
    known = {
        "a": TrueValues(cost_ns=5000, capacity_rps=38_000),
        "b": TrueValues(cost_ns=5000, capacity_rps=16_660),
    }
    trials = factories.trials(run, known, capacity_blocks=9, noise=Noise(alone=0.0))
    (pair,) = (one for one in compared(run, trials) if one.metric is Metric.CAPACITY)
    assert pair.ratio is not None
    assert (pair.ratio.low, pair.ratio.high) == pytest.approx((0.4278, 0.4492), abs=1e-3)
    assert pair.proven


def test_equality_is_corrected_for_the_number_of_comparisons() -> None:
    logs = {block: 0.004 * (-1) ** block for block in range(6)}
    blank = Comparison(arm="b", against="a", verdict=Verdict.INCONCLUSIVE, minimum_effect=0.01)
    equal = decision.decide(blank, logs)
    (alone,) = decision.settle([equal])
    assert (alone.verdict, alone.is_decided, alone.proven) == (Verdict.EQUAL, True, False)
    many = decision.settle([equal] * 400)
    assert (many[0].verdict, many[0].is_decided) == (Verdict.EQUAL, False)
    assert many[0].blocks_needed is not None


def test_an_arm_without_a_verdict_is_no_reason_to_measure_on() -> None:
    run = factories.sliced("abc")
    trials = [
        updated(trial, failed_checks=(factories.invalid("c"),)) if "c" in trial.arms else trial
        for trial in factories.trials(run, truths(a=5000, b=5000, c=5000), blocks=10)
    ]
    assert set(half_widths(run, trials)) == {("b", "a", factories.MIDDLE)}


def test_the_a_a_control_counts_for_latency_too() -> None:
    run = factories.sliced(["a", "b", "a again"], aa_control="a again")
    known = {
        "a": TrueValues(cost_ns=5000),
        "b": TrueValues(cost_ns=5000),
        "a again": TrueValues(cost_ns=5000, latency_ns=150_000),
    }
    evidence = comparison_input(run, factories.trials(run, known))
    assert observed_noise(evidence, Metric.P99) == pytest.approx(0.25, abs=0.03)
    assert observed_noise(evidence, Metric.COST) == 0.0
    (pair,) = (
        one for one in summarise(run, factories.trials(run, known)).by(Metric.P99) if one.arm == "b"
    )
    assert pair.minimum_effect == pytest.approx(0.25, abs=0.03)


def test_a_run_of_several_looks_decides_after_three_blocks() -> None:
    run = factories.sliced("abc", horizon=9)
    found = compared(run, factories.trials(run, truths(a=5000, b=9000, c=5020), blocks=3))
    costs = {(one.arm, one.against): one for one in found if one.metric is Metric.COST}
    assert costs["b", "a"].proven
    assert not costs["c", "a"].is_decided
    assert costs["c", "a"].blocks_needed
    assert compared(run, factories.trials(run, truths(a=5000, b=9000, c=1), blocks=2))


def test_one_failure_among_enough_blocks_is_not_the_end_of_an_arm() -> None:
    run = factories.sliced("ab", horizon=9)
    trials = factories.trials(run, truths(a=5000, b=9000), blocks=4)
    failed = updated(factories.failed(TrialKind.TIME_SLICED, "b", "a"), index=99, block=4)
    (cost,) = (one for one in summarise(run, [*trials, failed]).by(Metric.COST))
    assert cost.proven
    (once,) = summarise(updated(run, horizon=0), [*trials, failed]).by(Metric.COST)
    assert once.verdict is Verdict.FAILED


def found(alone: float, other_turn: float, method: Method) -> list[tuple[str, str, int | None]]:
    run = factories.sliced(["a", "b", "c"], method=method)
    known = {
        "a": TrueValues(cost_ns=5000),
        "b": TrueValues(cost_ns=5500, alone=alone, other_turn=other_turn),
        "c": TrueValues(cost_ns=6000),
    }
    comparisons = contradicted(run, factories.trials(run, known, noise=QUIETEST))
    return [(one.arm, one.against, one.load.rate_rps) for one in comparisons]


@pytest.mark.parametrize(("alone", "other_turn"), [(0.7, 1.0), (1.0, 0.7), (1.4, 1.0)])
def test_every_pair_with_a_check_that_does_not_agree_is_found(
    alone: float, other_turn: float
) -> None:
    pairs = {(arm, against) for arm, against, _ in found(alone, other_turn, Method.TIME_SLICED)}
    assert pairs == {("b", "a"), ("c", "b")}


def test_none_is_found_where_all_agree() -> None:
    assert found(1.0, 1.0, Method.TIME_SLICED) == []


def test_arms_that_were_measured_alone_have_no_check() -> None:
    run = factories.run(["a", "b"], method=Method.SINGLE)
    known = {"a": TrueValues(cost_ns=5000), "b": TrueValues(cost_ns=5500, alone=0.7)}
    assert contradicted(run, factories.trials(run, known, solo_blocks=9)) == ()
    assert contradicted(run, ()) == ()


TRUTHS = {name: TrueValues(cost_ns=5000) for name in "abc"}


def test_every_pair_has_a_width_at_every_load() -> None:
    run = factories.sliced("abc", loads=(LIGHT, HEAVY))
    found = half_widths(run, factories.trials(run, TRUTHS, blocks=10))
    pairs = [("b", "a"), ("c", "a"), ("c", "b")]
    assert set(found) == {(*pair, load) for pair in pairs for load in (LIGHT, HEAVY)}
    # 2.26 standard errors of 0.0099 / sqrt(10).
    assert all(0.003 < width < 0.014 for width in found.values())


def test_an_injected_effect_changes_nothing() -> None:
    run = factories.sliced("ab")
    equal = factories.trials(run, TRUTHS, blocks=10)
    other = factories.trials(
        run, {"a": TrueValues(cost_ns=5000), "b": TrueValues(cost_ns=9000)}, blocks=10
    )
    one, two = (next(iter(half_widths(run, t).values())) for t in (equal, other))
    assert abs(one - two) < 1e-4, "rounded nanoseconds apart"


def test_pairs_without_common_trials_have_no_width() -> None:
    run = factories.run("abc", method=Method.PAIRED, loads=(HEAVY,), slice_ns=factories.TURN_NS)
    trials = factories.trials(run, TRUTHS, blocks=10, noise=Noise(own=0.002, alone=0.2))
    found = half_widths(run, trials)
    assert {key[:2] for key in found} == {("b", "a"), ("c", "a")}


def test_pairs_of_a_run_of_single_targets_have_a_width() -> None:
    run = factories.run("ab", method=Method.SINGLE, loads=(HEAVY,))
    trials = factories.trials(run, TRUTHS, blocks=10, solo_blocks=10, noise=Noise(alone=0.2))
    assert set(half_widths(run, trials)) == {("b", "a", HEAVY)}
