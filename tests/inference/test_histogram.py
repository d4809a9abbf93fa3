"""Percentiles of histograms compared with the library's own."""

import random

import pytest
from hdrh.histogram import HdrHistogram  # type: ignore[import-untyped]

from jissoku.inference import latency

FRACTIONS = [0.0, 0.001, 0.1, 0.25, 0.5, 0.9, 0.99, 0.999, 1.0]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("count", [1, 10, 300])
def test_percentiles_of_several_are_those_of_the_library(seed: int, count: int) -> None:
    rng = random.Random(seed)
    whole, parts = HdrHistogram(1, 60_000_000_000, 3), []
    for _ in range(3):
        part = HdrHistogram(1, 60_000_000_000, 3)
        for _ in range(count):
            part.record_value(int(10 ** rng.uniform(0, 10.5)))
        whole.add(part)
        parts.append(latency.decode(part.encode().decode()))
    found = latency.merge(parts)
    assert found.total == whole.get_total_count() == 3 * count
    for fraction in FRACTIONS:
        value = found.at(fraction)
        assert value == whole.get_value_at_percentile(100 * fraction), fraction
        if fraction:
            below = sum(
                whole.get_count_at_index(i) for i in range(whole.get_counts_array_index(value) + 1)
            )
            assert found.above(value) == found.total - below


def test_a_histogram_of_another_range_is_read_too() -> None:
    small = HdrHistogram(1, 1_000_000, 2)
    small.record_value(5_000, 10)
    found = latency.decode(small.encode().decode())
    assert found.total == 10
    assert found.at(0.5) == pytest.approx(5_000, rel=0.01)


def test_an_empty_histogram_has_no_percentile() -> None:
    empty = latency.decode(HdrHistogram(1, 60_000_000_000, 3).encode().decode())
    assert (empty.total, empty.at(0.99)) == (0, 0)
