"""From a sweep's records to its summary: what each level brought, and the law behind them."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from jissoku.model import (
    Arm,
    Axis,
    Bound,
    Climb,
    Flag,
    Lane,
    Law,
    Run,
    Rung,
    Span,
    Status,
    Sweep,
    SweepSummary,
    Trial,
    Weight,
)
from jissoku.stats import campaign, estimate, latency, saturation, scalability
from jissoku.stats.gate import ACHIEVED_MIN, GENERATOR_BUSY_MAX
from jissoku.stats.readings import lane_of
from jissoku.stats.standing import count

# A law has three parameters, and an interval needs blocks.
LEVELS_MIN = 6
BLOCKS_MIN = 3

LABELS = ("p50", "p99")


def summarise(run: Run, sweep: Sweep, trials: Sequence[Trial]) -> SweepSummary:
    """Answers a sweep; the same summary for the same records, always."""
    trials = tuple(sorted(trials, key=lambda trial: trial.index))
    climbs = tuple(_climb(run, sweep, arm, trials) for arm in run.arms)
    return SweepSummary(
        run=run,
        sweep=sweep,
        climbs=climbs,
        flags=tuple(_flags(run, sweep, climbs)),
        trials_total=len(trials),
        trials_counted=sum(trial.counts for trial in trials),
        trials_rejected=sum(map(campaign.is_rejected, trials)),
    )


def _climb(run: Run, sweep: Sweep, arm: Arm, trials: Sequence[Trial]) -> Climb:
    ours = [trial for trial in trials if trial.level is not None and trial.arms == (arm.name,)]
    by_level: dict[int, dict[int, Trial]] = {}
    for trial in ours:
        assert trial.level is not None, "others were left out above"
        row = by_level.setdefault(trial.level, {})
        if trial.counts:
            row.setdefault(trial.block, trial)
    counted = count(trials, arm.name)
    measured = any(by_level.values())
    broken = counted.status if counted.status is not Status.MEASURED else Status.UNMEASURED
    rungs, fitted = [], {}
    for level, row in sorted(by_level.items()):
        rates = _fittable(run, sweep, level, row, arm.name)
        rung = _rung(run, sweep, level, row, arm.name)
        if len(rates) >= BLOCKS_MIN:
            fitted[level] = rates
        rungs.append(replace(rung, fitted=len(rates) >= BLOCKS_MIN))
    law, reason = _law(run, sweep, fitted)
    climb = Climb(
        arm=arm,
        status=Status.MEASURED if measured else broken,
        rungs=tuple(rungs),
        law=law,
        reason=reason,
        sustained_rps=_sustained(sweep, rungs),
        breakdowns=counted.breakdowns,
    )
    return replace(climb, sentence=_sentence(sweep, climb))


def _fittable(
    run: Run, sweep: Sweep, level: int, row: Mapping[int, Trial], name: str
) -> dict[int, float]:
    """Logarithms of the rates that say something of the target, by block."""
    if sweep.axis is Axis.RATE or run.cores.shared or _crowded(run, sweep, level):
        return {}
    found = {}
    for block, trial in row.items():
        lane = lane_of(trial, name)
        if lane is not None and lane.requests and not _held_by_client(trial):
            found[block] = _log_rate(lane)
    return found


def _held_by_client(trial: Trial) -> bool:
    """Whether the stopwatch may have been what the rate was bound by."""
    seen = trial.conditions
    busy = seen is not None and not seen.spins and seen.generator_busy_fraction > GENERATOR_BUSY_MAX
    return busy or any(gate.name == "little" for gate in trial.gates)


def _crowded(run: Run, sweep: Sweep, level: int) -> bool:
    return sweep.axis is Axis.WORKERS and level > len(run.cores.server)


def _log_rate(lane: Lane) -> float:
    return math.log(lane.requests / lane.duration_ns * 1e9)


def _rung(run: Run, sweep: Sweep, level: int, row: Mapping[int, Trial], name: str) -> Rung:
    trials = [trial for _, trial in sorted(row.items())]
    lanes = [lane for trial in trials if (lane := lane_of(trial, name)) is not None]
    costs = [math.log(lane.cpu_ns / lane.requests) for lane in lanes if lane.cpu_ns]
    achieved = [
        lane.requests / (lane.duration_ns / 1e9) / lane.rate_rps_offered
        for lane in lanes
        if lane.rate_rps_offered and lane.duration_ns
    ]
    return Rung(
        level=level,
        blocks=len(trials),
        rate_rps=estimate.level([_log_rate(lane) for lane in lanes]),
        cost_ns=estimate.level(costs),
        percentiles=tuple(one for one in latency.percentiles(lanes) if one.label in LABELS),
        bound=_bound(sweep, trials),
        achieved=min(achieved) if achieved else None,
        remarks=tuple(_remarks(run, sweep, level, trials)),
    )


def _bound(sweep: Sweep, trials: Sequence[Trial]) -> Bound:
    if sweep.axis is Axis.RATE:
        return Bound.UNKNOWN
    return saturation.bound_of_all(trial.conditions for trial in trials if trial.conditions)


def _remarks(run: Run, sweep: Sweep, level: int, trials: Sequence[Trial]) -> Iterator[str]:
    if len(trials) < BLOCKS_MIN:
        yield f"{len(trials) or 'none'} of its blocks count, and {BLOCKS_MIN} are needed"
    if _crowded(run, sweep, level):
        yield f"more workers than the {len(run.cores.server)} cores the server had"
    if sweep.axis is not Axis.RATE:
        held = sum(map(_held_by_client, trials))
        if held:
            yield f"the stopwatch was near its limit in {held} of {len(trials)} blocks"
    stamps = Counter(gate.message for trial in trials for gate in trial.gates)
    names = {gate.message: gate.name for trial in trials for gate in trial.gates}
    told: set[str] = set()
    for message in stamps:
        if names[message] in ("rate-not-reached", "late-sends", "drift", "overflows"):
            if names[message] not in told:
                yield message
            told.add(names[message])


def _law(run: Run, sweep: Sweep, fitted: scalability.Rates) -> tuple[Law | None, str]:
    if sweep.axis is Axis.RATE:
        return None, "a rate that is given has no law of scaling: see what was sustained"
    if run.cores.shared:
        return None, "servers and stopwatch shared cores, so the stopwatch's share would be fitted"
    if len(fitted) < LEVELS_MIN:
        return None, (
            f"{len(fitted)} levels can be fitted and {LEVELS_MIN} are needed; each level's remarks"
            " say why"
        )
    try:
        return scalability.fit(fitted, at=sweep.at, seed=run.seed), ""
    except ValueError as error:
        return None, str(error)


def _sustained(sweep: Sweep, rungs: Sequence[Rung]) -> int | None:
    """The highest level up to which every block of every level answered what was offered."""
    if sweep.axis is not Axis.RATE:
        return None
    best = None
    for rung in rungs:
        if rung.blocks < BLOCKS_MIN or rung.achieved is None or rung.achieved < ACHIEVED_MIN:
            return best
        best = rung.level
    return best


def _sentence(sweep: Sweep, climb: Climb) -> str:
    name = climb.arm.name
    if climb.status is not Status.MEASURED:
        why = climb.breakdowns[0].reason if climb.breakdowns else "no trial of it counts"
        return f"{name} gave no number: {why}"
    if sweep.axis is Axis.RATE:
        return _sustained_sentence(climb)
    if climb.law is None:
        return f"{name}: no law was fitted, because {climb.reason}"
    law = climb.law
    text = (
        f"{name}: contention {_percent(law.contention)}, coherency {_parts(law.coherency)} per"
        f" million"
    )
    if law.peak is not None:
        rate = next(y for x, y in _at(law))
        text += (
            f"; highest at {law.peak.value:,.0f} [{law.peak.low:,.0f}, {law.peak.high:,.0f}]"
            f" {sweep.axis}, about {rate:,.0f} requests per second"
        )
        if law.peak.value > max(law.levels):
            text += ", which is beyond what was measured"
        return text
    return f"{text}; no peak: {law.peak_reason}"


def _at(law: Law) -> Iterator[tuple[float, float]]:
    """The fitted law at its peak."""
    assert law.peak is not None, "only a law with a peak is asked"
    n = law.peak.value
    a, b, k = law.contention.value, law.coherency.value, law.single_rps.value
    yield n, k * n / (1 + a * (n - 1) + b * n * (n - 1))


def _percent(span: Span) -> str:
    return f"{100 * span.value:.2f} % [{100 * span.low:.2f}, {100 * span.high:.2f}]"


def _parts(span: Span) -> str:
    return f"{1e6 * span.value:.3g} [{1e6 * span.low:.3g}, {1e6 * span.high:.3g}]"


def _sustained_sentence(climb: Climb) -> str:
    name, low, top = climb.arm.name, climb.rungs[0].level, climb.rungs[-1].level
    if climb.sustained_rps is None:
        return f"{name} did not answer what was offered at the lowest rate, {low:,}/s"
    if climb.sustained_rps == top:
        return f"{name} answered every rate offered, up to {top:,}/s: its limit lies above"
    following = next(r.level for r in climb.rungs if r.level > climb.sustained_rps)
    return (
        f"{name} answered all that was offered up to {climb.sustained_rps:,}/s, and not at"
        f" {following:,}/s"
    )


def _flags(run: Run, sweep: Sweep, climbs: Sequence[Climb]) -> Iterator[Flag]:
    for climb in climbs:
        for broken in climb.breakdowns:
            times = "once" if len(broken.trials) == 1 else f"{len(broken.trials)} times"
            yield Flag(
                weight=Weight.PROBLEM,
                title=f"{climb.arm.name} failed {times}",
                text=broken.reason,
                detail=broken.stderr,
            )
    if run.cores.shared:
        yield Flag(
            weight=Weight.CAUTION,
            title="Servers and stopwatch shared cores",
            text="No law is fitted to what may be the stopwatch's own contention.",
        )
    if sweep.axis is Axis.WORKERS:
        cores = len(run.cores.server)
        yield Flag(
            weight=Weight.NOTE,
            title="What a worker is here",
            text=(
                f"Each level has as many workers as cores, up to the {cores} that the server was"
                " given. What is said of cores is not said of hosts, which share less and agree"
                " over a network."
                + (" Two of its cores may be threads of one." if run.machine.smt else "")
            ),
        )
