"""Bounds of clocks, with injected offsets, delays and drift."""

import random

import pytest
from hypothesis import given, strategies as st

from jissoku.fleet.clock import (
    DRIFT_PPM_MAX,
    ClockBound,
    ClockStep,
    RoundTrip,
    Translation,
    window_edges,
)

HOUR = 3_600_000_000_000
SECOND = 1_000_000_000


def trip(sent_ns: int, there: int, back: int, offset_ns: int) -> RoundTrip:
    """One that takes `there` and `back` on its ways."""
    return RoundTrip(
        sent_ns=sent_ns, there_ns=sent_ns + there + offset_ns, received_ns=sent_ns + there + back
    )


@given(
    st.integers(-HOUR, HOUR),
    st.lists(
        st.tuples(st.integers(1, 10_000_000), st.integers(1, 10_000_000)), min_size=1, max_size=20
    ),
)
def test_the_offset_is_within_its_bound(offset_ns: int, ways: list[tuple[int, int]]) -> None:
    trips = [trip(1000 * at, *both, offset_ns) for at, both in enumerate(ways)]
    bound = ClockBound.of(trips)
    assert abs(bound.offset_ns - offset_ns) <= bound.error_ns
    assert bound.round_trip_ns == min(there + back for there, back in ways)


def test_a_thousand_offsets_are_within_their_bounds_with_delay_on_one_way_alone() -> None:
    rng = random.Random(1)
    for _ in range(1000):
        offset_ns = rng.randint(1_000_000, HOUR) * rng.choice((-1, 1))
        slow = rng.randint(0, 5_000_000)
        ways = [(slow + rng.randint(1, 50_000), rng.randint(1, 50_000)) for _ in range(32)]
        bound = ClockBound.of(trip(0, there, back, offset_ns) for there, back in ways)
        assert abs(bound.offset_ns - offset_ns) <= bound.error_ns


@given(st.integers(-HOUR, HOUR), st.integers(-500, 500), st.integers(0, 100))
def test_instants_between_two_bounds_are_translated_with_the_drift(
    offset_ns: int, drift_ppm: int, part: int
) -> None:
    span_ns = 4 * SECOND

    def there_ns(here_ns: int) -> int:
        return here_ns + offset_ns + here_ns * drift_ppm // 1_000_000

    bounds = [
        ClockBound.of(
            [RoundTrip(sent_ns=at, there_ns=there_ns(at + 30_000), received_ns=at + 100_000)]
        )
        for at in (0, span_ns)
    ]
    translation = Translation(before=bounds[0], after=bounds[1])
    here_ns = span_ns * part // 100
    assert abs(translation.there_ns(here_ns) - there_ns(here_ns)) <= translation.error_ns + 1
    assert translation.error_ns < 60_000


def test_a_clock_that_was_set_is_noticed() -> None:
    before = ClockBound(at_ns=0, offset_ns=0, error_ns=50_000, round_trip_ns=100_000)
    drifted = ClockBound(
        at_ns=SECOND, offset_ns=DRIFT_PPM_MAX * 1000, error_ns=50_000, round_trip_ns=100_000
    )
    Translation(before=before, after=drifted)
    stepped = ClockBound(at_ns=SECOND, offset_ns=5_000_000, error_ns=50_000, round_trip_ns=100_000)
    with pytest.raises(ClockStep, match=r"moved against each other by 5\.000 ms in 1\.000 s"):
        Translation(before=before, after=stepped)


def test_a_window_lies_between_its_events() -> None:
    assert window_edges(100, 1100, 1000) == (100, 1100, 1)
    assert window_edges(100, 1160, 1000) == (130, 1130, 31)
    # A clock that is calibrated to some ppm may count a little more.
    assert window_edges(100, 1099, 1000) == (100, 1100, 1)
