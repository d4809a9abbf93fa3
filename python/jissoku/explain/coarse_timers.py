"""A delayed response is sent later than requested."""

from jissoku.explain import delayed_acknowledgement
from jissoku.explain.phrasing import format_time
from jissoku.model.explanation import Finding, Observations

# A wait in whole milliseconds is late by one, and a busy machine by another.
LATE_NS_MAX = 5_000_000


def diagnose(observed: Observations) -> Finding | None:
    """Compares the lateness of isolated delayed answers with a limit."""
    timers = observed.timers
    if timers is None or timers.lateness_ns < LATE_NS_MAX:
        return None
    if delayed_acknowledgement.diagnose(observed) is not None:
        return None  # The answer waits for the acknowledgement, and not for a timer.
    return Finding(
        name="coarse-timers",
        cause="Timers are coarse: a delayed answer comes milliseconds late although nothing else "
        "is to be done.",
        evidence=(f"{format_time(timers.lateness_ns)} late at the median of lone delayed answers",),
        falsified_by="the same lateness on a machine with nothing else to do and a finer timer",
        effect=f"{format_time(timers.lateness_ns)} less wait for each delayed answer",
        remedy="wait until the earliest deadline (epoll_pwait2(2) takes nanoseconds), not in ticks",
    )
