"""The loads at which arms are compared: fixed rates, so that runs are comparable."""

from collections.abc import Mapping, Sequence

from jissoku.model import Load, LoadLevel, Mode, Trial, rate_grid

# Requests per second for each core of the server. The pilot only says which of these an arm can
# reach; it never moves them.
LIGHT, MIDDLE, HEAVY = 1_000, 5_000, 20_000
LOADS = {
    Mode.QUICK: ((LIGHT, LoadLevel.LIGHT), (MIDDLE, LoadLevel.MEDIUM), (HEAVY, LoadLevel.HEAVY)),
    Mode.STANDARD: tuple(
        (
            rate,
            LoadLevel.LIGHT
            if rate < MIDDLE
            else LoadLevel.MEDIUM
            if rate < HEAVY
            else LoadLevel.HEAVY,
        )
        for rate in rate_grid(LIGHT, 100_000)
    ),
}

# An arm reaches a rate that is at most this part of its closed-loop rate: full load is asked for at
# 85 to 90 %, and a pilot that errs by a tenth moves no arm from one grid point to the next.
LOAD_MAX = 0.9

# If too few arms reach the light load, all rates are divided by this factor.
DECADE = 10


def capacities_of(trials: Sequence[Trial]) -> dict[str, float]:
    """Closed-loop rate of each arm, in requests per second; the best of its attempts.

    Disturbed trials are precise enough for this.
    """
    found: dict[str, float] = {}
    for trial in trials:
        for measurement in trial.measurements:
            rate = measurement.requests / measurement.duration_ns * 1e9
            found[measurement.arm] = max(rate, found.get(measurement.arm, 0.0))
    return found


def loads(
    capacities: Mapping[str, float], arms: Sequence[str], mode: Mode, cores: int, *, needed: int = 2
) -> tuple[Load, ...]:
    """The loads of a run, lightest first: those of the mode that enough arms reach.

    Args:
        capacities: Closed-loop rate of each arm alone, in requests per second.
        arms: The compared arms.
        cores: Of the server; rates of the grid are for each of them.
        needed: Number of arms that have to reach a load, at most all whose capacity is known.
    """
    known = sorted((rate for name in arms if (rate := capacities.get(name, 0.0)) > 0), reverse=True)
    if len(known) < 2:
        return ()
    reached = known[min(needed, len(known)) - 1] * LOAD_MAX
    # An integer, because a factor that is divided again and again is no longer exact, and a rate
    # that ends in a half would be rounded either way.
    divisor = 1
    while reached < LIGHT * cores / divisor:
        divisor *= DECADE
    asked = [
        Load(rate_rps=max(1, round(rate * cores / divisor)), level=level)
        for rate, level in LOADS[mode]
    ]
    return tuple(load for load in asked if load.rate_rps and load.rate_rps <= reached)


def reaching(load: Load, capacities: Mapping[str, float], arms: Sequence[str]) -> tuple[str, ...]:
    """The arms that are measured at a load; all of them if capacities are unknown."""
    rate = load.rate_rps
    if rate is None:
        return tuple(arms)
    return tuple(name for name in arms if capacities.get(name, float("inf")) * LOAD_MAX >= rate)
