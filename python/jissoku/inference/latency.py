"""Latency percentiles and capacities: over trials, and one logarithm per block.

Each trial's own percentile is the datum, and the average is taken over trials; merged histograms
would count requests as samples. A percentile is reported only where at least a hundred responses of
each block lie above it, or fifty of all blocks.
"""

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import takewhile

from hdrh.histogram import HdrHistogram  # type: ignore[import-untyped]

from jissoku.inference import blocks, estimate
from jissoku.inference.late import np
from jissoku.model import ArmMeasurement, CapacityStep, Load, Method, Run, Trial, TrialKind
from jissoku.model.summary import Metric, Percentile, QuantilePoint

# As the load generator records them.
LATENCY_NS_MAX = 60_000_000_000
DIGITS = 3

# More than a run has measurements at one load.
DECODED_MAX = 4096


@dataclass(frozen=True, slots=True)
class LatencyDistribution:
    """Indices of buckets that hold answers, ascending, and how many lie in each or below it.

    The library walks through all of its 27,000 buckets for every percentile; most are empty.
    """

    buckets: "np.ndarray"
    cumulative: "np.ndarray"

    @property
    def total(self) -> int:
        return int(self.cumulative[-1]) if len(self.cumulative) else 0

    def at(self, fraction: float) -> int:
        """Nanoseconds in which this fraction of the answers came, as HdrHistogram rounds them."""
        if not self.total:
            return 0
        wanted = max(1, int(fraction * self.total + 0.5))
        lowest, highest = self._bounds_of(wanted)
        return highest if fraction else lowest

    def between(self, fraction: float) -> float:
        """Nanoseconds below which a response is with this chance, also if few were slower.

        Between the two responses around it, on a logarithmic scale: Hyndman and Fan, Sample
        Quantiles in Statistical Packages, 1996, definition 8, whose median is nearly unbiased.
        """
        rank = min(max(1.0, (self.total + 1 / 3) * fraction + 1 / 3), float(self.total))
        places = (math.floor(rank), math.ceil(rank))
        below, above = (max(1, self._bounds_of(place)[1]) for place in places)
        return float(below * (above / below) ** (rank % 1))

    def _bounds_of(self, rank: int) -> tuple[int, int]:
        """The nanoseconds of the response of this rank: its bucket; the fastest one has rank 1."""
        return _bounds(int(self.buckets[np.searchsorted(self.cumulative, rank)]))


@lru_cache(maxsize=DECODED_MAX)
def decode(histogram: str) -> LatencyDistribution:
    whole = HdrHistogram(1, LATENCY_NS_MAX, DIGITS)
    whole.decode_and_add(histogram)
    counts = np.array(whole.counts)
    buckets = np.flatnonzero(counts)
    return LatencyDistribution(buckets, np.cumsum(counts[buckets]))


@cache
def _bounds(bucket: int) -> tuple[int, int]:
    """The lowest and the highest value of a bucket; many histograms share a few hundred buckets."""
    value = int(_shape().get_value_from_index(bucket))
    return value, int(_shape().get_highest_equivalent_value(value))


@cache
def _shape() -> HdrHistogram:
    return HdrHistogram(1, LATENCY_NS_MAX, DIGITS)


# Responses of a block that are slower than the percentile.
ABOVE_MIN = 100

# Where a block has fewer: of all blocks together, and of each. How much blocks differ, and not the
# count, says how sure the percentile is.
ABOVE_MIN_OF_ALL = 50
ABOVE_MIN_OF_FEW = 2

# Fewer blocks give no estimate of their variance.
PERCENTILE_BLOCKS_MIN = 3

PERCENTILES = (("p50", 0.50), ("p90", 0.90), ("p99", 0.99), ("p99.9", 0.999))

# Those that claims can name.
FRACTIONS = {"p50": 0.50, "p95": 0.95, "p99": 0.99, "p999": 0.999}

# Points of the curve are evenly spaced in the logarithm of 1 / (1 - fraction), as it is drawn.
POINTS_PER_DECADE = 16
DECADES_MAX = 5


def percentiles(measurements: Mapping[int, ArmMeasurement]) -> tuple[Percentile, ...]:
    """p50 to p99.9 of one arm, from one measurement per block; unsupported ones are omitted."""
    found = (
        (label, fraction, list(log_percentiles(measurements, fraction).values()))
        for label, fraction in PERCENTILES
    )
    return tuple(
        Percentile(
            label=label,
            fraction=fraction,
            median_ns=math.exp(statistics.fmean(logs)),
            estimate_ns=estimate.geometric_mean(logs),
            requests=sum(one.requests for one in measurements.values()),
        )
        for label, fraction, logs in found
        if logs
    )


def log_percentiles(
    measurements: Mapping[int, ArmMeasurement], fraction: float
) -> dict[int, float]:
    """ln(percentile in nanoseconds) by block, in the way that the number of answers allows."""
    (found,) = _log_percentiles([measurements], fraction)
    return found


def _log_percentiles(
    sides: Sequence[Mapping[int, ArmMeasurement]], fraction: float
) -> list[dict[int, float]]:
    """Logarithms of each arm's percentile by block, in the same way for all arms."""
    if all(is_supported(fraction, one.requests) for side in sides for one in side.values()):
        return [
            {block: math.log(max(1, percentile_ns(one, fraction))) for block, one in side.items()}
            for side in sides
        ]
    return [_log_of_few(side, fraction) for side in sides]


def _log_of_few(measurements: Mapping[int, ArmMeasurement], fraction: float) -> dict[int, float]:
    """ln(percentile in nanoseconds) by block, where few responses of a block lie above it.

    Nothing where too few of all blocks do, where blocks are too few, and where one lacks its
    histogram.
    """
    above = [one.requests * (1 - fraction) + 1e-6 for one in measurements.values()]
    if len(above) < PERCENTILE_BLOCKS_MIN or sum(above) < ABOVE_MIN_OF_ALL:
        return {}
    if min(above) < ABOVE_MIN_OF_FEW or not all(one.histogram for one in measurements.values()):
        return {}
    parts = {block: decode(one.histogram) for block, one in measurements.items()}
    return {block: math.log(part.between(fraction)) for block, part in parts.items()}


def is_supported(fraction: float, requests: int) -> bool:
    return requests * (1 - fraction) >= ABOVE_MIN - 1e-6


def percentile_ns(measurement: ArmMeasurement, fraction: float) -> int:
    """A percentile of one window in nanoseconds: as recorded, or from its histogram; 0 without."""
    latency = measurement.latency_ns
    recorded = {0.50: latency.p50, 0.90: latency.p90, 0.99: latency.p99, 0.999: latency.p999}
    if fraction in recorded:
        return recorded[fraction]
    return decode(measurement.histogram).at(fraction) if measurement.histogram else 0


def curve(measurements: Iterable[ArmMeasurement]) -> tuple[QuantilePoint, ...]:
    """At each fraction the median over trials, as far as every trial supports it."""
    known = [decode(measurement.histogram) for measurement in measurements if measurement.histogram]
    if not known:
        return ()
    least = min(answers.total for answers in known)
    steps = range(POINTS_PER_DECADE * DECADES_MAX + 1)
    grid = (1 - 10 ** (-step / POINTS_PER_DECADE) for step in steps)
    return tuple(
        QuantilePoint(
            fraction=fraction,
            latency_ns=float(statistics.median(answers.at(fraction) for answers in known)),
        )
        for fraction in takewhile(lambda fraction: is_supported(fraction, least), grid)
    )


Logs = Mapping[int, float]

METRIC_FRACTIONS = {Metric.P50: 0.50, Metric.P99: 0.99}

# The largest factor between the two rates at which a search ends, where a record does not say.
SEARCH_STEP = 1.05


# The trials with latencies at one load. Paired trials have none: each request of one arm waits for
# the other's.
LATENCY_KINDS = (TrialKind.TIME_SLICED, TrialKind.FIXED_RATE)


def latency_measurements(known: blocks.ValidTrials, arm: str) -> dict[int, ArmMeasurement]:
    """An arm's trials with latencies at one load, by block: time-sliced, or else single-target."""
    return next(filter(None, (_measurements(known, kind, arm) for kind in LATENCY_KINDS)), {})


def _measurements(
    known: blocks.ValidTrials, kind: TrialKind, arm: str
) -> dict[int, ArmMeasurement]:
    found = blocks.measured(known.with_arm(kind, arm), arm)
    return {trial.block: measurement for trial, measurement in found if measurement.requests}


def log_latency_ratios(known: blocks.ValidTrials, metric: Metric, arm: str, against: str) -> Logs:
    """ln(percentile of `arm` / percentile of `against`), by block; empty without enough answers.

    Both arms' percentiles are from trials of one kind, and taken in the same way.
    """
    for kind in LATENCY_KINDS:
        ours, theirs = _measurements(known, kind, arm), _measurements(known, kind, against)
        shared = sorted(ours.keys() & theirs.keys())
        if shared:
            sides = [{block: side[block] for block in shared} for side in (ours, theirs)]
            return blocks.log_differences(*_log_percentiles(sides, METRIC_FRACTIONS[metric]))
    return {}


def log_capacities(trials: Sequence[Trial], arm: str) -> Logs:
    """ln(highest rate that met the objective), by block; without searches that never met it."""
    return {block: math.log(rate) for block, rate, _ in _searches(trials, arm)}


def _searches(
    trials: Sequence[Trial], arm: str
) -> Iterator[tuple[int, int, Sequence[CapacityStep]]]:
    """Block, highest rate that met the objective, and all rates that were tried."""
    for trial in trials:
        if trial.kind is TrialKind.CAPACITY and trial.arms == (arm,) and trial.is_valid:
            found = trial.capacity
            if found is not None and found.rate_rps:
                yield trial.block, found.rate_rps, found.steps


KINDS = {
    Method.TIME_SLICED: TrialKind.TIME_SLICED,
    Method.PAIRED: TrialKind.PAIRED,
    Method.SINGLE: TrialKind.CLOSED_LOOP,
}


def block_costs(run: Run, trials: Sequence[Trial]) -> dict[tuple[Load, str], list[float]]:
    """CPU nanoseconds per request, block by block, by load and arm.

    A paired trial of the reference is one of several in its block: all of them count.
    """
    evidence = blocks.ComparisonInput(
        run, blocks.valid_trials(trials), {}, blocks.loads_of(run, tuple(trials))
    )
    found = {}
    for load in evidence.loads:
        for arm in run.arms:
            costs = evidence.at(load).with_arm(KINDS[run.method], arm.name)
            logs = [blocks.log_cost(trial, arm.name) for trial in costs]
            if values := [math.exp(log) for log in logs if log is not None]:
                found[load, arm.name] = values
    return found


def search_resolution(trials: Sequence[Trial], arm: str, against: str) -> float:
    """By how much ln(capacity ratio) may be off because searches move in steps.

    A search ends between a rate that met the objective and a higher one that did not, and says the
    lower one: it is off by half of their distance on either side of what it says on average. It
    starts at a random place within a step, so that errors of blocks are independent and are a part
    of their spread as well.
    """
    return max(search_step(trials, name) for name in (arm, against)) / 2


def search_step(trials: Sequence[Trial], arm: str) -> float:
    """The mean ln(distance) between the two rates at which each search of an arm ended."""
    gaps = []
    for _, rate, steps in _searches(trials, arm):
        above = [step.rate_rps for step in steps if not step.is_met and step.rate_rps > rate]
        gaps.append(math.log(min(above, default=SEARCH_STEP * rate) / rate))
    return sum(gaps) / len(gaps) if gaps else math.log(SEARCH_STEP)
