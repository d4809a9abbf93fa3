"""The logarithms, by block, of the quantities that claims speak of."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from jissoku.model import Bound, Counts, Kind, Lane, Run, Trial
from jissoku.model.experiment import Figures
from jissoku.stats import latency, saturation
from jissoku.stats.inequality import COUNTED, Quantity
from jissoku.stats.pairing import pairing
from jissoku.stats.readings import Readings, lane_of, log_cost, log_together, readings

Logs = Mapping[int, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Campaign:
    """One workload's records.

    Attributes:
        counters: What was counted per request, by arm; empty where nothing counted.
    """

    run: Run
    trials: tuple[Trial, ...]
    counters: Mapping[str, Counts]

    @property
    def readings(self) -> Readings:
        """The trials that count."""
        return readings(self.trials)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What one workload contributes to an inequality: log ratios by block.

    Attributes:
        log_allowance: By which the interval is widened each way because rates differed.
    """

    logs: Logs
    log_allowance: float = 0.0


def part(campaign: Campaign, above: Sequence[Quantity], below: Sequence[Quantity]) -> Part:
    """The log of the quantities above over those below, all of one workload, block by block.

    The costs of two arms are taken from where they can be told apart best, their duets; everything
    else is paired by block, in which the trials ran one after the other.
    """
    known = campaign.readings
    if [q.metric for q in (*above, *below)] == ["cost", "cost"] and len(above) == 1:
        found = pairing(known, above[0].arm, below[0].arm, campaign.run.reference)
        return Part(logs=found.logs, log_allowance=found.log_allowance)
    signed = [(1, logs(known, q)) for q in above] + [(-1, logs(known, q)) for q in below]
    shared = set.intersection(*(set(found) for _, found in signed))
    return Part(
        logs={block: sum(sign * one[block] for sign, one in signed) for block in sorted(shared)}
    )


def printed(figures: Figures, above: Sequence[Quantity], below: Sequence[Quantity]) -> Part:
    """The log of a bench's figures above over those below, round by round."""
    signed = [(1, _name(q)) for q in above] + [(-1, _name(q)) for q in below]
    return Part(
        logs={
            index: sum(sign * math.log(found[name]) for sign, name in signed)
            for index, found in enumerate(figures.rounds)
        }
    )


def count(counts: Counts, metric: str) -> float | None:
    """One count per request; None when it could not be watched, which is not zero."""
    metric, _, name = metric.partition(".")
    if metric != "calls":
        return counts.per_request.get(metric)
    if counts.calls_reason:
        return None
    if name:
        return counts.per_request.get(name, 0.0)
    return sum(n for one, n in counts.per_request.items() if one not in COUNTED)


def _name(quantity: Quantity) -> str:
    return quantity.metric.partition(".")[2]


def logs(known: Readings, quantity: Quantity) -> dict[int, float]:
    """One quantity's logarithm in each block; blocks that lack it are left out."""
    arm = quantity.arm
    if quantity.metric == "cost":
        return _costs(known, arm)
    rates = known.with_arm(Kind.SOLO_RATE, arm)
    if quantity.metric == "rate":
        return _each(rates, arm, lambda lane: lane.requests / lane.duration_ns * 1e9)
    if quantity.metric == "together":
        found = {trial.block: log_together(trial, arm) for trial in rates}
        return {block: value for block, value in found.items() if value is not None}
    if quantity.metric == "memory":
        return _each(rates, arm, lambda lane: lane.rss_bytes_peak or 0)
    paced = known.with_arm(Kind.SOLO_COST, arm) or rates
    fraction = {"p50": 0.50, "p99": 0.99}[quantity.metric]
    return _each(paced, arm, lambda lane: _latency(lane, fraction))


def bound(campaign: Campaign, arm: str) -> Bound:
    """What held down the closed-loop rate of an arm."""
    trials = campaign.readings.with_arm(Kind.SOLO_RATE, arm)
    return saturation.bound_of_all(t.conditions for t in trials if t.conditions)


def errors(campaign: Campaign, arm: str) -> int | None:
    """Failed requests in the trials that count; None when none of them counts."""
    lanes = [lane_of(trial, arm) for trial in campaign.trials if trial.counts]
    known = [sum(lane.errors.values()) for lane in lanes if lane is not None]
    return sum(known) if known else None


def _costs(known: Readings, arm: str) -> dict[int, float]:
    """From duets, averaged where a block holds several; else from solo trials."""
    trials = known.with_arm(Kind.DUET, arm) or known.with_arm(Kind.SOLO_COST, arm)
    blocks: dict[int, list[float]] = {}
    for trial in trials:
        cost = log_cost(trial, arm)
        if cost is not None:
            blocks.setdefault(trial.block, []).append(cost)
    return {block: sum(costs) / len(costs) for block, costs in blocks.items()}


def _each(trials: Iterable[Trial], arm: str, value: Callable[[Lane], float]) -> dict[int, float]:
    found = {}
    for trial in trials:
        lane = lane_of(trial, arm)
        if lane is not None and lane.requests and value(lane) > 0:
            found[trial.block] = math.log(value(lane))
    return found


def _latency(lane: Lane, fraction: float) -> float:
    """Zero, which is no figure, where too few answers lie above the percentile."""
    if not latency.is_supported(fraction, lane.requests):
        return 0.0
    return float(lane.latency_ns.p50 if fraction == 0.50 else lane.latency_ns.p99)
