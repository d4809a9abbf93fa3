"""A run that is looked at after every block: the order of its work, and what ends it."""

import itertools
import math
import os
import signal
from types import SimpleNamespace

import pytest

from jissoku import inference, records
from jissoku.design.sampling_plan import SECOND, SamplingPlan
from jissoku.design.schedule import PlannedStart
from jissoku.inference.blocks import Neighbours
from jissoku.measure import compare as measuring, comparison_run
from jissoku.measure.compare import FIRST_BLOCKS, compare, has_time_for
from jissoku.measure.comparison import CompareConfig, run_header
from jissoku.measure.comparison_run import ComparisonRun
from jissoku.measure.reports import write_reports
from jissoku.measure.trial import TrialRunner
from jissoku.model import (
    FULL_LOAD,
    Comparison,
    Estimate,
    Load,
    LoadLevel,
    Method,
    Metric,
    Run,
    Trial,
    TrialKind,
    Verdict,
)
from jissoku.model.summary import BoundResult, BoundStatus
from jissoku.model.updated import updated
from jissoku.records import RunWriter
from jissoku.system.interruption import Interruption
from tests.measure.conftest import BRIEF, Asks, CollectingListener

LIGHT = Load(rate_rps=100, level=LoadLevel.LIGHT)
MEDIUM = Load(rate_rps=200, level=LoadLevel.MEDIUM)
HEAVY = Load(rate_rps=300, level=LoadLevel.HEAVY)

PLAN = updated(BRIEF, horizon=9, blocks_max=9, capacity_blocks=0, window_ns=SECOND // 20)
pytestmark = pytest.mark.slow


@pytest.fixture
def config(asks: Asks) -> CompareConfig:
    found = asks({"one": "", "other": ""})
    return updated(found, plan=PLAN, loads=(LIGHT, MEDIUM, HEAVY))


def tuning_config(asks: Asks, plan: SamplingPlan) -> CompareConfig:
    """Two variants, each compared with the baseline `one`, as `tune` does."""
    return updated(
        asks({"one": "", "other": "", "third": ""}),
        plan=plan,
        loads=(MEDIUM,),
        method=Method.PAIRED,
        verb="tune",
        aim=Verdict.LOWER,
    )


def answers(
    monkeypatch: pytest.MonkeyPatch, proven_after: int, verdict: Verdict = Verdict.HIGHER
) -> None:
    """Every pair is decided from this number of blocks on, and every arm reaches its rate."""

    def verdicts(_: object, trials: list[Trial]) -> dict[object, Comparison]:
        return {
            ("other", "one", load): Comparison(
                arm="other", against="one", verdict=verdict, load=load, proven=True, sentence="So"
            )
            for load in (LIGHT, MEDIUM, HEAVY)
            if len(blocks(trials, load)) >= proven_after
        }

    monkeypatch.setattr(inference, "cost_verdicts", verdicts)
    monkeypatch.setattr(inference, "neighbours", lambda _: Neighbours())
    all_rates_are_reached(monkeypatch)


def all_rates_are_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a quiet machine: on a busy one a window of 50 ms may pass without an answer."""
    monkeypatch.setattr(inference, "unreached", lambda *_, **__: {})


def blocks(trials: list[Trial], load: Load) -> list[int]:
    """Blocks of the valid slices of a load, without those of the other length.

    A busy machine may reject a trial, which is then repeated in its block.
    """
    return [
        trial.block
        for trial in trials
        if trial.kind is TrialKind.TIME_SLICED
        and trial.is_valid
        and trial.load_rps == load.rate_rps
        and trial.slice_ns == PLAN.slice_ns
    ]


def test_the_middle_load_comes_first_and_checks_come_last(
    config: CompareConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers(monkeypatch, 3)
    listener = CollectingListener()
    assert compare(config, listener)
    trials = listener.trials
    assert {trial.load_rps for trial in trials[:3]} == {200}
    middle, *others = (blocks(trials, load) for load in (MEDIUM, LIGHT, HEAVY))
    assert len(middle) == 3
    assert all(other[0] >= FIRST_BLOCKS and len(other) == 3 for other in others)
    kinds = [trial.kind for trial in trials]
    closed, alone = (kinds.index(kind) for kind in (TrialKind.CLOSED_LOOP, TrialKind.FIXED_RATE))
    assert 9 <= closed < alone
    assert any(trial.slice_ns == PLAN.check_slice_ns for trial in trials[closed:])
    assert listener.notes.count("So.") == 3
    run, kept = records.read(config.folder)
    assert (run.horizon, kept) == (9, tuple(trials))


def test_what_is_never_decided_ends_at_the_horizon(
    config: CompareConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = updated(config, plan=updated(PLAN, horizon=4), loads=(MEDIUM,))
    answers(monkeypatch, 100)
    listener = CollectingListener()
    assert compare(config, listener)
    assert {trial.block for trial in listener.trials if trial.slice_ns == PLAN.slice_ns} == {
        *range(4)
    }


@pytest.mark.parametrize(("seconds", "expected"), [(0.0, 3), (600.0, 4)])
def test_what_a_limited_time_leaves_goes_to_ratios_that_lack_calm_rotations(
    config: CompareConfig, monkeypatch: pytest.MonkeyPatch, seconds: float, expected: int
) -> None:
    config = updated(config, plan=updated(PLAN, horizon=4, seconds=seconds), loads=(MEDIUM,))
    answers(monkeypatch, 3)
    monkeypatch.setattr(inference, "lacks_calm", lambda _: True)
    listener = CollectingListener()
    assert compare(config, listener)
    assert set(blocks(listener.trials, MEDIUM)) == {*range(expected)}


@pytest.mark.parametrize(("seconds", "last"), [(0.0, 6), (500.0, 5)])
def test_a_limited_time_is_not_spent_on_pairs_that_it_cannot_decide(
    config: CompareConfig, monkeypatch: pytest.MonkeyPatch, seconds: float, last: int
) -> None:
    def verdicts(_: object, trials: list[Trial]) -> dict[object, Comparison]:
        count = len(blocks(trials, MEDIUM))
        ratio = Estimate(value=1.0, low=0.9, high=1.1, blocks=count, sd_log=0.1)
        found = Comparison(
            arm="other",
            against="one",
            verdict=Verdict.INCONCLUSIVE,
            load=MEDIUM,
            ratio=ratio,
            is_out_of_reach=True,
        )
        return {("other", "one", MEDIUM): found} if count else {}

    monkeypatch.setattr(inference, "cost_verdicts", verdicts)
    all_rates_are_reached(monkeypatch)
    plan = updated(PLAN, horizon=6, seconds=seconds)
    listener = CollectingListener()
    assert compare(updated(config, plan=plan, loads=(MEDIUM,)), listener)
    assert len(blocks(listener.trials, MEDIUM)) == last


def test_what_runs_and_the_values_so_far_are_passed_on(
    config: CompareConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers(monkeypatch, 3)
    listener = CollectingListener()
    assert compare(updated(config, loads=(MEDIUM,)), listener)
    assert listener.begun[:2] == [
        "starting one and other, block 1",
        "measuring one and other at 200/s, block 1",
    ]
    assert listener.valued[:3] == [1, 2, 3], "trials at each look"
    ends = [trial.elapsed_s for trial in listener.trials]
    assert None not in ends
    assert ends == sorted(ends, key=lambda end: end or 0.0)


def test_a_limited_time_leaves_the_rest_as_it_is(
    config: CompareConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers(monkeypatch, 100)
    listener = CollectingListener()
    assert compare(updated(config, plan=updated(PLAN, seconds=0.1)), listener)
    assert len(blocks(listener.trials, MEDIUM)) <= 1
    assert write_reports(config.folder)[0] is not None


def test_the_first_blocks_may_take_all_of_a_limited_time(
    config: CompareConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three take 9.6 of 12 s, and the time of costs usually ends after three quarters."""
    answers(monkeypatch, 100)
    clock = itertools.count(0.0, 3.2)
    now = [next(clock)]
    run_step = measuring.AnytimeRun.run_step

    def slow_step(self: measuring.AnytimeRun, step: PlannedStart) -> None:
        now[0] = next(clock)
        run_step(self, step)

    monkeypatch.setattr(measuring.AnytimeRun, "run_step", slow_step)
    monkeypatch.setattr(comparison_run, "time", SimpleNamespace(monotonic=lambda: now[0]))
    listener = CollectingListener()
    assert compare(updated(config, plan=updated(PLAN, seconds=12.0)), listener)
    assert set(blocks(listener.trials, MEDIUM)) == {0, 1, 2}


def test_no_load_is_sent_that_would_end_after_a_limited_time(
    config: CompareConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time is over after the first of several loads of one start."""
    answers(monkeypatch, 100)
    now = [0.0]
    monkeypatch.setattr(comparison_run, "time", SimpleNamespace(monotonic=lambda: now[0]))

    def over(trial: Trial) -> None:
        now[0] = 100.0 * (trial.block == FIRST_BLOCKS)

    listener = CollectingListener(over)
    assert compare(updated(config, plan=updated(PLAN, seconds=50.0)), listener)
    assert sum(trial.block == FIRST_BLOCKS for trial in listener.trials) == 1
    assert listener.trials[-1].block == FIRST_BLOCKS
    assert write_reports(config.folder)[0] is not None


def test_a_run_with_one_look_ends_with_a_limited_time_too(config: CompareConfig) -> None:
    plan = updated(PLAN, horizon=0, seconds=0.001)
    listener = CollectingListener()
    assert compare(updated(config, plan=plan), listener)
    assert not listener.trials


def test_nothing_is_cross_checked_beside_other_programs(
    config: CompareConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers(monkeypatch, 3)
    monkeypatch.setattr(inference, "neighbours", lambda _: Neighbours(0.5))
    listener = CollectingListener()
    assert compare(config, listener)
    assert not any(trial.kind is TrialKind.FIXED_RATE for trial in listener.trials)
    assert "Other programs run beside it" in listener.notes[-1]


def test_an_interrupted_run_keeps_its_verdicts(config: CompareConfig) -> None:
    def interrupt(_: Trial) -> None:
        if len(blocks(listener.trials, MEDIUM)) == FIRST_BLOCKS + 1:
            os.kill(os.getpid(), signal.SIGINT)

    listener = CollectingListener(interrupt)
    assert not compare(updated(config, loads=(MEDIUM,)), listener)
    summary, *_ = write_reports(config.folder)
    assert summary is not None
    assert summary.by(Metric.COST)[0].ratio is not None  # type: ignore[union-attr]
    titles = [warning.title for warning in summary.warnings]
    assert "The run ended early" in titles
    assert "The run is not finished" not in titles
    assert any("After 3 blocks at 200 requests/s" in note for note in listener.notes)


def test_without_loads_the_first_start_chooses_them(asks: Asks) -> None:
    found = asks({"one": "", "other": ""})
    listener = CollectingListener()
    plan = updated(PLAN, seconds=0.1)
    assert compare(updated(found, plan=plan), listener)
    run, trials = records.read(found.folder)
    assert run.loads
    assert trials[0].kind is TrialKind.TIME_SLICED
    assert set(trials[0].arms) == {"one", "other"}
    missing = {"light": "medium and no heavy", "medium": "heavy"}.get(run.loads[-1].level)
    assert any(f"There is no {missing} load" in note for note in listener.notes) == bool(missing)


@pytest.mark.parametrize(("one_load", "of_a_core"), [(False, [1_000]), (True, [500])])
def test_one_load_leaves_room_below_the_rates_of_a_short_closed_loop(
    asks: Asks, *, one_load: bool, of_a_core: list[int]
) -> None:
    asked = updated(asks({"one": "", "other": ""}), one_load=one_load)
    header, cores = run_header(asked), len(asked.cores.server)
    with RunWriter(asked.folder, header) as writer:
        runner = TrialRunner(asked.arms_prepared, asked.cores, Interruption())
        campaign = ComparisonRun(asked, header, runner, writer, CollectingListener())
        campaign.add_capacities({"one": 1_700.0 * cores, "other": 1_500.0 * cores})
        campaign.set_loads(None)
    rates = [load.rate_rps for load in campaign.header.loads]
    assert rates == [rate * cores for rate in of_a_core]


@pytest.mark.parametrize("kind", [ComparisonRun, measuring.AnytimeRun])
def test_a_campaign_owns_the_time_that_its_starts_may_take(
    asks: Asks, kind: type[ComparisonRun], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [7.0]
    monkeypatch.setattr(comparison_run, "time", SimpleNamespace(monotonic=lambda: now[0]))
    found = asks({"one": "", "other": ""})
    asked = updated(found, plan=updated(PLAN, seconds=50.0))
    with RunWriter(asked.folder, run_header(asked)) as writer:
        runner = TrialRunner(asked.arms_prepared, asked.cores, Interruption())
        campaign = kind(asked, run_header(asked), runner, writer, CollectingListener())
        now[0] = 27.0
        assert runner.seconds_left() == campaign.seconds_left()
        # The first good trial may take all of it.
        assert campaign.seconds_left() == (30.0 if kind is ComparisonRun else math.inf)


def test_an_arm_that_proves_faster_joins_a_load_and_is_named(asks: Asks) -> None:
    asked = asks({"one": "", "other": "", "slow": ""})
    header, cores = run_header(asked), len(asked.cores.server)
    listener = CollectingListener()
    with RunWriter(asked.folder, header) as writer:
        runner = TrialRunner(asked.arms_prepared, asked.cores, Interruption())
        campaign = ComparisonRun(asked, header, runner, writer, listener)
        rates = {"one": 20_000.0, "other": 1_500.0, "slow": 1_050.0}
        campaign.add_capacities({name: rate * cores for name, rate in rates.items()})
        campaign.set_loads(None)
        campaign.add_capacities({"slow": 1_850.0 * cores, "other": 1_400.0 * cores})
    text = f"{1_000 * cores:,} requests/s (light load)"
    assert listener.notes[-2:] == [f"Not at {text}: slow.", f"At {text} after all: slow."]


def test_an_arm_that_does_not_start_is_left_out_of_the_first_start(asks: Asks) -> None:
    found = asks({"one": "", "other": "", "bad": "sys.exit(3)"})
    listener = CollectingListener()
    assert compare(updated(found, plan=updated(PLAN, seconds=0.1)), listener)
    good = [trial for trial in listener.trials if trial.failure is None]
    assert good
    assert set(good[0].arms) == {"one", "other"}


@pytest.mark.parametrize(
    ("blocks", "left_s", "is_enough"), [(0, 66.1, True), (0, 65.0, False), (2, 22.1, True)]
)
def test_further_loads_are_begun_if_there_is_time_for_their_verdicts(
    blocks: int, left_s: float, *, is_enough: bool
) -> None:
    assert has_time_for(3, blocks, 10.0, left_s) is is_enough


COSTLIER, SLOWER = "cost(other) > 2 x cost(one)", "rate(other) < 0.9 x rate(one)"


def bounds_decided_after(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """Every bound has an answer from this number of blocks of the heaviest load on."""

    def results(_: Run, trials: list[Trial], bounds: tuple[str, ...]) -> list[BoundResult]:
        done = {t.block for t in trials if t.kind.is_joint and t.load_rps == HEAVY.rate_rps}
        status = BoundStatus.KEPT if len(done) >= count else BoundStatus.UNDECIDED
        return [BoundResult(text=one, status=status, bound=2.0, relation=">") for one in bounds]

    monkeypatch.setattr(measuring, "bound_results", results)


def test_two_builds_are_measured_until_their_bound_is_decided(
    config: CompareConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    bounds_decided_after(monkeypatch, 4)
    answers(monkeypatch, 100)
    listener = CollectingListener()
    asked = updated(config, bounds=(COSTLIER,), one_load=True, method=Method.PAIRED)
    assert compare(updated(asked, loads=(HEAVY,)), listener)
    assert {t.block for t in listener.trials if t.kind is TrialKind.PAIRED} == {*range(4)}


def test_other_targets_are_measured_until_pairs_and_bounds_are_decided(
    config: CompareConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    bounds_decided_after(monkeypatch, 5)
    answers(monkeypatch, 3)
    listener = CollectingListener()
    assert compare(updated(config, bounds=(COSTLIER,)), listener)
    counts = [len(blocks(listener.trials, load)) for load in (LIGHT, MEDIUM, HEAVY)]
    assert counts == [3, 3, 5]


def test_a_bound_on_the_closed_loop_has_it_in_every_block(
    config: CompareConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    bounds_decided_after(monkeypatch, 3)
    answers(monkeypatch, 100)
    plan = updated(PLAN, closed_loop_blocks=PLAN.horizon)
    asked = updated(config, bounds=(SLOWER,), one_load=True, method=Method.PAIRED, plan=plan)
    listener = CollectingListener()
    assert compare(updated(asked, loads=(HEAVY,)), listener)
    closed = [(t.block, *t.arms) for t in listener.trials if t.kind is TrialKind.CLOSED_LOOP]
    assert sorted(closed) == [(block, arm) for block in range(3) for arm in ("one", "other")]


@pytest.mark.parametrize(("after", "expected"), [(3, 3), (100, 4)])
def test_closed_loops_of_unlike_targets_end_when_their_costs_are_decided(
    config: CompareConfig, monkeypatch: pytest.MonkeyPatch, after: int, expected: int
) -> None:
    def verdicts(_: object, trials: list[Trial]) -> dict[object, Comparison]:
        found = Comparison(
            arm="other", against="one", verdict=Verdict.HIGHER, load=FULL_LOAD, proven=True
        )
        done = {trial.block for trial in trials if trial.kind is TrialKind.CLOSED_LOOP}
        return {("other", "one", FULL_LOAD): found} if len(done) >= after else {}

    monkeypatch.setattr(inference, "cost_verdicts", verdicts)
    plan = updated(PLAN, horizon=4, closed_loop_blocks=4)
    asked = updated(config, loads=(), closed_loop=True, method=Method.SINGLE, plan=plan)
    listener = CollectingListener()
    assert compare(asked, listener)
    assert {trial.kind for trial in listener.trials} == {TrialKind.CLOSED_LOOP}
    assert len(listener.trials) == 2 * expected
    assert records.read(asked.folder)[0].method is Method.SINGLE


def test_a_variant_is_measured_until_it_surely_does_not_pay(
    asks: Asks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each against the baseline alone, and no longer than it has to be."""

    def verdicts(run: Run, trials: list[Trial]) -> dict[object, Comparison]:
        found: dict[object, Comparison] = {}
        for name, after in (("other", 3), ("third", 5)):
            count = len({trial.block for trial in trials if set(trial.arms) == {"one", name}})
            ratio = Estimate(value=1.0, low=0.995, high=1.2, blocks=count, sd_log=0.1)
            found["one" if count < after else name, "one", run.loads[0]] = Comparison(
                arm=name, against="one", verdict=Verdict.INCONCLUSIVE, ratio=ratio
            )
        return found

    monkeypatch.setattr(inference, "cost_verdicts", verdicts)
    monkeypatch.setattr(inference, "neighbours", lambda _: Neighbours())
    brief = updated(PLAN, closed_loop_blocks=3, fixed_rate_blocks=0, cross_check_blocks=0)
    config = tuning_config(asks, brief)
    listener = CollectingListener()
    assert compare(config, listener)
    paired = [trial for trial in listener.trials if trial.kind is TrialKind.PAIRED]
    counts = [sum(name in trial.arms for trial in paired) for name in ("other", "third")]
    assert counts == [3, 5]
    assert all("one" in trial.arms for trial in paired)
    closed = [trial for trial in listener.trials if trial.kind is TrialKind.CLOSED_LOOP]
    assert len(closed) == 0, "none of them pays"


def test_every_variant_has_its_first_look_however_long_that_takes(
    asks: Asks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inference, "cost_verdicts", lambda *_: {})
    brief = updated(
        PLAN,
        closed_loop_blocks=0,
        fixed_rate_blocks=0,
        cross_check_blocks=0,
        seconds=0.001,
        window_ns=SECOND // 2,
    )
    # A rate that they reach beside other tests, too: else they would be left out of it.
    load = Load(rate_rps=200, level=LoadLevel.GIVEN)
    config = updated(tuning_config(asks, brief), loads=(load,))
    listener = CollectingListener()
    assert compare(config, listener)
    for name in ("other", "third"):
        assert len([trial for trial in listener.trials if name in trial.arms]) == FIRST_BLOCKS
