"""Reports of several load generators as one: nothing is lost, and nothing is averaged."""

import random
from typing import Any

import pytest
from hdrh.histogram import HdrHistogram  # type: ignore[import-untyped]

from jissoku.fleet.merging import DIGITS, LATENCY_NS_MAX, MergeError, merged

MS = 1_000_000


def target(latencies: list[int], **changes: Any) -> dict[str, Any]:
    """What a load generator reports of these latencies."""
    histogram = HdrHistogram(1, LATENCY_NS_MAX, DIGITS)
    for latency in latencies:
        histogram.record_value(latency)
    known = {
        "requests": len(latencies),
        "errors": {"timeout": 0, "status": 1},
        "duration_ns": 1_000 * MS,
        "rate_rps_offered": 500.0,
        "lag_ns_p99": 3_000,
        "latency_ns": {"min": min(latencies), "max": max(latencies)} if latencies else None,
        "latency_sum_ns": sum(latencies),
        "histogram": histogram.encode().decode("ascii"),
        "per_second": [len(latencies)],
        "connections_opened": 4,
        "bytes_received": 10 * len(latencies),
        "slices": None,
    }
    return known | changes


def report(*targets: dict[str, Any], **changes: Any) -> dict[str, Any]:
    known = {
        "threads": [{"cpu_ns": 5, "busy_fraction": 0.5}],
        "longest_gap_ns": 9 * MS,
        "longest_stall_ns": None,
        "targets": list(targets),
    }
    return known | changes


def counts(encoded: str) -> list[int]:
    found = HdrHistogram(1, LATENCY_NS_MAX, DIGITS)
    found.decode_and_add(encoded)
    return list(found.counts)


def test_a_stream_that_is_split_at_random_is_whole_again() -> None:
    rng = random.Random(20)
    for number in range(60):
        latencies = [round(rng.lognormvariate(13, 2)) + 1 for _ in range(rng.randint(1, 400))]
        parts: list[list[int]] = [[] for _ in range(rng.randint(1, 5))]
        for latency in latencies:
            rng.choice(parts).append(latency)
        (found,) = merged([report(target(part)) for part in parts])["targets"]
        (whole,) = merged([report(target(latencies))])["targets"]
        assert counts(found["histogram"]) == counts(target(latencies)["histogram"]), number
        assert found["latency_ns"] == whole["latency_ns"]
        assert found["latency_ns"]["mean"] == sum(latencies) // len(latencies)
        assert (found["latency_ns"]["min"], found["latency_ns"]["max"]) == (
            min(latencies),
            max(latencies),
        )
        assert found["requests"] == len(latencies)


def test_counts_are_added_and_the_latest_host_counts_for_lateness() -> None:
    one = target([5 * MS] * 3, per_second=[2, 1], errors={"timeout": 2, "status": 0})
    two = target([7 * MS], duration_ns=1_001 * MS, lag_ns_p99=90_000, per_second=[1])
    found = merged(
        [
            report(one, longest_gap_ns=4 * MS, longest_stall_ns=6),
            report(two, longest_gap_ns=8 * MS, longest_stall_ns=5),
        ]
    )
    assert (found["longest_gap_ns"], found["longest_stall_ns"]) == (4 * MS, 6)
    assert len(found["threads"]) == 2
    (both,) = found["targets"]
    assert both["errors"] == {"timeout": 2, "status": 1}
    assert (both["rate_rps_offered"], both["lag_ns_p99"]) == (1_000.0, 90_000)
    assert (both["duration_ns"], both["per_second"]) == (1_001 * MS, [3, 1])
    assert (both["connections_opened"], both["bytes_received"]) == (8, 40)


def test_without_a_response_there_is_no_latency() -> None:
    silent = merged([report(target([])), report(target([]))])["targets"][0]
    assert (silent["requests"], silent["latency_ns"]) == (0, None)
    one = merged([report(target([])), report(target([4 * MS]))])["targets"][0]
    assert one["latency_ns"]["max"] == 4 * MS
    closed = merged([report(target([4 * MS], rate_rps_offered=None, lag_ns_p99=None))])
    assert closed["targets"][0]["rate_rps_offered"] is None
    assert closed["targets"][0]["lag_ns_p99"] is None


def slices(*began_ns: int, **changes: int | None) -> list[dict[str, Any]]:
    known = {"requests": 10, "duration_ns": 50 * MS, "generator_wait_ns": 3, "rotation_ns": 110}
    return [known | {"began_ns": one} | changes for one in began_ns]


def test_a_slice_ends_with_the_last_response_to_any_host_and_all_have_waited() -> None:
    one = target([MS], slices=slices(60, 170))
    two = target([MS], slices=slices(60, 170, duration_ns=52 * MS, generator_wait_ns=4))
    (both,) = merged([report(one), report(two)])["targets"]
    assert [part["began_ns"] for part in both["slices"]] == [60, 170]
    assert [part["requests"] for part in both["slices"]] == [20, 20]
    assert {part["duration_ns"] for part in both["slices"]} == {52 * MS}
    assert {part["generator_wait_ns"] for part in both["slices"]} == {7}
    assert both["slice_duration_ns"] == 104 * MS
    unknown = target([MS], slices=slices(60, 170, generator_wait_ns=None))
    (both,) = merged([report(one), report(unknown)])["targets"]
    assert {part["generator_wait_ns"] for part in both["slices"]} == {None}


@pytest.mark.parametrize("others", [slices(60), slices(60, 171), None])
def test_slices_at_other_times_are_refused(others: list[dict[str, Any]] | None) -> None:
    with pytest.raises(MergeError, match="different times"):
        merged([report(target([MS], slices=slices(60, 170))), report(target([MS], slices=others))])


def test_a_load_of_other_targets_is_refused() -> None:
    with pytest.raises(MergeError, match="targets"):
        merged([report(target([MS])), report(target([MS]), target([MS]))])
