"""A rate that an arm did not reach is part of no verdict."""

from typing import Any

import pytest

from jissoku import inference
from jissoku.inference.blocks import valid_trials
from jissoku.inference.bounds import bound_results
from jissoku.inference.claims import WorkloadTrials, log_ratio_sample
from jissoku.inference.expression import quantity
from jissoku.inference.reach import answered, is_behind, unreached, unreached_text
from jissoku.model import (
    ArmMeasurement,
    Load,
    LoadLevel,
    Metric,
    Run,
    Trial,
    TrialKind,
    Verdict,
    Workload,
)
from jissoku.model.summary import BoundStatus
from jissoku.model.updated import updated
from tests.inference import factories
from tests.inference.factories import TrueValues

RATE = 400
GIVEN = Load(rate_rps=RATE, level=LoadLevel.GIVEN)
MS = 1_000_000


def sliced(
    *,
    requests: int = 320,
    active_ms: float = 800,
    p50_ms: float = 1.0,
    p999_ms: float = 1.0,
    **changes: Any,
) -> ArmMeasurement:
    """Of eight slices of 100 ms, with 40 requests each."""
    known = factories.arm_measurement("a")
    latency = updated(known.latency_ns, p50=round(p50_ms * MS), p999=round(p999_ms * MS))
    return updated(
        known,
        requests=requests,
        rate_rps_offered=float(RATE),
        duration_ns=round(3 * active_ms * MS),
        active_duration_ns=round(active_ms * MS),
        slice_cpu_ns=(MS,) * 8,
        latency_ns=latency,
        **changes,
    )


def trial(one: ArmMeasurement, kind: TrialKind = TrialKind.TIME_SLICED) -> Trial:
    return factories.trial(kind, one, workload=Workload(rate_rps=RATE))


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (sliced(), False),
        (sliced(active_ms=800 / 0.237, p50_ms=160), True),
        # Each slice waits 50 ms for the answer to its last request.
        (sliced(active_ms=1_200, p50_ms=50), False),
        # The last one took longer than the median: how fast it is in a closed loop decides.
        (sliced(active_ms=1_600, p50_ms=50, warmup_rps=1_300.0), False),
        (sliced(active_ms=1_600, p50_ms=50, warmup_rps=420.0), True),
        (sliced(active_ms=1_600, p50_ms=50), True),
        # One server of many behind a gateway takes 25 ms.
        (sliced(active_ms=1_000, p50_ms=2, p999_ms=26), False),
        (sliced(active_ms=1_000, p50_ms=12, p999_ms=26), True),
        (sliced(active_ms=1_000, p50_ms=2, p999_ms=10), True),
        (sliced(active_ms=1_200, p50_ms=2, p999_ms=60), True),
    ],
    ids=[
        *("in time", "too slow", "a long answer", "uneven answers", "no headroom", "unknown"),
        *("a tail", "a queue", "not so late", "most is missing"),
    ],
)
def test_a_slice_that_waits_for_its_last_answer_is_not_behind(
    one: ArmMeasurement, *, expected: bool
) -> None:
    assert is_behind(trial(one), one) is expected
    assert bool(unreached([trial(one)])) is expected


def test_alone_a_window_shows_what_was_answered() -> None:
    one = updated(
        sliced(), requests=237, active_duration_ns=None, slice_cpu_ns=(), duration_ns=2_500 * MS
    )
    alone = trial(one, TrialKind.FIXED_RATE)
    assert answered(one) == pytest.approx(0.237)
    assert unreached([alone]) == {("a", RATE): pytest.approx(0.237)}
    assert unreached_text(unreached([alone]), GIVEN, "b", "a") == (
        "a did not reach 400 requests/s (answered 23.7 %)"
    )


def test_a_window_that_a_program_shortened_is_no_sign_of_a_slow_server() -> None:
    def alone(part: float) -> Trial:
        one = updated(sliced(), active_duration_ns=None, duration_ns=round(800 / part * MS))
        return trial(one, TrialKind.FIXED_RATE)

    assert unreached([alone(0.95)]) == {}, "a single one may be disturbed"
    assert unreached([alone(0.95), alone(1.0)]) == {}
    assert unreached([alone(0.95), alone(0.96)]) == {("a", RATE): pytest.approx(0.96)}


def test_a_run_measures_an_arm_again_that_answered_half() -> None:
    def alone(part: float) -> Trial:
        one = updated(sliced(), active_duration_ns=None, duration_ns=round(800 / part * MS))
        return trial(one, TrialKind.FIXED_RATE)

    for part, expected in [(0.6, False), (0.4, True)]:
        assert (("a", RATE) in unreached([alone(part)], single_max=0.5)) is expected
        assert ("a", RATE) in unreached([alone(part), alone(part)], single_max=0.5)


def test_one_disturbed_window_does_not_contradict_several_trials() -> None:
    one = updated(sliced(), active_duration_ns=None, duration_ns=round(800 / 0.6 * MS))
    disturbed = trial(one, TrialKind.FIXED_RATE)
    in_time = trial(sliced())
    assert unreached([in_time, in_time, disturbed]) == {}
    assert ("a", RATE) in unreached([in_time, in_time, disturbed, disturbed])
    assert ("a", RATE) in unreached([in_time, disturbed])


def test_the_edges_of_a_short_window_are_no_sign_of_it_either() -> None:
    one = updated(sliced(), requests=29, rate_rps_offered=300.0, active_duration_ns=None)
    alone = factories.trial(
        TrialKind.FIXED_RATE,
        updated(one, slice_cpu_ns=(), duration_ns=100 * MS),
        workload=Workload(rate_rps=300),
    )
    assert unreached([alone, alone]) == {}


def test_a_closed_loop_offers_no_rate() -> None:
    closed = factories.trial(
        TrialKind.CLOSED_LOOP, factories.arm_measurement("a", rate_rps_offered=None)
    )
    assert unreached([closed]) == {}


def overloaded(part: float = 0.237) -> tuple[Run, tuple[Trial, ...]]:
    """Arm `slow` answers this part of the rate, at 2.3 times the cost of `go`."""
    run = factories.sliced(["go", "slow", "floor"], floor="floor", loads=(GIVEN,))
    truths = {
        "go": TrueValues(cost_ns=10_000),
        "slow": TrueValues(cost_ns=23_000),
        "floor": TrueValues(cost_ns=5_000),
    }
    found = factories.trials(run, truths)

    def slowed(one: ArmMeasurement, kind: TrialKind) -> ArmMeasurement:
        if one.arm != "slow" or kind is TrialKind.CLOSED_LOOP:
            return one
        active = None if one.active_duration_ns is None else round(one.active_duration_ns / part)
        # The backlog grows until the last request of a slice is due.
        waited = updated(one.latency_ns, p50=round((1 / part - 1) * one.active_ns / 8 / 2))
        span = round(one.duration_ns / part)
        return updated(one, active_duration_ns=active, latency_ns=waited, duration_ns=span)

    return run, tuple(
        updated(t, measurements=tuple(slowed(one, t.kind) for one in t.measurements)) for t in found
    )


def test_no_question_is_answered_at_a_rate_that_was_not_reached() -> None:
    run, trials = overloaded()
    assert valid_trials(trials).unreached.keys() == {("slow", RATE)}
    summary = inference.summarise(run, trials)
    (cost,) = summary.by(Metric.COST)
    assert (cost.verdict, cost.ratio, cost.proven) == (Verdict.UNREACHED, None, False)
    assert "slow did not reach 400 requests/s (answered " in cost.sentence
    assert "slow did not reach 400 requests/s (answered " in summary.headline
    assert not summary.by(Metric.P50)
    assert not summary.by(Metric.P99)
    (slow,) = [one for one in summary.arm_summaries if one.arm.name == "slow"]
    assert slow.points == ()
    assert slow.unreached == (GIVEN,)
    assert slow.rate_rps is not None, "its closed loop is what it is"
    titles = [one.title for one in summary.warnings]
    assert "slow did not reach 400 requests/s" in titles
    assert not any("CPU time of slow is unknown" in title for title in titles)
    (said,) = [one for one in summary.warnings if "did not reach" in one.title]
    assert said.next_command == "jissoku explain slow"
    assert "-R 50" in said.remedy, "the lab names a rate that it reaches"


@pytest.mark.parametrize("bound", ["cost(slow) > 1.5 * cost(go)", "p99(slow) > 2 * p99(go)"])
def test_no_bound_is_decided_by_it(bound: str) -> None:
    run, trials = overloaded()
    (found,) = bound_results(run, trials, [bound])
    assert (found.status, found.ratio) == (BoundStatus.UNDECIDED, None)
    assert found.reason.startswith("slow did not reach 400 requests/s (answered ")
    (rate,) = bound_results(run, trials, ["rate(slow) > 0.5 * rate(go)"])
    assert rate.ratio is not None


def test_a_claim_has_no_sample_of_it() -> None:
    run, trials = overloaded()
    campaign = WorkloadTrials(run=run, trials=trials, counters={})
    sides = [quantity("cost(slow)")], [quantity("cost(go)")]
    assert log_ratio_sample(campaign, *sides).logs == {}


def test_where_it_is_reached_everything_stays() -> None:
    run, trials = overloaded(1.0)
    (cost,) = inference.summarise(run, trials).by(Metric.COST)
    assert cost.proven
    assert inference.unreached(trials) == {}
