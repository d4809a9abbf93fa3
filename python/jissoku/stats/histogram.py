"""Latency histograms as a few numbers: which buckets hold answers, and how many.

The library walks through all of a histogram's 27,000 buckets for every percentile; most are empty.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np
from hdrh.histogram import HdrHistogram  # type: ignore[import-untyped]

# As the load generator records them.
LATENCY_NS_MAX = 60_000_000_000
DIGITS = 3

# More than a run has measurements at one load.
DECODED_MAX = 4096


@dataclass(frozen=True, slots=True)
class LatencyDistribution:
    """Answers by bucket.

    Attributes:
        buckets: Indices of those that are not empty, ascending.
        cumulative: How many answers lie in a bucket or below it.
    """

    buckets: np.ndarray
    cumulative: np.ndarray

    @property
    def total(self) -> int:
        """All of them."""
        return int(self.cumulative[-1]) if len(self.cumulative) else 0

    def at(self, fraction: float) -> int:
        """Nanoseconds in which this fraction of the answers came, as HdrHistogram rounds them."""
        if not self.total:
            return 0
        wanted = max(1, int(fraction * self.total + 0.5))
        lowest, highest = _bounds(int(self.buckets[np.searchsorted(self.cumulative, wanted)]))
        return highest if fraction else lowest

    def above(self, value: int) -> int:
        """How many responses took longer than this, at the resolution of the buckets."""
        bucket = _shape().get_counts_array_index(value)
        index = int(np.searchsorted(self.buckets, bucket, side="right"))
        return self.total - (int(self.cumulative[index - 1]) if index else 0)


@lru_cache(maxsize=DECODED_MAX)
def decode(histogram: str) -> LatencyDistribution:
    """What a measurement's histogram holds."""
    whole = HdrHistogram(1, LATENCY_NS_MAX, DIGITS)
    whole.decode_and_add(histogram)
    counts = np.array(whole.counts)
    buckets = np.flatnonzero(counts)
    return LatencyDistribution(buckets, np.cumsum(counts[buckets]))


def merge(parts: Iterable[LatencyDistribution]) -> LatencyDistribution:
    """All answers of several histograms."""
    known = list(parts)
    counts = [np.diff(part.cumulative, prepend=0) for part in known]
    buckets, places = np.unique(np.concatenate([p.buckets for p in known]), return_inverse=True)
    summed = np.bincount(places, weights=np.concatenate(counts), minlength=len(buckets))
    return LatencyDistribution(buckets, np.cumsum(summed.astype(np.int64)))


@cache
def _bounds(bucket: int) -> tuple[int, int]:
    """The lowest and the highest value of a bucket; many histograms share a few hundred buckets."""
    value = int(_shape().get_value_from_index(bucket))
    return value, int(_shape().get_highest_equivalent_value(value))


@cache
def _shape() -> HdrHistogram:
    """An empty one, which knows the values of its buckets."""
    return HdrHistogram(1, LATENCY_NS_MAX, DIGITS)
