"""Every gate as a row: what is wrong with the trial, and what follows."""

from dataclasses import replace

import pytest

from jissoku.model import Consequence, Kind, Reuse, Trial, Workload
from jissoku.stats import gates
from tests.stats import made

STAMP, REJECT, INVALID = Consequence.STAMP, Consequence.REJECT, Consequence.INVALID
GOOD = made.trial(Kind.SOLO_COST, made.lane())
BUSY = replace(made.QUIET, spins=False, generator_busy_fraction=0.7, server_cores_busy_fraction=1.0)


def _lane(**changes: object) -> Trial:
    return made.trial(Kind.SOLO_COST, replace(made.lane(), **changes))  # type: ignore[arg-type]


def _seen(**changes: object) -> Trial:
    return replace(GOOD, conditions=replace(made.QUIET, **changes))  # type: ignore[arg-type]


def _closed(latency_ns: int = 3_200_000, **changes: object) -> Trial:
    """20,000 requests a second over 64 connections: each takes 3.2 ms, says Little's law."""
    latency = replace(made.lane().latency_ns, mean=latency_ns)
    plain = made.lane(latency_ns=latency, rate_rps_offered=None, lag_ns_p99=None)
    return made.trial(Kind.SOLO_RATE, plain, conditions=replace(BUSY, **changes))  # type: ignore[arg-type]


ERRORS = dict.fromkeys(made.ERRORS, 0)
LATENCY = made.lane().latency_ns
CLOSE = Workload(rate_rps=20_000, reuse=Reuse.CLOSE)

CASES = {
    "quiet": (GOOD, None, None),
    "one error": (_lane(errors=ERRORS | {"timeout": 1}), "errors", INVALID),
    "a wrong body": (_lane(errors=ERRORS | {"body": 7}), "errors", INVALID),
    "silence": (_lane(requests=0, rate_rps_offered=None), "no-answers", INVALID),
    "percentiles that fall": (
        _lane(latency_ns=replace(LATENCY, p99=LATENCY.p50 - 1)), "latency-order", INVALID),
    "answers for nothing": (_lane(cpu_ns=0), "no-cpu", INVALID),
    "answers of the kernel's threads": (
        replace(_lane(cpu_ns=0), conditions=replace(
            BUSY, generator_cores=0.9, kernel_cpu_ns=600_000_000)), "no-cpu", STAMP),
    "answers for nothing beside idle threads": (
        replace(_lane(cpu_ns=0), conditions=replace(
            BUSY, generator_cores=0.9, kernel_cpu_ns=9_000_000)), "no-cpu", INVALID),
    "a server started elsewhere": (_lane(cpu_ns=None), None, None),
    "fewer bytes than answers": (_lane(bytes_received=10), "bytes", INVALID),
    "a connection missing": (_lane(connections_opened=63), "connections", INVALID),
    "a connection reopened": (_lane(connections_opened=65), "reconnects", STAMP),
    "no keep-alive": (_lane(connections_opened=20_064), "no-keep-alive", STAMP),
    "kept alive against the order": (replace(GOOD, workload=CLOSE), "reuse", INVALID),
    "closed as ordered": (
        replace(_lane(connections_opened=20_100), workload=CLOSE), None, None),
    "slower than offered": (_lane(requests=19_700), "rate-not-reached", STAMP),
    "nearly as offered": (_lane(requests=19_801), None, None),
    "late": (_lane(lag_ns_p99=51_000), "late-sends", STAMP),
    "late, and slow anyway": (
        _lane(lag_ns_p99=51_000, latency_ns=replace(LATENCY, p50=600_000, p90=600_000,
              p99=600_000, p999=600_000, max=600_000)), None, None),
    "drifting": (_lane(per_second=(5200, 5200, 4800, 4800)), "drift", STAMP),
    "steady": (_lane(per_second=(5020, 4980, 5000, 5000)), None, None),
    "too short to drift": (_lane(per_second=(9000, 11_000)), None, None),
    "Little holds": (_closed(), None, None),
    "more in flight than there are": (_closed(3_400_000), "little", INVALID),
    "starved connections": (_closed(2_900_000), "little", STAMP),
    "steal": (_seen(steal_fraction=0.021), "steal", REJECT),
    "one tick of steal": (_seen(steal_fraction=0.01), None, None),
    "one tick of steal in a long window": (
        replace(_seen(steal_fraction=0.02), window_ns=10_000_000_000), "steal", REJECT),
    "neighbours": (
        _seen(foreign_fraction=0.035, server_cores_busy_fraction=0.96), "foreign", REJECT),
    "rounding of foreign time": (_seen(foreign_fraction=0.02), None, None),
    "neighbours of a core that idles": (
        _seen(foreign_fraction=0.08, server_cores_busy_fraction=0.42), "foreign", REJECT),
    "a kernel that does not say": (
        _seen(steal_fraction=None, foreign_fraction=None, tcp_retransmits=None,
              listen_overflows=None, longest_gap_ns=None, major_faults=None), None, None),
    "a pause": (_seen(longest_gap_ns=10_100_000), "gap", REJECT),
    "a pause of one that waits": (
        _seen(longest_gap_ns=10_100_000, spins=False, generator_busy_fraction=0.2), None, None),
    "retransmits": (_seen(tcp_retransmits=1), "retransmits", REJECT),
    "overflows": (_seen(listen_overflows=1), "overflows", REJECT),
    "overflows at full load": (_closed(listen_overflows=1), "overflows", STAMP),
    "a page from disk": (_seen(major_faults=1), "major-faults", STAMP),
    "a busy stopwatch": (
        _seen(spins=False, generator_busy_fraction=0.85), "generator-busy", STAMP),
    "a spinning stopwatch": (_seen(generator_busy_fraction=1.0), None, None),
    "generator-bound": (_closed(generator_busy_fraction=0.9), "rate-bound", STAMP),
    "idle server": (_closed(server_cores_busy_fraction=0.94), "rate-bound", STAMP),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_each_gate_closes_for_its_reason_alone(case: str) -> None:
    trial, name, consequence = CASES[case]
    found = gates(trial)
    expected = [] if name is None else [(name, consequence)]
    assert [(gate.name, gate.consequence) for gate in found] == expected
    assert all(gate.message for gate in found)


def test_lanes_of_different_windows_are_no_duet() -> None:
    duet = made.trial(Kind.DUET, made.lane("a"), made.lane("b", duration_ns=980_000_000))
    assert [gate.name for gate in gates(duet)] == ["window"]


def test_late_sends_do_not_touch_a_cost() -> None:
    duet = made.trial(Kind.DUET, made.lane("a", lag_ns_p99=900_000), made.lane("b"))
    assert gates(duet) == ()


def test_a_gate_names_the_arm_that_it_is_about() -> None:
    wrong = made.lane("b", errors=ERRORS | {"status": 3})
    (gate,) = gates(made.trial(Kind.DUET, made.lane("a"), wrong))
    assert gate.arm == "b"
    assert "3 status" in gate.message


def test_a_failed_trial_has_nothing_to_check() -> None:
    assert gates(made.failed(Kind.DUET, "a", "b")) == ()
