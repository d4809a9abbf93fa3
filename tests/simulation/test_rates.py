"""How often verdicts are wrong, with few campaigns; `make simulate` counts with many.

Each share is held against its bounds with the tolerance of the binomial distribution at the number
of campaigns: one that lies at a bound fails in one of a thousand series of them. The random numbers
are the same in every run. To show that each test can fail, each kind of error is also injected, and
has to be detected.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache

import pytest
from scipy import stats as distributions  # type: ignore[import-untyped]

from jissoku.inference import ablation, decision, estimate
from jissoku.model import Comparison, Verdict
from tests.simulation.counts import outside, simulated
from tests.simulation.scenarios import SCENARIOS, Bound

BRIEF = {scenario.key: scenario for scenario in SCENARIOS if scenario.brief}


@pytest.mark.parametrize("key", BRIEF)
def test_shares_lie_in_their_bounds(key: str) -> None:
    scenario = BRIEF[key]
    assert not outside(scenario, simulated(scenario, scenario.brief))


Patch = Callable[[pytest.MonkeyPatch], None]


def without_holm(patch: pytest.MonkeyPatch) -> None:
    """Every p-value for itself."""

    def corrected(family: Sequence[Comparison]) -> tuple[tuple[float | None, ...], int]:
        return tuple(one.p_value for one in family), 1

    patch.setattr(decision, "corrected", corrected)
    patch.setattr(decision, "holm", tuple)


def normal_quantiles(patch: pytest.MonkeyPatch) -> None:
    """As if the standard deviation were known."""

    @cache
    def quantile(probability: float, _: int) -> float:
        return float(distributions.norm.ppf(probability))

    patch.setattr(estimate, "_t_quantile", quantile)


def strict_checks(patch: pytest.MonkeyPatch) -> None:
    """A check that reports nearly every difference as a contradiction."""
    patch.setattr(decision, "CHECK_ALPHA", 0.999)
    patch.setattr(decision, "CHECK_SPREAD", 0.0)


def lenient_checks(patch: pytest.MonkeyPatch) -> None:
    """A check that nothing contradicts."""
    patch.setattr(decision, "CHECK_ALPHA", 0.0)


def point_estimates(patch: pytest.MonkeyPatch) -> None:
    """A knob is accepted by its estimate, without regard to the interval."""

    def pays(found: Comparison, verdict: Verdict) -> bool:
        is_lower = found.ratio is not None and found.ratio.value < 1
        return is_lower is (verdict is Verdict.LOWER)

    patch.setattr(ablation, "_pays", pays)


def looks_for_free(patch: pytest.MonkeyPatch) -> None:
    """As if each look were the only one."""

    def critical(blocks: int, _: int, alpha: float) -> float:
        return float(distributions.t.ppf(1 - alpha / 2, blocks - 1)) if blocks > 2 else math.inf

    patch.setattr(estimate, "critical", critical)


def known_spreads(patch: pytest.MonkeyPatch) -> None:
    """As if the spread of a pair were known from the other arms."""
    spread = estimate.Company.spread

    def exact(
        self: estimate.Company, logs: Mapping[int, float], blocks: Sequence[int]
    ) -> estimate.Spread:
        return estimate.Spread(spread(self, logs, blocks).sd, 1000)

    patch.setattr(estimate.Company, "spread", exact)


# What is broken: (the scenario that has to see it, in how many campaigns).
BROKEN: dict[Patch, tuple[str, int]] = {
    without_holm: ("ten equal arms, quick: 45 comparisons, native, Go and Node", 10),
    normal_quantiles: ("two equal arms, six blocks: native", 1200),
    looks_for_free: ("equal arms, a look after every block: two, native, 9 blocks", 60),
    known_spreads: (
        "equal arms, a look after every block: seven, starts of three vary by 16 %, 9 blocks",
        20,
    ),
    strict_checks: ("cross-checks of a right verdict: native, ratio 1.1", 30),
    lenient_checks: ("cross-checks of a wrong verdict: sd 1 %, ratio 1.1, alone 0.88", 10),
    point_estimates: ("four useless knobs: time slices, pair's sd 3 %", 10),
}


@pytest.mark.parametrize("broken", BROKEN, ids=lambda patch: patch.__name__)
def test_what_is_broken_on_purpose_is_seen(broken: Patch, monkeypatch: pytest.MonkeyPatch) -> None:
    key, campaigns = BROKEN[broken]
    (scenario,) = (one for one in SCENARIOS if one.key == key)
    broken(monkeypatch)
    assert outside(scenario, simulated(scenario, campaigns))


def test_claims_without_holm_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    (scenario,) = (one for one in SCENARIOS if "whose bounds are the truth" in one.setting)
    without_holm(monkeypatch)
    assert outside(scenario, simulated(scenario, 50))


@pytest.mark.parametrize(
    ("bound", "share", "campaigns", "allowed"),
    [
        (Bound(0, 0.05), 0.0, 100, True),
        (Bound(0, 0.05), 0.11, 100, True),  # 11 where 5 +- 2.2 are expected
        (Bound(0, 0.05), 0.15, 100, False),
        (Bound(0, 0.05), 0.07, 2000, False),
        (Bound(0.93, 0.97), 0.95, 2000, True),
        (Bound(0.93, 0.97), 0.90, 2000, False),
        (Bound(0.93, 0.97), 0.999, 2000, False),
        (Bound(0.8, 1), 1.0, 50, True),
        (Bound(0.8, 1), 0.5, 50, False),
    ],
)
def test_a_share_is_held_against_its_bounds(
    bound: Bound, share: float, campaigns: int, *, allowed: bool
) -> None:
    assert bound.allows(share, campaigns) is allowed
