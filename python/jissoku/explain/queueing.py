"""The load exceeds the capacity, so requests wait in a queue."""

from jissoku.explain.phrasing import format_time
from jissoku.model.explanation import Finding, FindingScope, Observations

ACHIEVED_MIN = 0.99


def diagnose(observed: Observations) -> Finding | None:
    """Compares the offered rate of an open loop with the answered rate."""
    load = observed.load
    if load is None or not load.rate_rps_offered or not load.duration_ns:
        return None
    achieved = load.requests * 1e9 / load.duration_ns
    if achieved >= ACHIEVED_MIN * load.rate_rps_offered:
        return None
    return Finding(
        name="queueing",
        cause="The offered rate exceeds the target's capacity; requests queue.",
        evidence=(
            f"{achieved:,.0f} answers per second of {load.rate_rps_offered:,.0f} offered",
            f"latency at the 99th percentile: {format_time(load.latency_ns_p99)}",
        ),
        falsified_by="the whole rate answered with more connections",
        effect="below its capacity the target's latency is its own; above it, the line's length",
        remedy="lower the rate, or remove the other causes, which reduce capacity",
        scope=FindingScope.MEASUREMENT,
    )
