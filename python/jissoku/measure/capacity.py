"""Searches the highest rate at which a target meets an objective, with one short load per step."""

import subprocess
from collections.abc import Callable
from dataclasses import dataclass

from hdrh.histogram import HdrHistogram  # type: ignore[import-untyped]

from jissoku.measure import loadgen
from jissoku.measure.loadgen import LoadSpec
from jissoku.model import CapacityStep, CoreAssignment
from jissoku.model.wording import plural
from jissoku.request.param_types import OBJECTIVE

# The fraction of the offered requests that must have been answered.
ACHIEVED_MIN = 0.99

# Duration of a step: at least the first, long enough for this many requests, at most the last.
STEP_NS = 200_000_000
STEP_REQUESTS = 1_000
STEP_NS_MAX = 800_000_000
STEP_WARMUP_NS = 50_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """Of all requests at most `fraction_above` take longer than `limit_ns` from their due time."""

    limit_ns: int
    fraction_above: float = 0.01

    @classmethod
    def parse(cls, text: str) -> "Objective":
        """Reads `p99<10ms`, whose form is checked already."""
        found = OBJECTIVE.fullmatch(text)
        assert found, text
        scale = {"us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}[found[3]]
        return cls(
            limit_ns=round(float(found[2]) * scale),
            fraction_above=round(1 - float(found[1]) / 100, 6),
        )

    @property
    def text(self) -> str:
        """In the format of `jissoku load --slo`."""
        return f"p{100 * (1 - self.fraction_above):g}<{self.limit_ns / 1e6:g}ms"


def step(
    spec: LoadSpec,
    cores: CoreAssignment,
    objective: Objective,
    *,
    started: Callable[[subprocess.Popen[str]], object],
) -> CapacityStep:
    """Runs the load at its rate for a short step, and evaluates the objective.

    Raises:
        LoadgenError: No answer was counted.
    """
    rate = spec.workload.rate_rps
    assert rate is not None, "a capacity is a rate"
    measurements, _ = loadgen.run_load(spec, cores, started=started)
    (measurement,) = measurements
    failed = sum(measurement.errors.values())
    achieved = measurement.requests / (measurement.duration_ns / 1e9) / rate
    above = _fraction_above(measurement.histogram, objective.limit_ns)
    if failed:
        return CapacityStep(
            rate_rps=rate, is_met=False, reason=f"{failed} {plural(failed, 'request')} failed"
        )
    if achieved < ACHIEVED_MIN:
        reason = f"{100 * achieved:.1f} % of the requests offered were answered"
        return CapacityStep(rate_rps=rate, is_met=False, reason=reason)
    if above > objective.fraction_above:
        reason = f"{100 * above:.1f} % took longer than {objective.limit_ns / 1e6:g} ms"
        return CapacityStep(rate_rps=rate, is_met=False, reason=reason)
    return CapacityStep(rate_rps=rate, is_met=True)


def window_ns(rate_rps: int) -> int:
    """Duration of a step at this rate, in nanoseconds."""
    return min(STEP_NS_MAX, max(STEP_NS, STEP_REQUESTS * 1_000_000_000 // max(1, rate_rps)))


def _fraction_above(histogram: str, limit_ns: int) -> float:
    known = HdrHistogram.decode(histogram)
    total = known.get_total_count()
    if not total:
        return 1.0
    within = sum(
        int(value.count_added_in_this_iter_step)
        for value in known.get_recorded_iterator()
        if value.value_iterated_to <= limit_ns
    )
    return float(1 - within / total)
