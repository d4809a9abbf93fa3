"""The metrics of a trial: the owner of CPU time, and the arms for which a trial counts."""

import pytest
from hypothesis import given, strategies as st

from jissoku.model import ArmMeasurement, CheckOutcome, TrialKind, Workload
from jissoku.model.trial import FailedCheck
from jissoku.model.updated import updated
from tests.inference import factories

SECOND = 1_000_000_000


def arm_measurement(**changes: object) -> ArmMeasurement:
    """Asked for one of three seconds: 10 ms in its own turns, 2 ms while others were asked."""
    whole = factories.arm_measurement(
        "a",
        cpu_ns=12_000_000,
        duration_ns=3 * SECOND,
        active_duration_ns=SECOND,
        slice_cpu_ns=(4_000_000, 6_000_000),
        idle_cpu_ns_per_s=None,
    )
    return updated(whole, **changes)  # type: ignore[arg-type]


def test_background_work_is_what_no_turn_of_its_own_has() -> None:
    assert arm_measurement().background_cpu_ns == 2_000_000
    assert arm_measurement(slice_cpu_ns=(13_000_000,)).background_cpu_ns == 0, (
        "clocks are read one by one"
    )
    assert arm_measurement(cpu_ns=None).background_cpu_ns is None
    assert factories.arm_measurement().background_cpu_ns is None, "no other arm was under load"


@pytest.mark.parametrize(
    ("idle_ns_per_s", "housekeeping_ns"),
    [
        (None, 0),  # not measured
        (0, 0),
        (400_000, 800_000),  # in the two seconds in which others were asked
        (5_000_000, 2_000_000),  # never more than its background work
    ],
)
def test_housekeeping_is_what_it_used_before_its_first_request(
    idle_ns_per_s: int | None, housekeeping_ns: int
) -> None:
    assert arm_measurement(idle_cpu_ns_per_s=idle_ns_per_s).housekeeping_cpu_ns == housekeeping_ns


def test_alone_all_housekeeping_is_its_own() -> None:
    assert factories.arm_measurement(idle_cpu_ns_per_s=9_000_000).housekeeping_cpu_ns == 0


@given(
    st.integers(0, 10**10),
    st.lists(st.integers(0, 10**9), max_size=20),
    st.one_of(st.none(), st.integers(0, 10**9)),
    st.integers(0, 3 * SECOND),
)
def test_housekeeping_never_takes_what_its_own_turns_used(
    cpu_ns: int, turns: list[int], idle_ns_per_s: int | None, asked_ns: int
) -> None:
    found = arm_measurement(
        cpu_ns=cpu_ns,
        slice_cpu_ns=tuple(turns),
        idle_cpu_ns_per_s=idle_ns_per_s,
        active_duration_ns=asked_ns,
    )
    assert 0 <= found.housekeeping_cpu_ns <= (found.background_cpu_ns or 0) <= cpu_ns
    assert cpu_ns - found.housekeeping_cpu_ns >= min(cpu_ns, sum(turns))


def test_an_arm_is_asked_in_its_own_turns_or_all_the_time() -> None:
    assert arm_measurement().active_ns == SECOND
    assert factories.arm_measurement().active_ns == SECOND


WRONG = factories.invalid("b")
DISTURBED = FailedCheck(name="steal", outcome=CheckOutcome.REJECT, message="steal")
ALL_ARMS = FailedCheck(name="window", outcome=CheckOutcome.INVALID, message="other windows")
STAMPED = FailedCheck(name="drift", outcome=CheckOutcome.WARNING, message="not steady", arm="b")


@pytest.mark.parametrize(
    ("kind", "check", "counted"),
    [
        (TrialKind.TIME_SLICED, WRONG, "ac"),
        (TrialKind.TIME_SLICED, DISTURBED, ""),
        (TrialKind.TIME_SLICED, ALL_ARMS, ""),
        (TrialKind.TIME_SLICED, STAMPED, "abc"),
        (TrialKind.PAIRED, WRONG, ""),  # at the same time: an error of one changes the other's cost
        (TrialKind.PAIRED, DISTURBED, ""),
        (TrialKind.PAIRED, STAMPED, "abc"),
    ],
)
def test_the_arms_for_which_a_trial_counts(
    kind: TrialKind, check: FailedCheck, counted: str
) -> None:
    trial = factories.trial(
        kind, *(factories.arm_measurement(name) for name in "abc"), failed_checks=(check,)
    )
    assert "".join(name for name in "abc" if trial.is_valid_for(name)) == counted
    assert trial.is_valid is (check is STAMPED)


def test_a_failed_trial_counts_for_no_arm() -> None:
    trial = factories.failed(TrialKind.TIME_SLICED, "b", "a", "c")
    assert not any(map(trial.is_valid_for, "abc"))


def test_a_paired_trial_loads_its_cores_with_both_arms_requests() -> None:
    workload = Workload(rate_rps=10_000)
    loads = {
        kind: factories.trial(kind, factories.arm_measurement(), workload=workload).load_rps
        for kind in (TrialKind.PAIRED, TrialKind.TIME_SLICED, TrialKind.FIXED_RATE)
    }
    assert loads == {
        TrialKind.PAIRED: 20_000,
        TrialKind.TIME_SLICED: 10_000,
        TrialKind.FIXED_RATE: 10_000,
    }
    assert factories.trial(TrialKind.CLOSED_LOOP, factories.arm_measurement()).load_rps is None
