"""More is asked for than can be answered, so requests wait in line."""

from jissoku.explain.words import micro
from jissoku.model.finding import About, Finding
from jissoku.model.observed import Observed

ACHIEVED_MIN = 0.99


def find(observed: Observed) -> Finding | None:
    """Compares what an open loop offered with what was answered."""
    load = observed.load
    if load is None or not load.rate_rps_offered or not load.duration_ns:
        return None
    achieved = load.requests * 1e9 / load.duration_ns
    if achieved >= ACHIEVED_MIN * load.rate_rps_offered:
        return None
    return Finding(
        name="queueing",
        cause="More is asked for than the target answers, and the rest waits in line.",
        evidence=(
            f"{achieved:,.0f} answers per second of {load.rate_rps_offered:,.0f} asked for",
            f"latency at the 99th percentile: {micro(load.latency_ns_p99)}",
        ),
        refuted_by="the whole rate answered with more connections",
        effect="below its capacity the target's latency is its own; above it, the line's length",
        remedy="ask for less, or look at the other causes: capacity is what they take away",
        about=About.MEASUREMENT,
    )
