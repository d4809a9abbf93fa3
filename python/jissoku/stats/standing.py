"""Everything that is known of one arm."""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from jissoku.model import (
    Arm,
    Breakdown,
    Consequence,
    Dot,
    Estimate,
    Kind,
    Lane,
    Standing,
    Status,
    Trial,
)
from jissoku.stats import estimate, latency, saturation
from jissoku.stats.compare import Evidence, find
from jissoku.stats.readings import Readings, lane_of, log_cost, rates_of
from jissoku.stats.verdict import BLOCKS_MIN


@dataclass(frozen=True, slots=True)
class Count:
    """An arm's trials."""

    status: Status
    breakdowns: tuple[Breakdown, ...]
    counted: int
    total: int


def count(trials: Sequence[Trial], arm: str) -> Count:
    """Whether an arm has figures, and what went wrong with it.

    An arm that broke, and has fewer blocks than a verdict needs, has no figures at all: the trials
    in which a failing target did not fail are not a fair sample of it.
    """
    ours = [trial for trial in trials if arm in trial.arms]
    kind = next((one for one in Kind if any(trial.kind is one for trial in ours)), Kind.DUET)
    blocks = {trial.block for trial in ours if trial.kind is kind and trial.counts}
    failures = [t for t in ours if t.failure is not None and t.failure.arm == arm]
    wrong = [trial for trial in ours if _invalid_reasons(trial, arm)]
    status = Status.MEASURED if blocks else Status.UNMEASURED
    if len(blocks) < BLOCKS_MIN:
        if (not blocks and failures) or any(trial.kind is kind for trial in failures):
            status = Status.FAILED
        elif (not blocks and wrong) or any(trial.kind is kind for trial in wrong):
            status = Status.INVALID
    counted = sum(trial.counts for trial in ours)
    return Count(status, _breakdowns(failures, wrong, arm), counted, len(ours))


def _invalid_reasons(trial: Trial, arm: str) -> list[str]:
    return [
        gate.message
        for gate in trial.gates
        if gate.consequence is Consequence.INVALID and gate.arm in ("", arm)
    ]


def _breakdowns(
    failures: Iterable[Trial], wrong: Iterable[Trial], arm: str
) -> tuple[Breakdown, ...]:
    """The same reason is told once, with all its trials and the last thing the target wrote."""
    found: dict[tuple[str, str], Breakdown] = {}
    for trial in failures:
        if trial.failure is not None:
            key = (str(trial.failure.stage), trial.failure.reason)
            _add(found, key, trial, trial.failure.stderr)
    for trial in wrong:
        for reason in _invalid_reasons(trial, arm):
            _add(found, ("", reason), trial, "")
    return tuple(found.values())


def _add(
    found: dict[tuple[str, str], Breakdown], key: tuple[str, str], trial: Trial, stderr: str
) -> None:
    known = found.get(key, Breakdown(stage=key[0], reason=key[1]))
    found[key] = replace(known, stderr=stderr or known.stderr, trials=(*known.trials, trial.index))


def standing(evidence: Evidence, arm: Arm, counted: Count, unit: str) -> Standing:
    """All figures of one arm, none of them from a trial that does not count.

    `unit` is the name of the arm that multiples refer to; empty for none.
    """
    bare = Standing(
        arm=arm,
        status=counted.status,
        breakdowns=counted.breakdowns,
        trials_counted=counted.counted,
        trials_total=counted.total,
    )
    if counted.status is not Status.MEASURED:
        return bare
    return _with_multiple(_with_solo(_with_cost(bare, evidence.readings), evidence), evidence, unit)


def _with_cost(bare: Standing, known: Readings) -> Standing:
    name = bare.arm.name
    trials = known.with_arm(Kind.DUET, name) or known.with_arm(Kind.SOLO_COST, name)
    if not trials:
        return bare
    rate = rates_of(trials)[0]
    trials = [trial for trial in trials if trial.workload.rate_rps == rate]
    return replace(
        bare,
        cost_ns=estimate.level(_by_block(trials, name)),
        cost_rate_rps=rate,
        connections=trials[0].workload.connections,
    )


def _by_block(trials: Iterable[Trial], name: str) -> list[float]:
    """One log cost per block; the reference has several duets in each, which are averaged."""
    blocks: dict[int, list[float]] = {}
    for trial in trials:
        cost = log_cost(trial, name)
        if cost is not None:
            blocks.setdefault(trial.block, []).append(cost)
    return [statistics.fmean(costs) for _, costs in sorted(blocks.items())]


def _user_fraction(lanes: Iterable[Lane]) -> float | None:
    user = total = 0.0
    for lane in lanes:
        if lane.cpu_user_fraction is not None and lane.cpu_ns:
            user += lane.cpu_user_fraction * lane.cpu_ns
            total += lane.cpu_ns
    return user / total if total else None


def _with_solo(known: Standing, evidence: Evidence) -> Standing:
    name = known.arm.name
    rate_trials = evidence.readings.with_arm(Kind.SOLO_RATE, name)
    cost_trials = evidence.readings.with_arm(Kind.SOLO_COST, name)
    rates = [
        math.log(lane.requests / lane.duration_ns * 1e9)
        for lane in _lanes(rate_trials, name)
        if lane.requests and lane.duration_ns
    ]
    quiet = _lanes(cost_trials, name)
    memory = [lane.rss_bytes_peak for lane in _lanes(rate_trials, name) or quiet]
    seen = [size for size in memory if size is not None]
    return replace(
        known,
        # At an even pace the kernel's tick meets every request at the same place, and says so: it
        # called 45 % of a server's time user time that a closed loop shows to be 3 %.
        user_fraction=_user_fraction(_lanes(rate_trials, name)),
        rate_rps=estimate.level(rates),
        bound=saturation.bound_of_all(t.conditions for t in rate_trials if t.conditions),
        latency_rate_rps=rates_of(cost_trials)[0] if cost_trials else None,
        percentiles=latency.percentiles(quiet),
        curve=latency.curve(quiet),
        rss_bytes=round(statistics.median(seen)) if seen else None,
    )


def _with_multiple(known: Standing, evidence: Evidence, unit: str) -> Standing:
    name = known.arm.name
    if not unit or known.cost_ns is None:
        return known
    if name == unit:
        blocks = known.cost_ns.blocks
        one = Estimate(value=1.0, low=1.0, high=1.0, blocks=blocks, spread=0.0)
        return replace(known, multiple=one)
    found = find(evidence, name, unit, 1)
    return replace(
        known,
        multiple=found.comparison.ratio,
        multiple_allowance=found.comparison.allowance,
        multiples=_dots(found.logs) if found.comparison.ratio else (),
    )


def _dots(logs: Mapping[int, float]) -> tuple[Dot, ...]:
    return tuple(Dot(block=block, value=math.exp(log)) for block, log in sorted(logs.items()))


def _lanes(trials: Iterable[Trial], name: str) -> list[Lane]:
    return [lane for trial in trials if (lane := lane_of(trial, name)) is not None]
