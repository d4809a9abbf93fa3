"""Every check as a row: the defect of the trial, and the outcome."""

import math
import random
from collections.abc import Sequence

import pytest
from hypothesis import given, strategies as st
from scipy import stats  # type: ignore[import-untyped]

from jissoku.inference import checks, trial_checks
from jissoku.model import ArmMeasurement, CheckOutcome, ConnectionMode, Trial, TrialKind, Workload
from jissoku.model.summary import ALPHA, Bottleneck
from jissoku.model.trial import TimeSlice
from jissoku.model.updated import updated
from tests.inference import factories
from tests.inference.factories import QUIET

TABLE = [
    # generator, spins, server cores
    (0.50, False, 0.97, Bottleneck.SERVER),
    (0.89, False, 0.95, Bottleneck.SERVER),
    (
        0.95,
        False,
        0.97,
        Bottleneck.GENERATOR,
    ),  # both at their end: nothing is proven for the server
    (0.95, False, 0.40, Bottleneck.GENERATOR),
    (0.50, False, 0.94, Bottleneck.NEITHER),
    (1.00, True, 0.97, Bottleneck.SERVER),
    (1.00, True, 0.50, Bottleneck.NEITHER),
    (0.50, False, None, Bottleneck.UNKNOWN),
]


@pytest.mark.parametrize(("generator", "spins", "server", "expected"), TABLE)
def test_bounds(
    *, generator: float, spins: bool, server: float | None, expected: Bottleneck
) -> None:
    seen = updated(
        QUIET,
        generator_busy_fraction=generator,
        generator_busy_polls=spins,
        server_cores_busy_fraction=server,
    )
    assert checks.bottleneck([seen]) is expected
    assert checks.bottleneck([seen, seen, seen]) is expected


def test_one_odd_trial_does_not_change_the_stamp() -> None:
    usual = updated(
        QUIET,
        generator_busy_polls=False,
        generator_busy_fraction=0.5,
        server_cores_busy_fraction=1.0,
    )
    odd = updated(usual, server_cores_busy_fraction=0.6)
    assert checks.bottleneck([usual, odd, usual]) is Bottleneck.SERVER
    assert checks.bottleneck([]) is Bottleneck.UNKNOWN


def test_three_rates_within_a_per_cent_share_a_ceiling() -> None:
    rates = [("a", 100.0), ("b", 100.5), ("c", 100.9), ("d", 120.0)]
    assert checks.common_ceiling(rates) == ("a", "b", "c")
    assert checks.common_ceiling(rates[1:]) == ()


STAMP, REJECT, INVALID = CheckOutcome.WARNING, CheckOutcome.REJECT, CheckOutcome.INVALID
GOOD = factories.trial(TrialKind.FIXED_RATE, factories.arm_measurement())
BUSY = updated(
    factories.QUIET,
    generator_busy_polls=False,
    generator_busy_fraction=0.7,
    server_cores_busy_fraction=1.0,
)


def _with(**changes: object) -> Trial:
    return factories.trial(TrialKind.FIXED_RATE, updated(factories.arm_measurement(), **changes))  # type: ignore[arg-type]


def _seen(**changes: object) -> Trial:
    return updated(GOOD, conditions=updated(factories.QUIET, **changes))  # type: ignore[arg-type]


def _closed(latency_ns: int = 3_200_000, **changes: object) -> Trial:
    """20,000 requests a second over 64 connections: each takes 3.2 ms, says Little's law."""
    latency = updated(factories.arm_measurement().latency_ns, mean=latency_ns)
    plain = factories.arm_measurement(latency_ns=latency, rate_rps_offered=None, lag_ns_p99=None)
    return factories.trial(TrialKind.CLOSED_LOOP, plain, conditions=updated(BUSY, **changes))  # type: ignore[arg-type]


ERRORS = dict.fromkeys(factories.ERRORS, 0)
LATENCY = factories.arm_measurement().latency_ns
CLOSE = Workload(rate_rps=20_000, connection_mode=ConnectionMode.CLOSE)


def _turns(costs: Sequence[float], arm: str = "a") -> ArmMeasurement:
    """A measurement whose slices cost these nanoseconds."""
    turns = tuple(map(round, costs))
    return factories.arm_measurement(
        arm,
        cpu_ns=sum(turns),
        slice_cpu_ns=turns,
        active_duration_ns=1_000_000_000,
        duration_ns=2_000_000_000,
    )


def _sliced(background_ns: int) -> Trial:
    """Two arms in slices, of which `a` also works in the other's second."""
    worked = _turns([10_000_000] * 8)
    busy = updated(worked, cpu_ns=sum(worked.slice_cpu_ns) + background_ns)
    return factories.trial(TrialKind.TIME_SLICED, busy, _turns([10_000_000] * 8, "b"))


def _on_another_host(*background_ns: int) -> Trial:
    """Two arms, eight slices of an eighth of a second each, and what they did outside of these."""
    one = TimeSlice(
        requests=625, duration_ns=125_000_000, wait_ns=0, runs=1, generator_wait_ns=0,
        rotation_ns=250_000_000, rotation_cpu_ns=10_000_000,
    )  # fmt: skip
    arms = [
        updated(measured, cpu_ns=sum(measured.slice_cpu_ns) + beside_ns, slices=(one,) * 8)
        for measured, beside_ns in zip(
            (_turns([10_000_000] * 8, name) for name in "ab"), background_ns, strict=True
        )
    ]
    seen = updated(factories.QUIET, edge_error_ns=2_000_000)
    return factories.trial(TrialKind.TIME_SLICED, *arms, conditions=seen)


CASES = {
    # At 80 ms of CPU time in a second of slices, 6 ms outside eight of them are 9 ms after each.
    "clocks that agree": (_on_another_host(6_000_000, 6_000_000), None, None),
    "clocks that do not": (_on_another_host(9_000_000, 9_000_000), "clocks", STAMP),
    "one target that works by itself": (_on_another_host(90_000_000, 1_000_000), None, None),
    "a garbage collection in another's slice": (_sliced(99_000_000), None, None),
    "work in another's slices": (_sliced(101_000_000), "shared-cores", INVALID),
    "quiet": (GOOD, None, None),
    "one error": (_with(errors=ERRORS | {"timeout": 1}), "errors", INVALID),
    "a wrong body": (_with(errors=ERRORS | {"body": 7}), "errors", INVALID),
    "silence": (_with(requests=0, rate_rps_offered=None), "no-answers", INVALID),
    "percentiles that fall": (
        _with(latency_ns=updated(LATENCY, p99=LATENCY.p50 - 1)), "latency-order", INVALID),
    "answers for nothing": (_with(cpu_ns=0), "no-cpu", INVALID),
    "answers of the kernel's threads": (
        updated(_with(cpu_ns=0), conditions=updated(
            BUSY, generator_cpu_cores=0.9, kernel_cpu_ns=600_000_000)), "no-cpu", STAMP),
    "answers for nothing beside idle threads": (
        updated(_with(cpu_ns=0), conditions=updated(
            BUSY, generator_cpu_cores=0.9, kernel_cpu_ns=9_000_000)), "no-cpu", INVALID),
    "a server started elsewhere": (_with(cpu_ns=None), None, None),
    "fewer bytes than answers": (_with(bytes_received=10), "bytes", INVALID),
    "a connection missing": (_with(connections_opened=63), "connections", INVALID),
    "a connection reopened": (_with(connections_opened=65), "reconnects", STAMP),
    "no keep-alive": (_with(connections_opened=20_064), "no-keep-alive", STAMP),
    "kept alive against the order": (updated(GOOD, workload=CLOSE), "reuse", INVALID),
    "closed as ordered": (
        updated(_with(connections_opened=20_100), workload=CLOSE), None, None),
    "slower than offered": (_with(requests=19_700), "rate-not-reached", STAMP),
    "nearly as offered": (_with(requests=19_801), None, None),
    "late": (_with(lag_ns_p99=51_000), "late-sends", STAMP),
    "late, and slow anyway": (
        _with(lag_ns_p99=51_000, latency_ns=updated(LATENCY, p50=600_000, p90=600_000,
              p99=600_000, p999=600_000, max=600_000)), None, None),
    "Little holds": (_closed(), None, None),
    "more in flight than there are": (_closed(3_400_000), "little", INVALID),
    "starved connections": (_closed(2_900_000), "little", STAMP),
    "much steal of a busy core": (
        _seen(steal_fraction=0.08, server_cores_busy_fraction=0.95), "steal", STAMP),
    "some steal of a busy core": (
        _seen(steal_fraction=0.021, server_cores_busy_fraction=0.95), "steal", STAMP),
    "steal at wake-ups": (
        _seen(steal_fraction=0.4, server_cores_busy_fraction=0.5), "steal", STAMP),
    "steal without the busy fraction of the core": (
        _seen(steal_fraction=0.021, server_cores_busy_fraction=None), "steal", STAMP),
    "edges that were read late on another host": (
        _seen(edge_error_ns=10**9), "edges", STAMP),
    "edges that were read in time": (_seen(edge_error_ns=1_000_000), None, None),
    "one tick of steal": (
        _seen(steal_fraction=0.01, server_cores_busy_fraction=0.95), None, None),
    "one tick of steal in a long window": (
        updated(_seen(steal_fraction=0.052, server_cores_busy_fraction=0.95),
                window_ns=10_000_000_000), "steal", STAMP),
    "neighbours": (
        _seen(foreign_fraction=0.035, server_cores_busy_fraction=0.96), "foreign", STAMP),
    "rounding of foreign time": (_seen(foreign_fraction=0.02), None, None),
    "neighbours of a core that idles": (
        _seen(foreign_fraction=0.08, server_cores_busy_fraction=0.42), "foreign", STAMP),
    "a kernel that does not say": (
        _seen(steal_fraction=None, foreign_fraction=None, tcp_retransmits=None,
              listen_overflows=None, longest_gap_ns=None, longest_stall_ns=None,
              major_faults=None), None, None),
    "pages that were felt": (_seen(viewer_cpu_ns=2_000_000), "watched", STAMP),
    "pages that were silent": (_seen(viewer_cpu_ns=900_000), None, None),
    "a stopped load generator": (_seen(longest_stall_ns=100_100_000), "stall", REJECT),
    "a short stall": (_seen(longest_stall_ns=99_900_000), None, None),
    "one that waited for its core": (
        _seen(longest_stall_ns=300_000_000, generator_wait_fraction=0.21), None, None),
    "one that waited, and was stopped": (
        _seen(longest_stall_ns=300_000_000, generator_wait_fraction=0.19), "stall", REJECT),
    "one that the host did not run": (
        _seen(longest_stall_ns=300_000_000, steal_fraction=0.21,
              server_cores_busy_fraction=0.5), "steal", STAMP),
    "a stall of one that waits": (
        _seen(longest_stall_ns=500_000_000, generator_busy_polls=False,
              generator_busy_fraction=0.2),
        None, None),
    "a server that answers nothing for a while": (_seen(longest_gap_ns=900_000_000), None, None),
    "retransmits": (
        _seen(tcp_segments=9_000, tcp_retransmits=10), "retransmits", STAMP),
    "a few retransmits": (_seen(tcp_segments=9_000, tcp_retransmits=9), None, None),
    "retransmits of an unknown number": (_seen(tcp_retransmits=1), "retransmits", STAMP),
    "a retransmission that was waited for": (
        _seen(tcp_segments=9_000, tcp_retransmits=1, tcp_timeouts=1), "retransmits", STAMP),
    "overflows": (_seen(listen_overflows=1), "overflows", STAMP),
    "overflows at full load": (_closed(listen_overflows=1), "overflows", STAMP),
    "a page from disk": (_seen(major_faults=1), "major-faults", STAMP),
    "a busy generator": (
        _seen(generator_busy_polls=False, generator_busy_fraction=0.85), "generator-busy", STAMP),
    "a spinning generator": (_seen(generator_busy_fraction=1.0), None, None),
    "generator-bound": (_closed(generator_busy_fraction=0.9), "rate-bound", STAMP),
    "idle server": (_closed(server_cores_busy_fraction=0.94), "rate-bound", STAMP),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_each_check_fails_for_its_reason_only(case: str) -> None:
    trial, name, consequence = CASES[case]
    found = trial_checks(trial)
    expected = [] if name is None else [(name, consequence)]
    assert [(check.name, check.outcome) for check in found] == expected
    assert all(check.message for check in found)


RAN_ON_ITS_CORES = "other programs that ran on the server's cores"
ELSEWHERE = "a part of it on other cores"


@pytest.mark.parametrize(
    ("fraction", "sentence"),
    [
        (0.087, "other programs used 8.7 % of the time of the server's cores"),
        (1.186, f"{RAN_ON_ITS_CORES} used 1.19 times the time of these cores, {ELSEWHERE}"),
    ],
)
def test_no_more_than_all_of_the_cores_is_a_share_of_them(fraction: float, sentence: str) -> None:
    (found,) = trial_checks(_seen(foreign_fraction=fraction))
    assert found.message == sentence


def test_measurements_of_different_windows_are_no_paired_trial() -> None:
    pair = factories.trial(
        TrialKind.PAIRED,
        factories.arm_measurement("a"),
        factories.arm_measurement("b", duration_ns=980_000_000),
    )
    assert [check.name for check in trial_checks(pair)] == ["window"]


def _noisy(turns: int, seed: int, *, drift: float = 0.0, sd: float = 0.02) -> list[float]:
    """Costs that rise by `drift` from the first turn to the last, beside noise."""
    rng = random.Random(f"{turns}/{seed}")
    return [
        1e7 * (1 + drift * turn / (turns - 1)) * math.exp(rng.gauss(0, sd)) for turn in range(turns)
    ]


def _drifts(turns: int, *, drift: float = 0.0, sd: float = 0.02) -> int:
    """In how many of 200 trials the check sees a drift."""
    trials = [
        factories.trial(TrialKind.TIME_SLICED, _turns(_noisy(turns, seed, drift=drift, sd=sd)))
        for seed in range(200)
    ]
    return sum("drift" in [check.name for check in trial_checks(trial)] for trial in trials)


@pytest.mark.parametrize("turns", [8, 20, 60])
def test_a_cost_that_rises_through_the_window_is_a_drift(turns: int) -> None:
    assert _drifts(turns, drift=0.20) >= 195, "the halves are ten per cent apart"
    trial = factories.trial(TrialKind.TIME_SLICED, _turns(_noisy(turns, 1, drift=0.2)))
    (found,) = trial_checks(trial)
    assert (found.name, found.outcome, found.arm) == ("drift", STAMP, "a")
    assert "changed by +" in found.message


@pytest.mark.parametrize("turns", [8, 20, 60])
@pytest.mark.parametrize("sd", [0.005, 0.05, 0.2])
def test_noise_alone_is_no_drift(turns: int, sd: float) -> None:
    # 1 % of 200 is 2 +- 1.4; what is below two per cent is none in any case.
    assert _drifts(turns, sd=sd) <= 2 + 4 * 1.4


def test_a_drift_of_a_per_cent_is_none_however_sure() -> None:
    assert _drifts(60, drift=0.02, sd=0.001) == 0


def test_a_drift_needs_enough_turns_to_be_seen() -> None:
    assert trial_checks(factories.trial(TrialKind.TIME_SLICED, _turns([1e7] * 3 + [2e7] * 4))) == ()
    (found,) = trial_checks(factories.trial(TrialKind.TIME_SLICED, _turns([1e7] * 4 + [2e7] * 4)))
    assert found.name == "drift"


def test_an_offered_rate_is_held_against_an_arms_own_turns() -> None:
    """Asked for half of the window, an arm answers half of what the rate says of all of it."""
    measurement = factories.arm_measurement(
        "a", duration_ns=2_000_000_000, active_duration_ns=1_000_000_000
    )
    assert trial_checks(factories.trial(TrialKind.TIME_SLICED, measurement)) == ()
    slow = updated(measurement, requests=19_000)
    assert [check.name for check in trial_checks(factories.trial(TrialKind.TIME_SLICED, slow))] == [
        "rate-not-reached"
    ]


def test_late_sends_do_not_touch_a_cost() -> None:
    pair = factories.trial(
        TrialKind.PAIRED,
        factories.arm_measurement("a", lag_ns_p99=900_000),
        factories.arm_measurement("b"),
    )
    assert trial_checks(pair) == ()


def test_a_check_names_its_arm() -> None:
    wrong = factories.arm_measurement("b", errors=ERRORS | {"status": 3})
    (check,) = trial_checks(
        factories.trial(TrialKind.PAIRED, factories.arm_measurement("a"), wrong)
    )
    assert check.arm == "b"
    assert "3 status" in check.message


def test_a_failed_trial_has_nothing_to_check() -> None:
    assert trial_checks(factories.failed(TrialKind.PAIRED, "a", "b")) == ()


def trials(arm: str, count: int, rejected: int, *, rate: int = 20_000) -> list[Trial]:
    """Trials of one arm alone, the first ones disturbed."""
    one = factories.trial(
        TrialKind.FIXED_RATE, factories.arm_measurement(arm), workload=Workload(rate_rps=rate)
    )
    return [factories.rejected(one) if index < rejected else one for index in range(count)]


@given(st.integers(1, 15), st.integers(1, 15), st.data())
def test_one_load_is_fishers_exact_test(ours: int, rest: int, data: st.DataObject) -> None:
    of_ours, of_rest = (data.draw(st.integers(0, count)) for count in (ours, rest))
    table = [[of_ours, ours - of_ours], [of_rest, rest - of_rest]]
    expected = stats.fisher_exact(table).pvalue < ALPHA / 2
    mixed = trials("a", ours, of_ours) + trials("b", rest, of_rest)
    assert ("a" in checks.uneven_rejection(mixed, ["a", "b"])) == expected


def test_an_arm_that_provokes_rejection_is_named_with_its_counts() -> None:
    found = checks.uneven_rejection(trials("a", 12, 8) + trials("b", 12, 0), ["a", "b"])
    assert found["a"].startswith("8 of 12 of its trials of cost were rejected, of the others' 0 of")
    assert set(found) == {"a", "b"}


def test_loads_that_are_disturbed_more_often_are_nobodys_fault() -> None:
    """The slow arm has most of its trials where half of all trials are disturbed."""
    slow = trials("slow", 20, 10, rate=1_000) + trials("slow", 2, 0)
    fast = trials("fast", 4, 2, rate=1_000) + trials("fast", 20, 0)
    assert checks.uneven_rejection(slow + fast, ["slow", "fast"]) == {}
    as_one = [updated(t, workload=Workload(rate_rps=1_000)) for t in slow + fast]
    assert set(checks.uneven_rejection(as_one, ["slow", "fast"])) == {"slow", "fast"}


def test_small_signs_at_several_loads_add_up() -> None:
    rates = (1_000, 2_000, 5_000, 10_000, 20_000)
    each = [trials("a", 6, 3, rate=rate) + trials("b", 6, 0, rate=rate) for rate in rates]
    assert checks.uneven_rejection(each[0], ["a", "b"]) == {}
    whole = [trial for one in each for trial in one]
    assert set(checks.uneven_rejection(whole, ["a", "b"])) == {"a", "b"}


def test_arms_of_every_trial_have_no_comparison() -> None:
    together = factories.trial(
        TrialKind.TIME_SLICED, factories.arm_measurement("a"), factories.arm_measurement("b")
    )
    assert checks.uneven_rejection([factories.rejected(together)] * 9, ["a", "b"]) == {}
