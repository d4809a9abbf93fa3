"""A delayed answer comes later than it was asked for."""

from jissoku.explain import delayed_acknowledgement
from jissoku.explain.words import micro
from jissoku.model.finding import Finding
from jissoku.model.observed import Observed

# A wait in whole milliseconds is late by one, and a busy machine by another.
LATE_NS_MAX = 5_000_000


def find(observed: Observed) -> Finding | None:
    """Looks at lone delayed answers."""
    timers = observed.timers
    if timers is None or timers.late_ns < LATE_NS_MAX:
        return None
    if delayed_acknowledgement.find(observed) is not None:
        return None  # The answer waits for that, and not for a timer.
    return Finding(
        name="coarse-timers",
        cause="Timers are coarse: a delayed answer comes milliseconds late although nothing else "
        "is to be done.",
        evidence=(f"{micro(timers.late_ns)} late at the median of lone delayed answers",),
        refuted_by="the same lateness on a machine with nothing else to do and a finer timer",
        effect=f"{micro(timers.late_ns)} less wait for each delayed answer",
        remedy="wait until the earliest deadline (epoll_pwait2(2) takes nanoseconds), not in ticks",
    )
