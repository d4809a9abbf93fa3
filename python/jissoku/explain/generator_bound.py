"""The stopwatch, not the target, decides how many requests there are."""

from jissoku.model.finding import About, Finding
from jissoku.model.observed import Observed

BUSY_MIN = 0.9


def find(observed: Observed) -> Finding | None:
    """Looks at the stopwatch's busiest thread; in an open loop it is busy on purpose."""
    load = observed.load
    if load is None or load.rate_rps_offered is not None or load.generator_busy_fraction < BUSY_MIN:
        return None
    return Finding(
        name="generator-bound",
        cause="The load generator has no time left, so the rate is its own and not the target's.",
        evidence=(
            f"its busiest thread was at work {load.generator_busy_fraction:.0%} of the time",
        ),
        refuted_by="the same rate from two generators at once",
        effect="none on the target: CPU time per request holds, and the rate is a lower bound",
        remedy="judge the target by CPU time per request, or give the generator more cores",
        about=About.MEASUREMENT,
    )
