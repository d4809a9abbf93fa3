"""Knobs that are judged by the rate at full load: more workers cost no less CPU per request.

Servers and stopwatch share all cores here, since a machine that gives the server one core has no
use for a second worker. Such a rate says something of the server only where the stopwatch's part of
the cores is small.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace

from jissoku.model import Comparison, Counts, Kind, Run, Source, Trial, Verdict
from jissoku.stats import estimate, multiple, trial_counters
from jissoku.stats.readings import Readings, differences, lane_of, readings
from jissoku.stats.summary import barred
from jissoku.stats.verdict import MINIMUM_EFFECT_SOLO, judge

# A server this many times as dear as the stopwatch leaves it a sixth of the cores at the most.
TIMES_MIN = 5.0


def against_baseline(run: Run, trials: Sequence[Trial]) -> dict[str, Comparison]:
    """Every arm's time per answer over the baseline's; below 1 is the higher rate."""
    known, out = readings(trials), barred(run, trials)
    names = [arm.name for arm in run.arms if arm.name != run.baseline]
    found = {}
    for name in names:
        doubt = next((out[one] for one in (name, run.baseline) if one in out), None)
        if doubt is not None:
            found[name] = Comparison(
                arm=name, against=run.baseline, verdict=doubt[0], remarks=(doubt[1],)
            )
        else:
            found[name] = _compared(known, name, run, len(names))
    return found


def _compared(known: Readings, name: str, run: Run, comparisons: int) -> Comparison:
    ratios = differences(_times(known, name), _times(known, run.baseline))
    logs = [ratios[block] for block in sorted(ratios)]
    judgement = judge(logs, MINIMUM_EFFECT_SOLO)
    blank = Comparison(
        arm=name,
        against=run.baseline,
        verdict=judgement.verdict,
        source=Source.SOLO,
        connections=run.workload.connections,
        minimum_effect=MINIMUM_EFFECT_SOLO,
        blocks_needed=judgement.blocks_needed,
        remarks=(judgement.remark,) if judgement.remark else (),
    )
    return _with_interval(blank, logs, comparisons) if len(logs) >= 2 else blank


def _with_interval(blank: Comparison, logs: list[float], comparisons: int) -> Comparison:
    wide = estimate.t_interval(logs, multiple.confidence(comparisons))
    surely = wide.low > 0 or wide.high < 0
    return replace(
        blank,
        proven=blank.verdict.tells_apart and surely,
        ratio=estimate.as_ratio(estimate.t_interval(logs), logs),
        p_value=estimate.t_test(logs),
        p_sign_flip=estimate.sign_flip(logs),
    )


def _times(known: Readings, arm: str) -> Mapping[int, float]:
    """ln(seconds per answer) of each closed loop, by block."""
    found = {}
    for trial in known.with_arm(Kind.SOLO_RATE, arm):
        lane = lane_of(trial, arm)
        if lane is not None and lane.requests:
            found[trial.block] = math.log(lane.duration_ns / lane.requests / 1e9)
    return found


def counters(trials: Sequence[Trial], arm: str) -> Counts:
    """What an arm's closed loops counted; no system calls are counted at full load."""
    return Counts(
        requests=0,
        per_request=trial_counters.of(trials, Kind.SOLO_RATE, arm),
        calls_reason="it could not be seen at full load",
    )


def times_the_stopwatch(run: Run, trials: Sequence[Trial]) -> float | None:
    """How many times the stopwatch's CPU the baseline takes, at the least; None if not seen."""
    threads = min(len(run.cores.stopwatch), run.workload.connections)
    found = []
    for trial in readings(trials).with_arm(Kind.SOLO_RATE, run.baseline):
        lane, seen = lane_of(trial, run.baseline), trial.conditions
        if lane is not None and lane.cpu_ns is not None and seen is not None:
            # In older records the busiest thread is known; none of the others takes more.
            cores = seen.generator_cores
            cores = seen.generator_busy_fraction * threads if cores is None else cores
            found.append(lane.cpu_ns / (cores * lane.duration_ns) if cores else math.inf)
    return statistics.median(found) if found else None


def doubted(comparison: Comparison, times: float | None) -> Comparison:
    """Takes the verdict away from a rate at full load that says nothing of the server."""
    if comparison.ratio is None or (times is not None and times >= TIMES_MIN):
        return comparison
    reason = "the target's CPU time could not be seen"
    if times is not None:
        reason = (
            f"the target costs only {times:.1f} times as much as the stopwatch that shares its"
            f" cores, and {TIMES_MIN:g} times is the least: ask for something dearer, such as a"
            " large answer that is compressed"
        )
    return replace(comparison, verdict=Verdict.INVALID, proven=False, remarks=(reason,))
