"""Pairs from made-up campaigns: where the ratio comes from, and what is said of it."""

import math
from dataclasses import replace

import pytest

from jissoku.model import Comparison, Kind, Run, Source, Trial, Verdict, Workload
from jissoku.stats import precision
from jissoku.stats.compare import Evidence, compare, contestants, pairs
from jissoku.stats.readings import readings
from tests.stats import made
from tests.stats.made import Noise, Truth


def _compare(run: Run, trials: tuple[Trial, ...]) -> dict[tuple[str, str], Comparison]:
    found = compare(Evidence(run, readings(trials), {}))
    return {(one.arm, one.against): one for one in found}


def _truths(**costs: float) -> dict[str, Truth]:
    return {name: Truth(cost_ns=cost) for name, cost in costs.items()}


def test_every_pair_is_asked_once_and_the_floor_is_no_contestant() -> None:
    run = made.run(["b", "a", "c", "floor"], floor="floor")
    assert pairs(run) == (("a", "b"), ("c", "b"), ("c", "a"))
    assert contestants(made.run(["a", "floor"], floor="floor")) == ("a", "floor")
    assert contestants(made.run(["floor", "a", "b"], floor="floor")) == ("floor", "a", "b")


def test_a_planted_effect_is_found_in_direct_duets() -> None:
    run = made.run(["a", "b"])
    found = _compare(run, made.trials(run, _truths(a=5000, b=5100), noise=Noise(duet=0.005)))
    pair = found["b", "a"]
    assert pair.source is Source.DUET
    assert pair.verdict in (Verdict.SLOWER, Verdict.SLIGHTLY_SLOWER)
    assert pair.proven
    assert pair.ratio is not None
    assert pair.ratio.low < 1.02 < pair.ratio.high
    assert pair.rates_rps == (20_000,)
    ratio = pair.ratio.text.replace(" [", " \N{MULTIPLICATION SIGN} [")
    said = f"b uses {ratio} the CPU of a per request: {pair.verdict}, proven"
    assert pair.sentence == said


def test_below_one_is_faster() -> None:
    run = made.run(["a", "b"])
    pair = _compare(run, made.trials(run, _truths(a=5000, b=4000)))["b", "a"]
    assert pair.verdict is Verdict.FASTER
    assert pair.ratio is not None
    assert pair.ratio.high < 0.85


def test_what_a_whole_block_shares_cancels() -> None:
    run = made.run(["a", "b"])
    wild = made.trials(run, _truths(a=5000, b=5500), noise=Noise(block=0.5, duet=0.002))
    ratio = _compare(run, wild)["b", "a"].ratio
    assert ratio is not None
    assert ratio.value == pytest.approx(1.1, rel=0.005)
    assert ratio.half_width < 0.004


def test_a_ratio_of_ratios_carries_both_errors() -> None:
    run = made.run(["a", "b", "floor"], floor="floor")
    noise = Noise(block=0.3, duet=0.01)
    trials = made.trials(run, _truths(a=5000, b=6000, floor=4000), blocks=40, noise=noise)
    pair = _compare(run, trials)["b", "a"]
    assert (pair.source, pair.through) == (Source.REFERENCE, "floor")
    assert pair.ratio is not None
    assert pair.ratio.value == pytest.approx(1.2, rel=0.01)
    assert pair.ratio.spread == pytest.approx(0.01 * math.sqrt(2), rel=0.3)


def test_a_block_that_one_side_lacks_is_left_out() -> None:
    run = made.run(["a", "b", "floor"], floor="floor")
    trials = made.trials(run, _truths(a=5000, b=6000, floor=4000))
    kept = tuple(t for t in trials if not (t.block == 4 and "a" in t.arms))
    ratio = _compare(run, kept)["b", "a"].ratio
    assert ratio is not None
    assert ratio.blocks == 8


def test_different_rates_carry_an_allowance_that_is_told() -> None:
    run = made.run(["a", "slow", "floor"], floor="floor")
    truths = _truths(a=5000, floor=4000) | {"slow": Truth(cost_ns=8000, duet_rate_rps=1000)}
    pair = _compare(run, made.trials(run, truths))["slow", "a"]
    assert pair.allowance == 1.8
    assert pair.rates_rps == (1000, 20_000)
    assert pair.ratio is not None
    assert pair.ratio.low < 1.6 / 1.78
    assert pair.ratio.high > 1.6 * 1.78
    assert pair.verdict is Verdict.INCONCLUSIVE
    assert not pair.proven
    assert "different rates" in pair.remarks[0]
    truths["slow"] = Truth(cost_ns=50_000, duet_rate_rps=1000)
    assert _compare(run, made.trials(run, truths))["slow", "a"].verdict is Verdict.SLOWER


def test_failed_and_gated_trials_give_no_number() -> None:
    run = made.run(["a", "b"])
    trials = made.trials(run, _truths(a=5000, b=5500), solo_blocks=0)
    broken = made.failed(Kind.DUET, "b", "a", index=99, block=9)
    ratio = _compare(run, (*trials, broken))["b", "a"].ratio
    assert ratio is not None
    assert ratio.blocks == len(trials)


def test_without_duets_solo_trials_decide_with_a_larger_minimum() -> None:
    run = made.run(["a", "b"])
    trials = made.trials(run, _truths(a=5000, b=6000), solo_blocks=9, noise=Noise(solo=0.01))
    pair = _compare(run, tuple(t for t in trials if t.kind is not Kind.DUET))["b", "a"]
    assert (pair.source, pair.minimum_effect) == (Source.SOLO, 0.02)
    assert pair.verdict is Verdict.SLOWER


def test_no_cpu_time_no_ratio() -> None:
    run = made.run(["a", "b"])
    trials = made.trials(run, _truths(a=5000, b=6000))
    blind = tuple(replace(t, lanes=tuple(replace(x, cpu_ns=None) for x in t.lanes)) for t in trials)
    pair = _compare(run, blind)["b", "a"]
    assert pair.ratio is None
    assert pair.verdict is Verdict.INCONCLUSIVE


def _with_solo_costs(trials: tuple[Trial, ...], arm: str, factor: float) -> tuple[Trial, ...]:
    """The same, but alone this arm costs so much more."""
    return tuple(
        replace(t, lanes=(replace(t.lanes[0], cpu_ns=round((t.lanes[0].cpu_ns or 0) * factor)),))
        if t.kind is Kind.SOLO_COST and t.arms == (arm,)
        else t
        for t in trials
    )


@pytest.mark.parametrize("floor", ["", "floor"])
def test_duets_that_solo_trials_exclude_are_interference(floor: str) -> None:
    run = made.run(["a", "b", *([floor] if floor else [])], floor=floor)
    costs = _truths(a=5000, b=5000, floor=4000)
    fair = made.trials(run, costs, solo_blocks=9, noise=Noise(solo=0.01))
    assert _compare(run, fair)["b", "a"].verdict is not Verdict.INTERFERENCE
    pair = _compare(run, _with_solo_costs(fair, "b", 1.5))["b", "a"]
    assert pair.verdict is Verdict.INTERFERENCE
    assert pair.solo_verdict is Verdict.SLOWER
    assert pair.source is Source.SOLO
    assert pair.ratio is not None
    assert pair.ratio.value == pytest.approx(1.5, rel=0.05)
    assert pair.duet is not None
    assert pair.duet.value == pytest.approx(1.0, rel=0.05)
    assert pair.sentence.endswith("side by side: interference; alone it is slower, proven")


def test_a_disputed_size_leaves_the_direction_proven() -> None:
    run = made.run(["a", "b"])
    costs = _truths(a=5000, b=10_000)
    trials = made.trials(run, costs, solo_blocks=3, noise=Noise(duet=0.01, solo=0.001))
    pair = _compare(run, _with_solo_costs(trials, "b", 0.8))["b", "a"]
    assert pair.verdict is Verdict.INTERFERENCE
    assert pair.proven
    assert pair.solo_verdict is Verdict.SLOWER
    assert pair.sentence.endswith("interference; slower is proven, by how much is open")


def test_a_disputed_direction_proves_nothing() -> None:
    run = made.run(["a", "b"])
    costs = _truths(a=5000, b=5500)
    trials = made.trials(run, costs, solo_blocks=3, noise=Noise(duet=0.01, solo=0.001))
    pair = _compare(run, _with_solo_costs(trials, "b", 0.5))["b", "a"]
    assert pair.verdict is Verdict.INTERFERENCE
    assert not pair.proven


def test_a_closed_loop_has_no_check() -> None:
    run = made.run(["a", "b"])
    trials = made.trials(run, _truths(a=5000, b=5000), solo_blocks=9, noise=Noise(solo=0.001))
    closed = tuple(
        replace(t, workload=Workload(rate_rps=None)) for t in _with_solo_costs(trials, "b", 2.0)
    )
    assert _compare(run, closed)["b", "a"].verdict is not Verdict.INTERFERENCE


def test_two_solo_pairs_contradict_nothing() -> None:
    run = made.run(["a", "b"])
    trials = made.trials(run, _truths(a=5000, b=5000), solo_blocks=2, noise=Noise(solo=0.001))
    pair = _compare(run, _with_solo_costs(trials, "b", 2.0))["b", "a"]
    assert pair.verdict is not Verdict.INTERFERENCE


def test_solo_trials_at_another_rate_are_no_check() -> None:
    run = made.run(["a", "b"])
    trials = made.trials(run, _truths(a=5000, b=5000), solo_blocks=9, noise=Noise(solo=0.001))
    trials = tuple(
        replace(t, workload=Workload(rate_rps=5000)) if t.kind is Kind.SOLO_COST else t
        for t in _with_solo_costs(trials, "b", 2.0)
    )
    pair = _compare(run, trials)["b", "a"]
    assert pair.verdict is not Verdict.INTERFERENCE
    assert pair.solo is None


def test_equal_arms_are_rarely_called_interference() -> None:
    run = made.run(["a", "b"])
    costs = _truths(a=5000, b=5000)
    words = [
        _compare(run, made.trials(run, costs, noise=Noise(solo=0.1), seed=seed))["b", "a"].verdict
        for seed in range(30)
    ]
    assert words.count(Verdict.INTERFERENCE) <= 3


def test_precision_is_the_widest_pair_without_its_allowance() -> None:
    run = made.run(["a", "b", "floor"], floor="floor")
    truths = _truths(a=5000, floor=4000) | {"b": Truth(cost_ns=8000, duet_rate_rps=1000)}
    trials = made.trials(run, truths, blocks=10, noise=Noise(duet=0.01))
    widest = precision.widest_half_width(run, trials)
    assert widest is not None
    assert 0.003 < widest < 0.03
    assert precision.is_enough(run, trials, widest)
    assert not precision.is_enough(run, trials, widest / 2)
    assert precision.is_enough(run, (), 0.01), "nothing to wait for"
