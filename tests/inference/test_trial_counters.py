import pytest

from jissoku.inference import ablation
from jissoku.model import CounterReadings, TrialKind
from tests.inference import factories


def test_what_trials_counted_is_the_median_of_those_that_count() -> None:
    measurements = [
        factories.arm_measurement(
            "a", cpu_ns=cpu_ns, cpu_user_fraction=0.5, migrations_per_second=moves
        )
        for cpu_ns, moves in ((100_000_000, 3.0), (300_000_000, 1.0), (200_000_000, None))
    ]
    trials = [
        factories.trial(TrialKind.PAIRED, measurement, factories.arm_measurement("b"), block=i)
        for i, measurement in enumerate(measurements)
    ]
    assert ablation.trial_counters(trials, TrialKind.PAIRED, "a") == {
        "cores": pytest.approx(0.2),
        "user_us": pytest.approx(5.0),
        "migrations": pytest.approx(2.0),
    }
    assert ablation.trial_counters(trials, TrialKind.CLOSED_LOOP, "a") == {}


@pytest.mark.parametrize("counter", sorted(ablation.COUNTERS))
def test_what_could_not_be_seen_is_no_zero(counter: str) -> None:
    assert ablation.counter_value(CounterReadings(requests=9), counter) is None
    seen = CounterReadings(
        requests=9, per_request={counter: 2.0}, syscalls_reason="strace is not installed"
    )
    assert ablation.counter_value(seen, counter) == 2.0
