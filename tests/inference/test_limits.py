"""Limits of servers themselves, from what trials show of them."""

from typing import Any

import pytest

from jissoku.inference import checks
from jissoku.inference.limits import server_limits
from jissoku.inference.run_warnings import report_warnings
from jissoku.model import Latency, MachineConditions, Match, Trial, TrialKind, Workload
from jissoku.model.summary import Severity
from jissoku.model.updated import updated
from tests.inference import factories

MS = 1_000_000
IDLE = updated(
    factories.QUIET,
    generator_busy_polls=False,
    generator_busy_fraction=0.1,
    server_cores_busy_fraction=0.05,
)


def latency(p50_ms: float, *, least_ms: float | None = None) -> Latency:
    p50 = round(p50_ms * MS)
    least = p50 if least_ms is None else round(least_ms * MS)
    return Latency(p50=p50, p90=p50, p99=p50, p999=p50, max=p50, mean=p50, min=least)


def closed(rate: int, took: Latency, conditions: MachineConditions = IDLE, **changes: Any) -> Trial:
    """A closed loop of one second with 64 connections."""
    one = factories.arm_measurement(
        "slow", requests=rate, rate_rps_offered=None, latency_ns=took, **changes
    )
    return factories.trial(TrialKind.CLOSED_LOOP, one, conditions=conditions)


def paced(took: Latency, **changes: Any) -> Trial:
    one = factories.arm_measurement("slow", latency_ns=took, **changes)
    return factories.trial(TrialKind.FIXED_RATE, one, workload=Workload(rate_rps=10))


def said(*trials: Trial) -> list[str]:
    checked = [updated(trial, failed_checks=checks.trial_checks(trial)) for trial in trials]
    return [f"{one.text}: {one.remedy}" for one in server_limits(checked, ["slow", "absent"])]


def test_a_full_listen_queue_is_the_servers_own_limit() -> None:
    took = latency(3)
    (found,) = said(
        closed(5_000, took, listen_limit=5, listen_drops=620),
        closed(5_000, took, listen_limit=5, listen_drops=4),
    )
    assert "its listen queue holds 5 connections, and 624 connections were one too many" in found
    assert "-c 5" in found
    assert said(closed(5_000, latency(12.8), listen_limit=5, listen_drops=0)) == []


@pytest.mark.parametrize(
    ("trials", "expected"),
    [
        ([closed(1_535, latency(44)), paced(latency(0.06))], "acknowledgements:"),
        ([closed(1_535, latency(44))], "acknowledgements, unless it waits itself:"),
        ([closed(1_255, latency(51)), paced(latency(51))], ""),
    ],
    ids=["prompt after a pause", "always as long", "a handler of 51 ms"],
)
def test_an_answer_after_forty_milliseconds(trials: list[Trial], expected: str) -> None:
    found = said(*trials)
    assert all(expected in one for one in found)
    assert bool(found) is bool(expected)


def test_a_queue_of_forty_milliseconds_is_no_delayed_acknowledgement() -> None:
    late = latency(46, least_ms=0.05)
    spread = updated(late, p90=88 * MS, p99=109 * MS, p999=120 * MS, max=120 * MS)
    assert said(paced(spread), paced(latency(0.06))) == [], "others used its core for a while"
    at_once = paced(latency(0.06))
    delayed = latency(40, least_ms=0.05)
    assert said(paced(delayed, lag_ns_p99=52 * MS), at_once) == [], "the host took the core"
    assert said(paced(delayed, lag_ns_p99=MS), at_once) != []
    busy = updated(IDLE, server_cores_busy_fraction=0.99)
    works = closed(1_400, late, busy, cpu_ns=640 * MS)
    assert said(works, paced(latency(1))) == [], "64 requests of 0.46 ms wait for each other"
    closing = closed(1_400, late, connections_opened=1_464)
    assert all("acknowledgements" not in one for one in said(closing, paced(latency(1))))


def test_one_thread_that_waits_works_on_one_request_at_a_time() -> None:
    one_thread = closed(20, latency(3_200, least_ms=50)), paced(latency(50))
    (found,) = said(*one_thread)
    assert found.startswith("works on 1 request at a time, and waits in them")
    (pool,) = said(closed(80, latency(800, least_ms=50)), paced(latency(50)))
    assert pool.startswith("works on 4 requests at a time")
    assert said(closed(1_280, latency(50)), paced(latency(50))) == [], "a thread for each"


@pytest.mark.parametrize(
    "conditions",
    [
        updated(IDLE, server_cores_busy_fraction=0.99),
        updated(IDLE, foreign_fraction=0.7),
        updated(IDLE, target_wait_fraction=0.2),
        updated(IDLE, steal_fraction=0.2),
        updated(IDLE, server_cores_busy_fraction=None),
    ],
    ids=["it computes", "others use its core", "it waits for its core", "the host does", "unknown"],
)
def test_a_server_whose_cores_are_in_use_does_not_wait(conditions: MachineConditions) -> None:
    assert said(closed(20, latency(3_200), conditions), paced(latency(50))) == []


def test_a_server_that_serves_one_connection_only() -> None:
    (found,) = said(closed(20_000, latency(0.05)))
    assert found.startswith("serves 1 of 64 connections at a time, and the others wait")


def test_a_connection_for_each_request() -> None:
    (found,) = said(closed(5_000, latency(12.8), connections_opened=5_064))
    assert found.startswith("closes the connection after every answer")


def test_requests_without_an_answer() -> None:
    errors = dict.fromkeys(factories.ERRORS, 0) | {"timeout": 63}
    (found,) = said(paced(latency(1), errors=errors))
    assert found.startswith("left 63 requests without an answer until the time-out")


def test_a_report_names_what_to_do_and_what_says_more() -> None:
    run = factories.sliced(["slow", "go"], workload=Workload(path="/x", match=Match.JSON))
    trial = closed(5_000, latency(3), listen_limit=5, listen_drops=7)
    (found,) = [one for one in report_warnings(run, [trial], [], []) if one.remedy]
    assert found.severity is Severity.WARNING
    assert found.title.startswith("slow turned connections away")
    assert found.remedy.startswith("Listen with a longer queue")
    assert found.next_command == "jissoku explain slow --path /x --match json"


def test_memory_in_swap_is_a_limit_if_it_is_read_back() -> None:
    took, mib = latency(12.8), 1 << 20
    (found,) = said(
        closed(5_000, took, swap_bytes=300 * mib, major_faults=40),
        closed(5_000, took, swap_bytes=200 * mib, major_faults=2),
    )
    assert found.startswith("has up to 300 MiB in swap, and waited for 42 pages under load: more")
    assert said(closed(5_000, took, swap_bytes=300 * mib, major_faults=0)) == []
    assert said(closed(5_000, took, swap_bytes=0, major_faults=40)) == [], "files of the program"
