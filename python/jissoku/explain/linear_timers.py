"""The cost of a request grows with the number of others that wait."""

from jissoku.explain.words import micro
from jissoku.model.finding import Finding
from jissoku.model.observed import Observed, Timers

# Waiting connections bring memory of their own into play; a list gone through, their number.
GROWTH_MIN = 1.5


def find(observed: Observed) -> Finding | None:
    """Compares CPU time per request beside idle connections and beside waiting ones."""
    timers = observed.timers
    if timers is None or timers.growth < GROWTH_MIN:
        return None
    return Finding(
        name="linear-timers",
        cause=(
            "A request costs the more, the more others wait: the timers are gone through one by "
            "one."
        ),
        evidence=(
            (
                f"{micro(timers.cpu_ns_waiting)} of CPU time per request while "
                f"{timers.waiting:,} others waited, {micro(timers.cpu_ns_idle)} while as many "
                "connections were open and idle"
            ),
            *_aside(timers),
        ),
        refuted_by="the same with waiting connections whose timers are in a heap",
        effect=(
            f"{micro(timers.cpu_ns_waiting * (1 - 1 / timers.growth))} less per request with "
            f"{timers.waiting:,} waiting"
        ),
        remedy="keep timers in a heap or a wheel",
    )


def _aside(timers: Timers) -> tuple[str, ...]:
    if not timers.aside_ns_idle:
        return ()
    return (
        (
            f"a second copy beside nobody, loaded in the same moments, took "
            f"{micro(timers.aside_ns_waiting)} and {micro(timers.aside_ns_idle)}"
        ),
    )
