import pytest

from jissoku.model import Counts, Kind
from jissoku.stats import ablation, trial_counters
from tests.stats import made


def test_what_trials_counted_is_the_median_of_those_that_count() -> None:
    lanes = [
        made.lane("a", cpu_ns=cpu_ns, cpu_user_fraction=0.5, migrations_per_second=moves)
        for cpu_ns, moves in ((100_000_000, 3.0), (300_000_000, 1.0), (200_000_000, None))
    ]
    trials = [made.trial(Kind.DUET, lane, made.lane("b"), block=i) for i, lane in enumerate(lanes)]
    assert trial_counters.of(trials, Kind.DUET, "a") == {
        "cores": pytest.approx(0.2),
        "user_us": pytest.approx(5.0),
        "migrations": pytest.approx(2.0),
    }
    assert trial_counters.of(trials, Kind.SOLO_RATE, "a") == {}


@pytest.mark.parametrize("counter", sorted(trial_counters.ALL))
def test_what_could_not_be_seen_is_no_zero(counter: str) -> None:
    assert ablation.reading(Counts(requests=9), counter) is None
    seen = Counts(requests=9, per_request={counter: 2.0}, calls_reason="strace is not installed")
    assert ablation.reading(seen, counter) == 2.0
