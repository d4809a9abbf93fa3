"""The model recovers injected parameters, and predicts nothing without support."""

import math

import pytest
from hypothesis import given, settings, strategies as st

from jissoku.inference.sweep import fit
from tests.sweep.factories import LEVELS, Truth, rates


@pytest.mark.parametrize("contention", [0.0, 0.02, 0.3])
@pytest.mark.parametrize("coherency", [0.0, 1e-4, 1e-2])
def test_an_injected_law_is_recovered_exactly_without_noise(
    contention: float, coherency: float
) -> None:
    model = fit(rates(Truth(contention=contention, coherency=coherency)))
    assert model.contention.value == pytest.approx(contention, abs=1e-8)
    assert model.coherency.value == pytest.approx(coherency, abs=1e-9)
    assert model.max_residual < 1e-6
    assert model.is_adequate


@pytest.mark.parametrize("seed", range(5))
def test_an_injected_law_lies_in_its_intervals_under_noise(seed: int) -> None:
    model = fit(rates(Truth(contention=0.05, coherency=1e-3, noise=0.05), seed=seed))
    assert model.contention.low < 0.05 < model.contention.high
    assert model.coherency.low < 1e-3 < model.coherency.high
    assert model.peak is not None
    assert model.peak.low < math.sqrt(0.95 / 1e-3) < model.peak.high


@pytest.mark.slow
@pytest.mark.parametrize("truth", [Truth(noise=0.05), Truth(contention=0.05, noise=0.05)])
def test_no_peak_is_reported_for_a_target_that_has_none(truth: Truth) -> None:
    text = [fit(rates(truth, blocks=3, seed=seed)).peak for seed in range(20)]
    assert text.count(None) >= 19
    model = fit(rates(truth, seed=1))
    assert "includes zero" in model.peak_reason


@pytest.mark.slow
def test_intervals_cover_the_truth_as_often_as_they_promise() -> None:
    covered = 0
    for seed in range(60):
        model = fit(rates(Truth(contention=0.05, coherency=1e-3, noise=0.05), blocks=4, seed=seed))
        covered += model.coherency.low <= 1e-3 <= model.coherency.high
    # Of 60 at 95 %, 52 or more are seen in 99 of 100 such tests.
    assert covered >= 52


def test_a_block_that_lacks_levels_does_not_bend_the_law() -> None:
    found = rates(Truth(contention=0.05, coherency=1e-3, block=0.3))
    for level in (32, 64, 128):
        del found[level][2]
    model = fit(found)
    assert model.contention.value == pytest.approx(0.05, rel=1e-6)
    assert model.coherency.value == pytest.approx(1e-3, rel=1e-6)


def test_a_target_that_follows_another_model_has_no_prediction() -> None:
    # Nothing waits up to eight, and from there on nothing more is answered: a queue, and no USL.
    found = rates(Truth(noise=0.01, block=0.0))
    for level in (16, 32, 64, 128):
        found[level] = {block: log - math.log(level / 8) for block, log in found[level].items()}
    model = fit(found, at=(100,))
    assert not model.is_adequate
    assert model.peak is None
    assert "does not describe" in model.peak_reason
    assert model.predictions[0].rate_rps is None


def test_a_forecast_is_given_near_the_levels_only() -> None:
    truth = Truth(contention=0.05, coherency=1e-4, noise=0.01, block=0.01)
    near, far = fit(rates(truth), at=(200, 300)).predictions
    assert near.rate_rps is not None
    assert near.rate_rps.low < truth.rate(200) < near.rate_rps.high
    assert far.rate_rps is None
    assert "extrapolate" in far.reason


def test_a_forecast_that_is_too_wide_is_not_given() -> None:
    (found,) = fit(rates(Truth(noise=0.3, block=0.3), blocks=3), at=(200,)).predictions
    assert found.rate_rps is None
    assert "run more blocks" in found.reason


def test_a_peak_far_beyond_the_levels_is_not_given() -> None:
    model = fit(rates(Truth(coherency=1e-5, noise=0.0, block=0.0)))
    assert model.coherency.low > 0
    assert model.peak is None
    assert "beyond 2 times" in model.peak_reason


def test_too_few_levels_are_refused() -> None:
    with pytest.raises(ValueError, match="3 levels"):
        fit(rates(Truth(), levels=(1, 2, 3)))


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.floats(0.0, 2.0), min_size=8, max_size=8),
    st.floats(1.0, 1e6),
    st.integers(0, 2**31),
)
def test_rising_rates_give_bounded_parameters_and_the_same_law_twice(
    steps: list[float], first: float, seed: int
) -> None:
    # Any rates that never fall: whatever their shape, a and b stay at least zero, and finite.
    log, found = math.log(first), {}
    for level, step in zip(LEVELS, steps, strict=True):
        log += step
        found[level] = {0: log, 1: log + 0.01, 2: log - 0.01}
    model = fit(found, seed=seed)
    for span in (model.contention, model.coherency):
        assert 0 <= span.low <= span.value <= span.high < math.inf
    assert model == fit(found, seed=seed)


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(st.floats(0.0, 0.5), st.floats(1.1, 4.0))
def test_more_contention_is_seen_as_more(contention: float, times: float) -> None:
    more = contention * times + 0.01
    one = fit(rates(Truth(contention=contention), blocks=2))
    other = fit(rates(Truth(contention=more), blocks=2))
    assert one.contention.value < other.contention.value
