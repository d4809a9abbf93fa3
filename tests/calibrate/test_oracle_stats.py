import numpy as np
import pytest

from jissoku.inference.tool_values import ENTRY, Entries, oracle_values

NEVER = np.uint64(2**64 - 1)

ACCOUNT = {
    "requests": 0,
    "frozen": 0,
    "abandoned": 0,
    "connections_opened": 2,
    "connections_open_max": 2,
}


def entries(arrival: "np.typing.ArrayLike", served: "np.typing.ArrayLike") -> Entries:
    made = np.zeros(np.asarray(arrival).size, dtype=ENTRY)
    made["arrival"] = np.asarray(arrival, dtype=np.uint64)
    made["due"] = made["arrival"] + np.asarray(served, dtype=np.uint64)
    made["written"] = made["due"]
    return made


def test_an_entry_has_forty_bytes() -> None:
    assert np.dtype(ENTRY).itemsize == 40


def test_quantiles_are_of_what_was_served() -> None:
    log = entries(np.arange(1, 1001) * 1_000_000, np.arange(1, 1001))
    found = oracle_values(log, ACCOUNT, 10)
    assert found["served.p50_ns"] == 500
    assert found["served.p999_ns"] == 999
    assert found["served.max_ns"] == 1000
    assert found["served.mean_ns"] == 500.5


def test_requests_in_flight_are_littles() -> None:
    log = entries(np.arange(1, 10_001) * 100_000, np.full(10_000, 10_000_000))
    assert oracle_values(log, ACCOUNT, 10)["oracle.in_flight"] == pytest.approx(100, rel=0.001)


def test_even_arrivals_are_even_and_bursts_are_not() -> None:
    even = oracle_values(entries(1 + np.arange(10_000) * 100_000, np.ones(10_000)), ACCOUNT, 10)
    assert even["arrivals.even_ms"] == 1
    assert even["arrivals.gap_mad"] == 0
    bursts = np.repeat(np.arange(100) * 10_000_000, 100) + np.tile(np.arange(100), 100)
    assert (
        oracle_values(entries(1 + bursts, np.ones(10_000)), ACCOUNT, 10)["arrivals.even_ms"] < 0.2
    )


def test_poisson_arrivals_are_recognised() -> None:
    rng = np.random.default_rng(3)
    random = oracle_values(
        entries(rng.exponential(1e5, 100_000).cumsum(), np.ones(100_000)), ACCOUNT, 10
    )
    assert random["arrivals.dispersion"] == pytest.approx(1, abs=0.43)
    assert random["arrivals.ks"] < 1.63
    assert abs(random["arrivals.lag1"]) < 0.02
    even = oracle_values(entries(np.arange(100_000) * 1e5 + 1, np.ones(100_000)), ACCOUNT, 10)
    assert even["arrivals.ks"] > 50


def test_who_was_slower_than_the_patience_is_counted() -> None:
    log = entries(np.arange(1, 101) * 100_000_000, np.ones(100))
    log["due"][[10, 95]] = NEVER
    log["written"][[10, 95]] = 0
    found = oracle_values(log, ACCOUNT, 2)
    assert (found["oracle.slow"], found["oracle.slow_settled"]) == (2, 1)
    assert found["oracle.answered"] == 98


def test_only_connections_with_requests_are_used() -> None:
    log = entries(np.arange(1, 1001) * 1_000_000, np.ones(1000))
    log["connection"] = np.arange(1000) % 3 * 2
    found = oracle_values(log, ACCOUNT, 2)
    assert found["oracle.connections_used"] == 3
    assert found["oracle.fairness"] == pytest.approx(334 / 333)


def test_faults_are_counted_by_kind() -> None:
    log = entries(np.arange(1, 6) * 1_000_000, np.ones(5))
    log["fault"] = [0, 1, 1, 4, 2]
    found = oracle_values(log, ACCOUNT, 2)
    kinds = ("right", "status", "flipped", "reset", "truncated")
    assert [found[f"oracle.{kind}"] for kind in kinds] == [1, 2, 1, 1, 0]


def test_without_requests_nothing_is_known() -> None:
    found = oracle_values(entries([], []), ACCOUNT, 2)
    assert found["oracle.answered"] == 0
    assert "served.p50_ns" not in found
