"""The load generator, not the target, limits the rate."""

from jissoku.model.explanation import Finding, FindingScope, Observations

BUSY_MIN = 0.9


def diagnose(observed: Observations) -> Finding | None:
    """Checks the load generator's busiest thread, unless it busy-polls as in an open loop."""
    load = observed.load
    if load is None or load.rate_rps_offered is not None or load.generator_busy_fraction < BUSY_MIN:
        return None
    return Finding(
        name="generator-bound",
        cause="The load generator has no time left, so the rate is its own and not the target's.",
        evidence=(
            f"its busiest thread was at work {load.generator_busy_fraction:.0%} of the time",
        ),
        falsified_by="the same rate from two generators at once",
        effect="none on the target: CPU time per request holds, and the rate is a lower bound",
        remedy="judge the target by CPU time per request, or give the generator more cores",
        scope=FindingScope.MEASUREMENT,
    )
