"""Latency percentiles over trials, and the shape of the whole distribution.

Each trial's own percentile is the datum, and the average is taken over trials; merged histograms
would count requests as samples. A percentile is told only where at least a hundred answers lie
above it.
"""

import math
import statistics
from collections.abc import Iterable, Iterator, Sequence

from hdrh.histogram import HdrHistogram  # type: ignore[import-untyped]

from jissoku.model import Lane, Percentile, Point
from jissoku.stats import estimate

ABOVE_MIN = 100

PERCENTILES = (("p50", 0.50), ("p90", 0.90), ("p99", 0.99), ("p99.9", 0.999))

# Points of the curve are evenly spaced in the logarithm of 1 / (1 - fraction), as it is drawn.
POINTS_PER_DECADE = 16
DECADES_MAX = 5


def percentiles(lanes: Iterable[Lane]) -> tuple[Percentile, ...]:
    """p50 to p99.9 of one arm, from one lane per trial; those without support are left out."""
    known = list(lanes)
    return tuple(_percentiles(known))


def _percentiles(lanes: Sequence[Lane]) -> Iterator[Percentile]:
    for label, fraction in PERCENTILES:
        values = [_recorded(lane, label) for lane in lanes if is_supported(fraction, lane.requests)]
        if values and all(value > 0 for value in values):
            yield Percentile(
                label=label,
                fraction=fraction,
                median_ns=float(statistics.median(values)),
                estimate_ns=estimate.level([math.log(value) for value in values]),
            )


def is_supported(fraction: float, requests: int) -> bool:
    """Whether so many requests leave enough above this fraction to tell where it lies."""
    return requests * (1 - fraction) >= ABOVE_MIN - 1e-6


def _recorded(lane: Lane, label: str) -> int:
    latency = lane.latency_ns
    return {"p50": latency.p50, "p90": latency.p90, "p99": latency.p99, "p99.9": latency.p999}[
        label
    ]


def curve(lanes: Iterable[Lane]) -> tuple[Point, ...]:
    """At each fraction the median over trials, as far as every trial supports it."""
    histograms = [HdrHistogram.decode(lane.histogram) for lane in lanes if lane.histogram]
    counts = [histogram.get_total_count() for histogram in histograms]
    if not counts:
        return ()
    found = []
    for fraction in _grid():
        if not is_supported(fraction, min(counts)):
            break
        values = [h.get_value_at_percentile(100 * fraction) for h in histograms]
        found.append(Point(fraction=fraction, latency_ns=float(statistics.median(values))))
    return tuple(found)


def _grid() -> Iterator[float]:
    for step in range(POINTS_PER_DECADE * DECADES_MAX + 1):
        yield 1 - 10 ** (-step / POINTS_PER_DECADE)
