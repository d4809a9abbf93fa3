"""Knobs that are judged by the rate at full load: more workers cost no less CPU per request.

Servers and load generator share all cores here, since a machine that gives the server one core has
no use for a second worker. Such a rate says something of the server only where the load generator's
part of the cores is small.
"""

import math
import statistics
from collections.abc import Mapping, Sequence

from jissoku.model import (
    Comparison,
    CounterReadings,
    EvidenceSource,
    Metric,
    Run,
    Trial,
    TrialKind,
    Verdict,
)
from jissoku.model.updated import updated
from jissoku.stats import decision, trial_counters
from jissoku.stats.decision import Decided
from jissoku.stats.summary import excluded_arms
from jissoku.stats.valid_trials import ValidTrials, log_differences, measurement_of, valid_trials
from jissoku.stats.verdict import MINIMUM_EFFECT_OF_METRIC

# With a server this many times as expensive, the load generator has at most a sixth of the cores.
GENERATOR_HEADROOM_MIN = 5.0


def against_baseline(run: Run, trials: Sequence[Trial]) -> dict[str, Comparison]:
    """Every arm's time per answer over the baseline's; below 1 is the higher rate."""
    known, out = valid_trials(trials), excluded_arms(run, trials)
    names = [arm.name for arm in run.arms if arm.name != run.baseline]
    found = decision.settle([_compared(known, name, run, out) for name in names])
    return {one.arm: one for one in found}


def _compared(
    known: ValidTrials, name: str, run: Run, excluded: Mapping[str, tuple[Verdict, str]]
) -> Decided:
    blank = Comparison(
        arm=name,
        against=run.baseline,
        verdict=Verdict.INCONCLUSIVE,
        metric=Metric.TIME,
        source=EvidenceSource.SINGLE,
        connections=run.workload.connections,
        minimum_effect=MINIMUM_EFFECT_OF_METRIC[Metric.TIME],
    )
    doubt = next((excluded[one] for one in (name, run.baseline) if one in excluded), None)
    if doubt is not None:
        return Decided(updated(blank, verdict=doubt[0], remarks=(doubt[1],)))
    return decision.decide(blank, log_differences(_times(known, name), _times(known, run.baseline)))


def _times(known: ValidTrials, arm: str) -> Mapping[int, float]:
    """ln(seconds per answer) of each closed loop, by block."""
    found = {}
    for trial in known.with_arm(TrialKind.CLOSED_LOOP, arm):
        measurement = measurement_of(trial, arm)
        if measurement is not None and measurement.requests:
            found[trial.block] = math.log(measurement.duration_ns / measurement.requests / 1e9)
    return found


def counters(trials: Sequence[Trial], arm: str) -> CounterReadings:
    """What an arm's closed loops counted; no system calls are counted at full load."""
    return CounterReadings(
        requests=0,
        per_request=trial_counters.of(trials, TrialKind.CLOSED_LOOP, arm),
        syscalls_reason="it could not be seen at full load",
    )


def generator_headroom(run: Run, trials: Sequence[Trial]) -> float | None:
    """Smallest CPU time of the baseline over the load generator's; None if not available."""
    threads = min(len(run.cores.generator), run.workload.connections)
    found = []
    for trial in valid_trials(trials).with_arm(TrialKind.CLOSED_LOOP, run.baseline):
        measurement, seen = measurement_of(trial, run.baseline), trial.conditions
        if measurement is not None and measurement.cpu_ns is not None and seen is not None:
            # In older records the busiest thread is known; none of the others takes more.
            cores = seen.generator_cpu_cores
            cores = seen.generator_busy_fraction * threads if cores is None else cores
            found.append(
                measurement.cpu_ns / (cores * measurement.duration_ns) if cores else math.inf
            )
    return statistics.median(found) if found else None


def with_generator_doubt(comparison: Comparison, times: float | None) -> Comparison:
    """Takes the verdict away from a rate at full load that says nothing of the server."""
    if comparison.ratio is None or (times is not None and times >= GENERATOR_HEADROOM_MIN):
        return comparison
    reason = "the target's CPU time could not be seen"
    if times is not None:
        reason = (
            f"the target costs only {times:.1f} times as much as the load generator that shares its"
            f" cores, and {GENERATOR_HEADROOM_MIN:g} times is the least: ask for something dearer,"
            f" such as a"
            " large answer that is compressed"
        )
    return updated(comparison, verdict=Verdict.INVALID, proven=False, remarks=(reason,))
