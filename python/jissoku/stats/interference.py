"""Do two servers in duet disturb each other? The check that solo trials are."""

from collections.abc import Mapping

from jissoku.model import SOLO_LOAD, Kind
from jissoku.stats import estimate, multiple
from jissoku.stats.estimate import Interval
from jissoku.stats.readings import Readings, differences, log_cost

PAIRS_MIN = 3

# The check can only do harm when it is wrong: it replaces a sharp verdict by a blunt one. Three
# noisy solo pairs miss the truth in every twentieth 95 % interval, so it asks for more.
ALPHA = 0.01


def solo_log_ratios(
    readings: Readings, arm: str, against: str, rate_rps: int | None
) -> dict[int, float]:
    """ln(cost ratio) of both arms alone, each with the load of a duet at this rate, by block."""
    wanted = None if rate_rps is None else SOLO_LOAD * rate_rps

    def costs(name: str) -> Mapping[int, float | None]:
        trials = readings.of(Kind.SOLO_COST, name)
        return {
            block: log_cost(trial, name)
            for block, trial in trials.items()
            if trial.workload.rate_rps == wanted
        }

    return differences(costs(arm), costs(against))


def contradicts(duet: Interval, solo_logs: Mapping[int, float], comparisons: int) -> bool:
    """Whether solo pairs exclude what the duets say, with all comparisons of the run counted.

    `duet` is the duets' 95 % interval of the log ratio; fewer than three solo pairs contradict
    nothing.
    """
    if len(solo_logs) < PAIRS_MIN:
        return False
    confidence = 1 - ALPHA * (1 - multiple.confidence(comparisons)) / multiple.ALPHA
    return estimate.t_interval(list(solo_logs.values()), confidence).excludes(duet)
