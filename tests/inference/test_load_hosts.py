"""What is said of load hosts that have not sent the same, and that each is judged by itself."""

from typing import Any

import pytest

from jissoku.inference import checks
from jissoku.inference.load_hosts import differing, late_host
from jissoku.model import updated
from jissoku.model.trial import CheckOutcome, LoadHostConditions, MachineConditions, TrialKind
from tests.inference import factories

US, MS = 1_000, 1_000_000


def host(**changes: Any) -> LoadHostConditions:
    known: dict[str, Any] = {
        "requests": 10_000,
        "latency_ns_p50": 1 * MS,
        "lag_ns_p99": 10 * US,
        "longest_stall_ns": 1 * MS,
        "wait_fraction": 0.01,
        "path_ns": 50 * US,
    }
    return LoadHostConditions(**(known | changes))


def seen(*hosts: LoadHostConditions, **changes: Any) -> MachineConditions:
    """Of a load at a given rate, as several load generators are merged."""
    waits = [one.wait_fraction for one in hosts if one.wait_fraction is not None]
    stalls = [one.longest_stall_ns for one in hosts if one.longest_stall_ns is not None]
    known = {
        "generator_wait_fraction": max(waits, default=None),
        "longest_stall_ns": max(stalls, default=None),
        "load_hosts": hosts,
    }
    return updated(factories.QUIET, **(known | changes))


def found(conditions: MachineConditions, kind: TrialKind, **changes: Any) -> dict[str, Any]:
    measured = factories.arm_measurement("a", **changes)
    trial = factories.trial(kind, measured, conditions=conditions)
    return {one.name: one for one in checks.trial_checks(trial)}


def test_a_load_generator_that_was_stopped_rejects_its_trial_beside_one_that_waited() -> None:
    """What one host waited for a core is no reason why another one's did not run."""
    waiting, stopped = host(wait_fraction=0.6), host(longest_stall_ns=500 * MS)
    rejection = found(seen(waiting, stopped), TrialKind.PAIRED)["stall"]
    assert rejection.outcome is CheckOutcome.REJECT
    assert rejection.message == "the load generator of load host 2 did not run for 500.0 ms"
    own = host(longest_stall_ns=500 * MS, wait_fraction=0.6)
    assert "stall" not in found(seen(host(), own), TrialKind.PAIRED), "it waited for its core"


def test_the_host_that_sends_late_is_named_with_its_waiting() -> None:
    slow = host(lag_ns_p99=40 * MS, wait_fraction=0.82)
    conditions = seen(host(), slow)
    late = found(conditions, TrialKind.TIME_SLICED, lag_ns_p99=40 * MS)["late-sends"]
    assert late.message == (
        "a: 1 % of the requests of load host 2 were sent at least 40 ms late: the latencies include"
        " this delay of the load generator, which waited 82.0 % of the time for a core"
    )
    behind = found(conditions, TrialKind.PAIRED, lag_ns_p99=40 * MS, requests=15_000)
    assert behind["rate-not-reached"].message.endswith(
        "requests/s offered; load host 2 sent late, and its load generator waited 82.0 % of the"
        " time for a core"
    )
    alone = found(factories.QUIET, TrialKind.TIME_SLICED, lag_ns_p99=40 * MS)["late-sends"]
    assert alone.message.startswith("a: 1 % of the requests were sent at least 40 ms late: ")


def test_of_an_arm_all_hosts_that_may_have_been_the_latest_are_named() -> None:
    """Of a host only its latest arm is known."""
    conditions = seen(host(lag_ns_p99=9 * MS), host(lag_ns_p99=7 * MS), host(lag_ns_p99=1 * MS))
    assert late_host(conditions, 9 * MS).of == " of load host 1"
    assert late_host(conditions, 7 * MS).of == " of load host 1 or 2"
    assert late_host(factories.QUIET, 7 * MS).of == ""


def test_hosts_that_sent_different_numbers_at_the_same_rate_are_named() -> None:
    fewer = host(requests=8_900)
    assert (
        differing(seen(host(), fewer)) == "load host 2 had 8,900 responses, and load host 1 10,000"
    )
    assert differing(seen(host(), host(requests=9_100))) == ""
    # A closed loop is divided by connections, which need not be as many on each host.
    assert differing(seen(host(), fewer, generator_busy_polls=False)) == ""


def test_hosts_differ_without_their_paths() -> None:
    near, far = host(), host(path_ns=900 * US, latency_ns_p50=1_850 * US)
    assert differing(seen(near, far)) == ""
    slower = host(latency_ns_p50=1_500 * US)
    assert differing(seen(near, far, slower)) == (
        "without its path the median latency of load host 3 was 1.45 ms, and that of load host 1"
        " 950 us"
    )
    assert differing(seen(near)) == ""
    quick = [host(latency_ns_p50=p50, path_ns=20 * US) for p50 in (60 * US, 120 * US)]
    assert differing(seen(*quick)) == "", "wake-ups take as long"
    silent = host(latency_ns_p50=None)
    assert differing(seen(near, silent)) == ""
    assert differing(seen(silent, near, slower)).startswith("without its path")


@pytest.mark.parametrize("lag", [None, 40 * MS])
def test_a_host_without_lateness_is_not_named(lag: int | None) -> None:
    assert late_host(seen(host(lag_ns_p99=None), host(lag_ns_p99=lag)), 50 * MS).of == ""
