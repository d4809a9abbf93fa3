"""When the network to load hosts, and not a server, is called the limit."""

from typing import Any

import pytest

from jissoku.inference import checks
from jissoku.inference.path import is_path_bound, losses, mostly_path
from jissoku.inference.run_warnings import _of_warnings
from jissoku.model import updated
from jissoku.model.summary import Bottleneck, Severity
from jissoku.model.trial import (
    Capacity,
    CapacityStep,
    LoadHostConditions,
    MachineConditions,
    Trial,
    TrialKind,
)
from tests.inference import factories

US, MS = 1_000, 1_000_000


def host(**changes: Any) -> LoadHostConditions:
    known: dict[str, Any] = {"requests": 100, "latency_ns_p50": 1 * MS, "path_ns": 50 * US}
    return LoadHostConditions(**(known | changes))


def seen(*hosts: LoadHostConditions, **changes: Any) -> MachineConditions:
    known: dict[str, Any] = {
        "generator_busy_fraction": 0.2,
        "generator_busy_polls": False,
        "server_cores_busy_fraction": 0.3,
    }
    return MachineConditions(**(known | {"load_hosts": hosts} | changes))


SLOW = host(path_ns_loaded=600 * US)


@pytest.mark.parametrize(
    ("conditions", "bound"),
    [
        (seen(), Bottleneck.NEITHER),
        (seen(host(), host()), Bottleneck.NEITHER),
        (seen(host(), SLOW), Bottleneck.PATH),
        (seen(host(path_ns=500 * US)), Bottleneck.PATH),
        (seen(host(path_ns=None)), Bottleneck.NEITHER),
        # A server that is busy all the time is the limit, whatever is before it.
        (seen(SLOW, server_cores_busy_fraction=0.97), Bottleneck.SERVER),
        (seen(SLOW, generator_busy_fraction=0.97), Bottleneck.GENERATOR),
        (seen(SLOW, server_cores_busy_fraction=None), Bottleneck.PATH),
        (seen(host(), server_cores_busy_fraction=None), Bottleneck.UNKNOWN),
    ],
)
def test_a_rate_is_bound_by_the_path_where_requests_spend_their_time(
    conditions: MachineConditions, bound: Bottleneck
) -> None:
    assert checks.bottleneck([conditions]) is bound
    # One trial of three says nothing.
    assert checks.bottleneck([conditions, seen(), seen()]) is not Bottleneck.PATH


def messages(trial: Trial) -> dict[str, str]:
    return {one.name: one.message for one in checks.trial_checks(trial)}


def closed_loop(conditions: MachineConditions) -> Trial:
    measured = factories.arm_measurement("a", rate_rps_offered=None, lag_ns_p99=None)
    return factories.trial(TrialKind.CLOSED_LOOP, measured, conditions=conditions)


def test_a_closed_loop_says_so_with_its_figures() -> None:
    found = messages(closed_loop(seen(host(), SLOW)))
    assert found["path"] == (
        "path-bound: a round trip through the network took 600 us, 50 us without load, of a median"
        " latency of 1 ms"
    )
    assert found["rate-bound"].startswith("path-bound: this rate says nothing")
    assert "path" not in messages(closed_loop(seen(host())))
    busy = seen(SLOW, server_cores_busy_fraction=0.97)
    assert "path" not in messages(closed_loop(busy))


def test_latencies_at_a_rate_say_so_for_the_arm_whose_they_are() -> None:
    fast, slow = (
        factories.arm_measurement(name, latency_ns=factories.histogram(p50, 1)[0])
        for name, p50 in (("fast", 700 * US), ("slow", 20 * MS))
    )
    conditions = seen(host(path_ns=400 * US))
    trial = factories.trial(TrialKind.TIME_SLICED, fast, slow, conditions=conditions)
    found = [one for one in checks.trial_checks(trial) if one.name == "path"]
    assert [one.arm for one in found] == ["fast"]
    assert "of the path: a round trip through the network took 400 us" in found[0].message
    assert mostly_path(conditions, slow) == ""
    assert mostly_path(seen(), fast) == ""


def test_a_capacity_says_so_by_the_lowest_rate_that_missed() -> None:
    path = "a round trip through the network took 9 ms, of a median latency of 11 ms"
    steps = (
        CapacityStep(rate_rps=8_000, is_met=False, path=""),
        CapacityStep(rate_rps=1_000, is_met=True, path=path),
        CapacityStep(rate_rps=2_000, is_met=False, path=path),
    )
    searched = Capacity(objective="p99<10ms", rate_rps=1_000, steps=steps)
    trial = factories.trial(TrialKind.CAPACITY, conditions=None, capacity=searched)
    assert messages(trial) == {"path": f"the capacity is path-bound: {path}"}
    unhindered = updated(searched, steps=(*steps[:2], updated(steps[2], path="")))
    assert messages(updated(trial, capacity=unhindered)) == {}


def test_lost_segments_are_those_of_a_host() -> None:
    lossy = host(tcp_segments=10_000, tcp_retransmits=3)
    assert list(losses(seen(host(), lossy))) == [
        "load host 2: 3 TCP segments of 10,000 were retransmitted"
    ]
    late = host(tcp_segments=10_000, tcp_retransmits=3, tcp_timeouts=2)
    assert list(losses(seen(late))) == ["load host 1: a TCP retransmission timer expired 2 times"]
    # One of a short load is less than is known.
    one = host(tcp_segments=10_000, tcp_retransmits=1)
    many = host(tcp_segments=10_000_000, tcp_retransmits=90)
    assert list(losses(seen(one, many))) == []


def sliced(conditions: MachineConditions) -> dict[str, str]:
    measured = factories.arm_measurement("a")
    return messages(factories.trial(TrialKind.TIME_SLICED, measured, conditions=conditions))


def test_time_slices_of_a_rate_over_a_network_with_losses_are_said_to_be_no_measurement() -> None:
    """In one place, with what each end has lost: a loss holds a slice, and delays those after."""
    lossy = host(tcp_segments=10_000, tcp_retransmits=3, tcp_timeouts=2)
    both = seen(host(), lossy, tcp_segments=20_000, tcp_retransmits=30, round_trip_ns=1 * MS)
    found = sliced(both)
    assert found["lossy-slices"] == (
        "the servers' host: 30 TCP segments of 20,000 were retransmitted; load host 2: a TCP"
        " retransmission timer expired 2 times: each loss holds a time slice, and those after it"
        " begin late"
    )
    assert not {"path-losses", "retransmits"} & set(found)
    here = sliced(seen(tcp_timeouts=1, round_trip_ns=1 * MS))["lossy-slices"]
    assert here.startswith("the servers' host: a TCP retransmission timer expired once: ")
    # On one machine nothing is lost for long, and a closed loop waits with one connection alone.
    assert "retransmits" in sliced(seen(tcp_timeouts=1))
    assert {"path-losses", "retransmits"} <= set(messages(closed_loop(both)))
    assert "lossy-slices" not in sliced(seen(host(), round_trip_ns=1 * MS, tcp_segments=9_000))


def test_the_report_says_what_to_do_about_them() -> None:
    measured = factories.arm_measurement("a")
    lossy = seen(host(tcp_timeouts=2), round_trip_ns=1 * MS)
    trial = factories.trial(TrialKind.TIME_SLICED, measured, conditions=lossy)
    checked = updated(trial, failed_checks=checks.trial_checks(trial))
    (found,) = [one for one in _of_warnings([checked], {}) if "time slices" in one.title.lower()]
    assert found.severity is Severity.WARNING
    assert "--closed-loop" in found.remedy
    assert "expired 2 times" in found.text


def test_a_host_without_a_response_is_not_path_bound() -> None:
    assert not is_path_bound(seen(host(latency_ns_p50=None)))
