"""The bottleneck of a rate, as a table."""

import pytest

from jissoku.inference import checks
from jissoku.model import Bottleneck
from jissoku.model.updated import updated
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
    assert checks.bottleneck(seen) is expected
    assert checks.common_bottleneck([seen, seen, seen]) is expected


def test_one_odd_trial_does_not_change_the_stamp() -> None:
    usual = updated(
        QUIET,
        generator_busy_polls=False,
        generator_busy_fraction=0.5,
        server_cores_busy_fraction=1.0,
    )
    odd = updated(usual, server_cores_busy_fraction=0.6)
    assert checks.common_bottleneck([usual, odd, usual]) is Bottleneck.SERVER
    assert checks.common_bottleneck([]) is Bottleneck.UNKNOWN


def test_three_rates_within_a_per_cent_share_a_ceiling() -> None:
    rates = [("a", 100.0), ("b", 100.5), ("c", 100.9), ("d", 120.0)]
    assert checks.common_ceiling(rates) == ("a", "b", "c")
    assert checks.common_ceiling(rates[1:]) == ()
