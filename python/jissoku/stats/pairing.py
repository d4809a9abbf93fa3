"""Where a pair's ratio comes from: their duet, two duets with a third arm, or solo trials."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from jissoku.model import Kind, Source, Trial
from jissoku.stats.readings import Readings, differences, log_cost, log_ratios, rates_of
from jissoku.stats.verdict import BLOCKS_MIN

# A cost belongs to its rate: the same pair reads 1.3 to 1.8 times between regimes.
# Where two arms were measured at different rates the interval has to leave room for that.
ALLOWANCE = 1.8


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairing:
    """Log ratios of one pair, by block, and under what they were measured."""

    logs: Mapping[int, float]
    source: Source
    through: str = ""
    rates_rps: tuple[int | None, ...] = ()
    connections: int = 0

    @property
    def allowance(self) -> float:
        """Factor each way by which the interval must be widened; 1 is none."""
        return ALLOWANCE if len(self.rates_rps) > 1 else 1.0

    @property
    def log_allowance(self) -> float:
        """The same as a natural logarithm."""
        return math.log(self.allowance)


def pairing(readings: Readings, arm: str, against: str, reference: str) -> Pairing:
    """The sharpest source with enough blocks for a verdict, or else the one with most blocks.

    A pair's own duet is sharper than two duets with a third arm, whose errors add up; solo trials
    are the last resort.
    """
    sources = [_direct(readings, arm, against)]
    if reference not in (arm, against):
        sources.append(_through(readings, arm, against, reference))
    sources.append(_solo(readings, arm, against))
    enough = [found for found in sources if len(found.logs) >= BLOCKS_MIN]
    return enough[0] if enough else max(sources, key=lambda found: len(found.logs))


def _direct(readings: Readings, arm: str, against: str) -> Pairing:
    trials = readings.of(Kind.DUET, arm, against)
    return _pairing(log_ratios(trials, arm, against), Source.DUET, [trials])


def _through(readings: Readings, arm: str, against: str, reference: str) -> Pairing:
    ours = readings.of(Kind.DUET, arm, reference)
    theirs = readings.of(Kind.DUET, against, reference)
    logs = differences(log_ratios(ours, arm, reference), log_ratios(theirs, against, reference))
    return _pairing(logs, Source.REFERENCE, [ours, theirs], reference)


def _solo(readings: Readings, arm: str, against: str) -> Pairing:
    ours = readings.of(Kind.SOLO_COST, arm)
    theirs = readings.of(Kind.SOLO_COST, against)
    logs = differences(
        {block: log_cost(trial, arm) for block, trial in ours.items()},
        {block: log_cost(trial, against) for block, trial in theirs.items()},
    )
    return _pairing(logs, Source.SOLO, [ours, theirs])


def _pairing(
    logs: Mapping[int, float],
    source: Source,
    sides: list[Mapping[int, Trial]],
    through: str = "",
) -> Pairing:
    used = [side[block] for side in sides for block in logs]
    return Pairing(
        logs=logs,
        source=source,
        through=through,
        rates_rps=rates_of(used),
        connections=used[0].workload.connections if used else 0,
    )
