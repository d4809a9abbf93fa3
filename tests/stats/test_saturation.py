"""What held a rate down, as a table."""

from dataclasses import replace

import pytest

from jissoku.model import Bound
from jissoku.stats import saturation
from tests.stats.made import QUIET

TABLE = [
    # stopwatch, spins, server cores
    (0.50, False, 0.97, Bound.SERVER),
    (0.89, False, 0.95, Bound.SERVER),
    (0.95, False, 0.97, Bound.GENERATOR),  # both at their end: nothing is proven for the server
    (0.95, False, 0.40, Bound.GENERATOR),
    (0.50, False, 0.94, Bound.NEITHER),
    (1.00, True, 0.97, Bound.SERVER),
    (1.00, True, 0.50, Bound.NEITHER),
    (0.50, False, None, Bound.UNKNOWN),
]


@pytest.mark.parametrize(("stopwatch", "spins", "server", "expected"), TABLE)
def test_bounds(*, stopwatch: float, spins: bool, server: float | None, expected: Bound) -> None:
    seen = replace(
        QUIET,
        generator_busy_fraction=stopwatch,
        spins=spins,
        server_cores_busy_fraction=server,
    )
    assert saturation.bound(seen) is expected
    assert saturation.bound_of_all([seen, seen, seen]) is expected


def test_one_odd_trial_does_not_change_the_stamp() -> None:
    usual = replace(QUIET, spins=False, generator_busy_fraction=0.5, server_cores_busy_fraction=1.0)
    odd = replace(usual, server_cores_busy_fraction=0.6)
    assert saturation.bound_of_all([usual, odd, usual]) is Bound.SERVER
    assert saturation.bound_of_all([]) is Bound.UNKNOWN


def test_three_rates_within_a_per_cent_share_a_ceiling() -> None:
    rates = [("a", 100.0), ("b", 100.5), ("c", 100.9), ("d", 120.0)]
    assert saturation.common_ceiling(rates) == ("a", "b", "c")
    assert saturation.common_ceiling(rates[1:]) == ()
