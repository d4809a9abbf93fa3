"""Other programs on the cores of a measurement: a condition of its result.

They are never a reason to refuse one.
Beside other programs a ratio is drawn towards 1: a core that is in use wakes cheaply, and late
wake-ups answer several requests at once. Order and sign were right in every run that was compared
with one on a quiet core; so the result stands, and names its condition.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from jissoku.inference.trial_checks import STEAL_BUSY_MIN, STEP_NS
from jissoku.model import Condition, MachineConditions, Trial

# Up to the first share two thirds of the kept records were measured, which are called quiet; a
# single busy program takes half of a core from a server that is as busy, and more from others.
SHARED_MIN = 0.05
BUSY_MIN = 0.40


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The mean share of the cores' time that other programs used, and its class."""

    share: float = 0.0

    @property
    def condition(self) -> Condition:
        """Results of two classes are never compared or pooled."""
        if self.share > BUSY_MIN:
            return Condition.BUSY
        return Condition.SHARED if self.share > SHARED_MIN else Condition.QUIET


def neighbours(trials: Iterable[Trial]) -> Neighbours:
    """What ran beside these trials, of those that recorded it."""
    shares = [trial_share(trial) for trial in trials if trial.conditions is not None]
    return Neighbours(round(sum(shares) / len(shares), 3)) if shares else Neighbours()


def trial_share(trial: Trial) -> float:
    """The share of the more used side: the server's cores, or the load generator's.

    The load generator polls, so the time in which it waits for its core is what others used of it.
    """
    seen = trial.conditions
    if seen is None:
        return 0.0
    rounding = STEP_NS / trial.window_ns
    foreign = max(0.0, (seen.foreign_fraction or 0.0) - rounding)
    waited = (seen.generator_wait_fraction or 0.0) if seen.generator_busy_polls else 0.0
    return min(1.0, max(foreign, waited, _stolen(seen) - rounding))


def _stolen(seen: MachineConditions) -> float:
    """Steal time of cores that had work all the time; at wake-ups it is part of the cost."""
    busy = seen.server_cores_busy_fraction
    return (seen.steal_fraction or 0.0) if busy is not None and busy >= STEAL_BUSY_MIN else 0.0


def is_quiet(trial: Trial) -> bool:
    """Whether a trial had the cores nearly to itself."""
    return neighbours([trial]).condition is Condition.QUIET
