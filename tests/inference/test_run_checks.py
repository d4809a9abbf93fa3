"""Rejection must be blind."""

from hypothesis import given, strategies as st
from scipy import stats  # type: ignore[import-untyped]

from jissoku.inference import checks
from jissoku.model import Trial, TrialKind, Workload
from jissoku.model.updated import updated
from tests.inference import factories


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
    expected = stats.fisher_exact(table).pvalue < checks.ALPHA / 2
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
